"""Why an instance ended, by the log that libvirt keeps of its QEMU on the host.

libvirtd forgets the reason when it ends; the log has it still. QEMU writes there as well, and may
repeat what its guest has sent, so this is hostile input: a bounded end of a regular file is read, a
line counts only in libvirt's exact form and as a whole, and its reason only if it is a known one.
What a guest can feign by it is how it ended itself.

Source: libvirt, qemu_process.c (qemuProcessStop, qemuLogOperation) and qemu_domain.c.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from hypercobalt.logs import get_logger

log = get_logger(__name__)

DIRECTORY: Final = Path("var/log/libvirt/qemu")
MOST_BYTES: Final = 64 << 10
"""Read from the end; the line is among the last that libvirt writes."""
PATIENCE: Final = 5.0  # seconds, for all of them: the host's disk may hang

_LONGEST_NAME: Final = 200
_TIME: Final = rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\+0000"
_MARK: Final = re.compile(
    rb"^" + _TIME + rb": (?:starting up libvirt version: .*|shutting down, reason=([a-z ]{1,20}))$",
    re.MULTILINE,
)


def reason_of(tail: bytes) -> str:
    """The reason of the last end in the last lines of a log; "" for none since the last start."""
    reason = b""
    for mark in _MARK.finditer(tail):
        reason = mark[1] or b""
    return reason.decode("ascii")


class DomainLogs:
    """The logs of a host.

    Args:
        root: of the host's file system.
    """

    def __init__(self, root: Path) -> None:
        self._directory = root / DIRECTORY

    async def reasons(self, names: Iterable[str]) -> dict[str, str]:
        """Why domains ended last, by their names; without those of which no reason is known."""
        wanted = tuple(names)
        if not wanted:
            return {}
        try:
            async with asyncio.timeout(PATIENCE):
                return await asyncio.to_thread(self._read, wanted)
        except TimeoutError:
            log.warning("domain_logs_not_read", directory=str(self._directory), seconds=PATIENCE)
            return {}

    def _read(self, names: tuple[str, ...]) -> dict[str, str]:
        found = {name: reason_of(self._tail(name)) for name in names}
        return {name: reason for name, reason in found.items() if reason}

    def _tail(self, name: str) -> bytes:
        """The last whole lines; nothing of what is no file of this directory."""
        if not name or "/" in name or "\0" in name or len(name) > _LONGEST_NAME:
            return b""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(self._directory / f"{name}.log", flags)
        except OSError as error:
            log.warning("domain_log_not_read", domain=name, error=str(error))
            return b""
        try:
            return _last_lines(descriptor)
        except OSError as error:
            log.warning("domain_log_not_read", domain=name, error=str(error))
            return b""
        finally:
            os.close(descriptor)


def _last_lines(descriptor: int) -> bytes:
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode):
        return b""
    start = max(0, about.st_size - MOST_BYTES)
    content = os.pread(descriptor, MOST_BYTES, start)
    whole = content[: content.rfind(b"\n") + 1]  # the last line may be half written
    return whole.partition(b"\n")[2] if start else whole
