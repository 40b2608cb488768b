"""What is read from /proc/self/mountinfo: mount points and control group hierarchies."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypercobalt.lab import cgroups, mounts

_HEAD = "29 1 0:26 / {} rw,relatime shared:1 - {} {} rw{}"


def line(point: str, kind: str = "tmpfs", source: str = "none", options: str = "") -> str:
    return _HEAD.format(point, kind, source, options)


def test_mount_points_are_read_in_their_order_and_unescaped() -> None:
    text = "\n".join([line("/"), line(r"/a\040b\134c"), line("/a"), "", "too few fields"])
    assert mounts.parse(text) == (Path("/"), Path("/a b\\c"), Path("/a"))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([line("/sys/fs/cgroup", "cgroup2")], ["/sys/fs/cgroup"], id="unified"),
        pytest.param(
            [
                line("/sys/fs/cgroup/cpu", "cgroup", "cgroup", ",cpu"),
                line("/sys/fs/cgroup/memory", "cgroup", "cgroup", ",memory"),
                line("/sys/fs/cgroup/systemd", "cgroup", "cgroup", ",xattr,name=systemd"),
                line("/sys/fs/cgroup/unified", "cgroup2", "cgroup2"),
            ],
            ["/sys/fs/cgroup/memory", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"],
            id="hybrid",
        ),
        pytest.param([line("/sys", "sysfs")], [], id="none"),
    ],
)
def test_a_host_gets_a_group_where_systemd_keeps_its_own_and_where_memory_is_counted(
    lines: list[str], expected: list[str]
) -> None:
    assert [str(path) for path in cgroups.hierarchies("\n".join(lines))] == expected


def test_host_with_bounds_has_groups_in_more_hierarchies() -> None:
    lines = [
        line(f"/sys/fs/cgroup/{name}", "cgroup", "cgroup", f",{name}") for name in ("cpu", "blkio")
    ]
    assert list(map(str, cgroups.hierarchies("\n".join(lines), cgroups.BOUNDS))) == [
        "/sys/fs/cgroup/cpu"
    ]
