"""Kills at a pod's memory limit are read from the pod's own control group."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypercobalt.virt.handler.memory import killed_at_limit

POD = "9f1c1f8e-3f0e-4b2a-9c57-0d6f2f3f7a11"
UNIT = f"system.slice/hypercobalt-pod-{POD}.service"
SCOPE = f"kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-1.scope"


def machine(tmp_path: Path, membership: str, files: dict[str, str]) -> bool:
    proc, groups = tmp_path / "proc", tmp_path / "groups"
    (proc / "7").mkdir(parents=True)
    (proc / "7/cgroup").write_text(membership)
    for name, content in files.items():
        file = groups / name
        file.parent.mkdir(parents=True)
        file.write_text(content)
    return killed_at_limit(POD, 7, proc=proc, groups=groups)


@pytest.mark.parametrize(
    ("membership", "file", "content", "killed"),
    [
        (f"4:memory:/{UNIT}\n", f"memory/{UNIT}/memory.oom_control", "oom_kill 1\n", True),
        (f"4:memory:/{UNIT}\n", f"memory/{UNIT}/memory.oom_control", "oom_kill 0\n", False),
        (f"0::/{SCOPE}\n", f"{SCOPE}/memory.events", "oom 2\noom_kill 2\n", True),
        (f"0::/{SCOPE}\n", f"{SCOPE}/memory.events", "oom 2\noom_kill 0\n", False),
        ("4:memory:/other\n", "memory/other/memory.oom_control", "oom_kill 1\n", False),
        (f"1:name=systemd:/{UNIT}\n", f"{UNIT}/memory.events", "oom_kill 1\n", False),
        ("nonsense\n", "memory/memory.oom_control", "oom_kill 1\n", False),
    ],
    ids=["v1", "v1-none", "v2", "v2-none", "of-another", "other-hierarchy", "nonsense"],
)
def test_kills_of_the_own_group_count(
    tmp_path: Path, membership: str, file: str, content: str, *, killed: bool
) -> None:
    assert machine(tmp_path, membership, {file: content}) is killed


def test_what_cannot_be_read_is_no_kill(tmp_path: Path) -> None:
    assert not machine(tmp_path, f"4:memory:/{UNIT}\n0::/{UNIT}\n", {})
    assert not killed_at_limit(POD, 8, proc=tmp_path, groups=tmp_path)
    assert not killed_at_limit(POD, 0, proc=tmp_path, groups=tmp_path)
