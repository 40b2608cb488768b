"""Results of a host's reads and writes, for each fault of its storage."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

import pytest

from hypercobalt.lab.storage.faults import FaultFiles, StorageFault
from hypercobalt.lab.storage.files import Files
from hypercobalt.lab.storage.fuse import ROOT, FuseRequest, Op
from hypercobalt.lab.storage.server import Storage

HEALTHY, BROKEN = 1, 2  # threads, one in each of two hosts
LATER = "later"


class Hosts:
    """Two hosts with one disk open, and a storage that fails for the second."""

    def __init__(self, folder: Path) -> None:
        (folder / "files" / "vms").mkdir(parents=True)
        (folder / "files" / "vms" / "a.img").write_bytes(b"x" * 4096)
        self.faults = FaultFiles(folder / "faults")
        self.storage = Storage(Files(folder / "files"), self.faults, lambda pid: f"hc0-{pid}")
        self._unique = 0
        self.folder = self.node(ROOT, b"vms")
        self.disk = self.node(self.folder, b"a.img")
        self.handle = self.number(Op.OPEN, self.disk, struct.pack("<II", os.O_RDWR, 0))

    def request(self, op: int, node: int, body: bytes, pid: int = HEALTHY) -> FuseRequest:
        self._unique += 1
        return FuseRequest(op, self._unique, node, 0, 0, pid, body)

    def node(self, parent: int, name: bytes) -> int:
        return self.number(Op.LOOKUP, parent, name + b"\0")

    def number(self, op: int, node: int, body: bytes) -> int:
        (answer,) = self.storage.take(self.request(op, node, body))
        return int(struct.unpack_from("<Q", answer, 16)[0])

    def break_(self, fault: StorageFault | None) -> list[bytes]:
        self.faults.write(f"hc0-{BROKEN}", fault)
        return self.storage.look()

    def outcome(self, op: Op, pid: int, offset: int = 0) -> str:
        data = struct.pack("<QQIIQII", self.handle, offset, 8, 0, 0, 0, 0) + b"12345678"
        bodies = {
            Op.READ: (self.disk, data[:40]),
            Op.WRITE: (self.disk, data),
            Op.OPEN: (self.disk, struct.pack("<II", os.O_RDONLY, 0)),
            Op.LOOKUP: (self.folder, b"a.img\0"),
            Op.RELEASE: (self.disk, struct.pack("<QIIQ", os.dup(self.handle), 0, 0, 0)),
        }
        answers = self.storage.take(self.request(op, *bodies[op], pid))
        return error(answers[0]) if answers else LATER


def error(answer: bytes) -> str:
    number = -struct.unpack_from("<i", answer, 4)[0]
    return errno.errorcode[number] if number else "done"


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    return Hosts(tmp_path)


ALL = (Op.LOOKUP, Op.OPEN, Op.READ, Op.WRITE, Op.RELEASE)


@pytest.mark.parametrize(
    ("fault", "outcomes"),
    [
        pytest.param(StorageFault.CUT, [LATER, LATER, LATER, LATER, "done"], id="cut"),
        pytest.param(StorageFault.HANG, ["done", "done", LATER, LATER, "done"], id="hang"),
        pytest.param(StorageFault.DENY, ["done", "EIO", "EIO", "EIO", "done"], id="deny"),
        pytest.param(StorageFault.FULL, ["done", "done", "done", "done", "done"], id="full"),
    ],
)
def test_a_fault_fails_for_its_host_alone(
    hosts: Hosts, fault: StorageFault, outcomes: list[str]
) -> None:
    hosts.break_(fault)
    assert [hosts.outcome(op, BROKEN) for op in ALL] == outcomes
    assert [hosts.outcome(op, HEALTHY) for op in ALL] == ["done"] * len(ALL)


def test_a_full_pool_refuses_what_needs_space(hosts: Hosts) -> None:
    hosts.break_(StorageFault.FULL)
    assert hosts.outcome(Op.WRITE, BROKEN, offset=1 << 20) == "ENOSPC"
    assert hosts.outcome(Op.WRITE, HEALTHY, offset=1 << 20) == "done"


def test_waiting_request_is_done_once_the_fault_is_over(hosts: Hosts, tmp_path: Path) -> None:
    hosts.break_(StorageFault.HANG)
    assert hosts.outcome(Op.WRITE, BROKEN) == LATER
    assert (tmp_path / "files" / "vms" / "a.img").read_bytes()[:8] == b"x" * 8

    (answer,) = hosts.break_(None)

    assert error(answer) == "done"
    assert (tmp_path / "files" / "vms" / "a.img").read_bytes()[:8] == b"12345678"
    assert not hosts.storage.is_waited_for


def test_waiting_request_is_refused_once_the_host_is_denied(hosts: Hosts, tmp_path: Path) -> None:
    hosts.break_(StorageFault.CUT)
    assert hosts.outcome(Op.WRITE, BROKEN) == LATER

    (answer,) = hosts.break_(StorageFault.DENY)

    assert error(answer) == "EIO"
    assert (tmp_path / "files" / "vms" / "a.img").read_bytes()[:8] == b"x" * 8


def test_a_killed_process_waits_no_longer(hosts: Hosts) -> None:
    hosts.break_(StorageFault.HANG)
    waiting = hosts.request(Op.READ, hosts.disk, bytes(40), BROKEN)
    assert hosts.storage.take(waiting) == []

    interrupt = hosts.request(Op.INTERRUPT, 0, struct.pack("<Q", waiting.unique), BROKEN)
    (answer,) = hosts.storage.take(interrupt)

    assert error(answer) == "EINTR"
    assert hosts.storage.take(interrupt) == []
    assert hosts.break_(None) == []


def test_logs_beside_the_disks_never_fail(hosts: Hosts, tmp_path: Path) -> None:
    (tmp_path / "files" / "consoles").mkdir()
    hosts.break_(StorageFault.CUT)
    lookup = hosts.request(Op.LOOKUP, ROOT, b"consoles\0", BROKEN)
    assert [error(answer) for answer in hosts.storage.take(lookup)] == ["done"]
