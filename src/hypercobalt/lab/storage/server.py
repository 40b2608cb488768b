"""Serves the directory that the hosts share, with faults for single hosts.

    python -m hypercobalt.lab.storage.server FILES MOUNT_POINT FAULTS

One mount for all hosts: the kernel keeps the locks of their QEMUs in it, and each request carries
the thread that makes it, whose control group names its host. A request that a host is not to get
an answer to is kept, and done when the fault is repaired; a process that is killed meanwhile ends.

libvirt takes a disk for shared, and migrates without copying it, only on a network file system; a
FUSE mount whose subtype is glusterfs counts as one.

Source: mount(2), fuse(4), proc_pid_cgroup(5).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hypercobalt.lab import cgroups
from hypercobalt.lab.notify_ready import notify_ready
from hypercobalt.lab.storage import fuse
from hypercobalt.lab.storage.faults import FaultFiles, StorageFault
from hypercobalt.lab.storage.files import Files
from hypercobalt.lab.storage.fuse import FuseRequest, Op

_NOSUID_NODEV = 2 | 4
_LOOK_MILLISECONDS = 100  # at the faults, while requests wait
_DATA = frozenset({Op.READ, Op.WRITE, Op.FSYNC, Op.FALLOCATE})
_OPENS = frozenset({Op.OPEN, Op.CREATE})
# The kernel's own bookkeeping: a file that a dead process had open is closed whatever fails.
_NEVER_FAIL = frozenset({Op.RELEASE, Op.RELEASEDIR, Op.FORGET, Op.BATCH_FORGET})


def machine_of(pid: int) -> str:
    """The host of a thread, by the name that the lab gives to its control group; or nothing."""
    try:
        return cgroups.of_lab(Path(f"/proc/{pid}/cgroup").read_text(), "hc")
    except OSError:
        return ""


@dataclass(slots=True)
class Storage:
    """Files, with the faults of each host.

    Args:
        files: what is served.
        faults: read again when they change.
        host_of: the machine of a thread.
    """

    files: Files
    faults: FaultFiles
    host_of: Callable[[int], str] = machine_of
    _known: dict[str, StorageFault] = field(default_factory=dict[str, StorageFault])
    _version: int = 0
    _waiting: dict[int, FuseRequest] = field(default_factory=dict[int, FuseRequest])

    @property
    def is_waited_for(self) -> bool:
        """Whether requests wait for a fault to be repaired."""
        return bool(self._waiting)

    def take(self, request: FuseRequest) -> list[bytes]:
        """The answers to a request; none to one that waits from now on."""
        if request.op == Op.INTERRUPT:
            # A signal reached the process: it would stay unkillable until it gets an answer.
            unique = int.from_bytes(request.body[:8], "little")
            kept = self._waiting.pop(unique, None)
            return [fuse.answer(unique, error=errno.EINTR)] if kept else []
        fault = self._fault(request)
        if fault in {StorageFault.CUT, StorageFault.HANG}:
            self._waiting[request.unique] = request
            return []
        if fault is not None:
            error = errno.EIO if fault is StorageFault.DENY else errno.ENOSPC
            return [fuse.answer(request.unique, error=error)]
        return self._do(request)

    def look(self) -> list[bytes]:
        """Read the faults if they have changed, and return answers to requests that waited."""
        version = self.faults.version
        if version == self._version:
            return []
        self._version, self._known = version, dict(self.faults.read())
        waiting, self._waiting = self._waiting, {}
        return [done for request in waiting.values() for done in self.take(request)]

    def _fault(self, request: FuseRequest) -> StorageFault | None:
        if not self._known or request.op in _NEVER_FAIL or not self.files.is_disk(request):
            return None
        fault = self._known.get(self.host_of(request.pid))
        applies = {
            None: False,
            StorageFault.CUT: True,
            StorageFault.HANG: request.op in _DATA,
            StorageFault.DENY: request.op in _DATA | _OPENS,
            StorageFault.FULL: fault is StorageFault.FULL and self.files.needs_space(request),
        }
        return fault if applies[fault] else None

    def _do(self, request: FuseRequest) -> list[bytes]:
        try:
            data, error = self.files.do(request), 0
        except OSError as exc:
            data, error = b"", exc.errno or errno.EIO
        if request.op in fuse.WITHOUT_ANSWER:
            return []
        return [fuse.answer(request.unique, data, error)]


def serve(storage: Storage, device: int) -> None:
    """Answer the kernel until the directory is unmounted.

    Raises:
        OSError: the kernel refuses an answer.
    """
    buffer = bytearray(fuse.MESSAGE_BYTES)
    poll = select.poll()
    poll.register(device, select.POLLIN)
    while True:
        poll.poll(_LOOK_MILLISECONDS if storage.is_waited_for else None)
        _send(device, storage.look())
        try:
            size = os.readv(device, [buffer])
        except OSError as exc:
            if exc.errno == errno.ENODEV:
                return
            if exc.errno not in {errno.EAGAIN, errno.EINTR, errno.ENOENT}:
                raise
        else:
            _send(device, storage.take(FuseRequest.parse(memoryview(buffer)[:size])))


def _send(device: int, answers: list[bytes]) -> None:
    for answer in answers:
        with contextlib.suppress(FileNotFoundError):  # the process has ended meanwhile
            os.write(device, answer)


def mount(point: str) -> int:
    """Mount, and the descriptor that the kernel's requests come from.

    Raises:
        OSError: the kernel refuses.
    """
    device = os.open("/dev/fuse", os.O_RDWR | os.O_NONBLOCK)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions"
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = (b"hypercobalt", os.fsencode(point), b"fuse.glusterfs", _NOSUID_NODEV)
    if libc.mount(*arguments, options.encode()):
        number = ctypes.get_errno()
        raise OSError(number, f"mount {point}: {os.strerror(number)}")
    return device


def main(files: str, point: str, faults: str) -> None:
    """Mount and serve."""
    os.umask(0)  # the kernel has applied that of the process
    storage = Storage(Files(Path(files)), FaultFiles(Path(faults)))
    device = mount(point)
    with suppress(OSError):  # an `up` that was killed; the next one finds this process
        notify_ready()
    serve(storage, device)


if __name__ == "__main__":
    main(*sys.argv[1:])
