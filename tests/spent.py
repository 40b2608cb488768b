"""What each file of tests costs: seconds of its tests, and seconds of CPU.

The kernel counts the CPU of a process that runs tests with all that this has started, hosts and
their guests too, in a control group of its own. That needs root and the `cpuacct` hierarchy of
cgroups v1; elsewhere the seconds of CPU are not known.

Source: the kernel's Documentation/admin-guide/cgroup-v1/cpuacct.rst.
"""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

import pytest

_SHOWN: Final = 10
_DIGITS: Final = 32
_ATTRIBUTE: Final = "cpu_seconds"
"""An attribute of reports: CPU since the report before. xdist hands it on to the main process."""


class Group:
    """The control group of a process that runs tests.

    Its file stays open: a test may have replaced how files are opened.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._usage = os.open(folder / "cpuacct.usage", os.O_RDONLY)

    @classmethod
    def join(cls) -> Group | None:
        """Move this process into a group of its own; None where that cannot be."""
        above = _own_group()
        if above is None:
            return None
        folder = above / f"tests-{os.getpid()}"
        try:
            folder.mkdir(exist_ok=True)
            _move_to(folder)
        except OSError:
            return None
        return cls(folder)

    def leave(self) -> None:
        """Remove the group; it stays where something that was started there still runs."""
        os.close(self._usage)
        with contextlib.suppress(OSError):
            _move_to(self._folder.parent)
            self._folder.rmdir()

    def seconds(self) -> float:
        return int(os.pread(self._usage, _DIGITS, 0)) / 1e9


def _move_to(folder: Path) -> None:
    (folder / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")


def _own_group() -> Path | None:
    """Where the hierarchy `cpuacct` shows the group that this process is in."""
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    fields = [line.split(" ") for line in mounts.splitlines()]
    where = [one[1] for one in fields if one[2] == "cgroup" and "cpuacct" in one[3].split(",")]
    member = Path("/proc/self/cgroup").read_text(encoding="utf-8", errors="replace")
    lines = [line.split(":", 2) for line in member.splitlines()]
    inside = [path for _, names, path in lines if "cpuacct" in names.split(",")]
    return Path(where[0]) / inside[0].lstrip("/") if where and inside else None


class Meter:
    """A plugin of each process that runs tests: writes into each report what it took."""

    def __init__(self, group: Group) -> None:
        self._group, self._before = group, group.seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self,
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now = self._group.seconds()
        setattr(report, _ATTRIBUTE, now - self._before)
        self._before = now
        return report

    def pytest_collection_finish(self) -> None:
        """Begin here: the first test has not imported all the others."""
        self._before = self._group.seconds()

    def pytest_unconfigure(self) -> None:
        self._group.leave()


class Spent:
    """What the files of one run have taken."""

    def __init__(self) -> None:
        self._wall: defaultdict[str, float] = defaultdict(float)
        self._cpu: defaultdict[str, float] = defaultdict(float)

    def add(self, report: pytest.TestReport) -> None:
        """Count the report of a test's set-up, call or end."""
        file = report.nodeid.partition("::")[0]
        self._wall[file] += report.duration
        self._cpu[file] += getattr(report, _ATTRIBUTE, 0.0)

    def lines(self) -> Iterator[str]:
        """The dearest files, by CPU where that is known, and the sum of all."""
        known = any(self._cpu.values())
        by = self._cpu if known else self._wall
        yield f"{'tests':>8} {'CPU':>8}   seconds"
        for file in sorted(self._wall, key=lambda file: by[file], reverse=True)[:_SHOWN]:
            yield _line(self._wall[file], self._cpu[file] if known else None, file)
        cpu = sum(self._cpu.values()) if known else None
        yield _line(sum(self._wall.values()), cpu, "all files")


def _line(wall: float, cpu: float | None, name: str) -> str:
    return f"{wall:8.1f} {'-' if cpu is None else f'{cpu:.1f}':>8}   {name}"
