"""Whether something outside of the host answers: a witness, or the storage that hosts share."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

from hypercobalt.logs import get_logger

log = get_logger(__name__)

ANSWER: Final = timedelta(seconds=2)
"""How long a witness, or the storage, may take."""

_SHOWN: Final = 500  # bytes of the writer's message


async def greet_page(host: str, port: int) -> None:
    """Have a program answer: the agent's page `/healthz`, or any HTTP.

    A kernel's answer, a connection that is accepted, does not count.

    Raises:
        OSError: there is no connection, or it breaks.
        EOFError: it is closed without an answer.
    """
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: witness\r\nConnection: close\r\n\r\n")
        await reader.readexactly(len(b"HTTP/1.1 "))
    finally:
        writer.close()


async def any_answers(witnesses: Sequence[tuple[str, int]], within: timedelta = ANSWER) -> bool:
    """Whether a program of one of the witnesses answers."""

    async def answers(host: str, port: int) -> bool:
        with suppress(OSError, EOFError, TimeoutError):
            async with asyncio.timeout(within.total_seconds()):
                await greet_page(host, port)
                return True
        return False

    return any(await asyncio.gather(*(answers(host, port) for host, port in witnesses)))


class Heartbeat:
    """A file on the shared storage.

    A process of its own writes it: storage that hangs would hold a thread of this one for ever.
    Other hosts write to the same directory: a link or a pipe that has the file's name is not
    opened, and nothing that is there is cut off.

    Source: dd of coreutils, `oflag` and `conv`; BusyBox has no `oflag=nofollow`.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._writer: asyncio.subprocess.Process | None = None
        self._trouble = b""

    async def is_writable(self, within: timedelta = ANSWER) -> bool:
        """Whether the file can be written, and reaches the storage in time.

        While a writer hangs that neither ends nor can be killed, there is no second one.
        """
        if self._writer is None:
            self._writer = await asyncio.create_subprocess_exec(
                *("dd", "if=/dev/zero", f"of={self._file}", "bs=512", "count=1", "status=none"),
                *("oflag=nofollow,nonblock", "conv=notrunc,fsync"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
        writer = self._writer
        try:
            async with asyncio.timeout(within.total_seconds()):
                _, trouble = await writer.communicate()
        except TimeoutError:
            with suppress(ProcessLookupError):
                writer.kill()
            return False
        self._writer = None
        if trouble and trouble != self._trouble:
            text = trouble[:_SHOWN].decode(errors="replace").strip()
            advice = "a link, a pipe or a directory in its place has to be removed"
            log.warning("heartbeat_not_written", file=str(self._file), error=text, advice=advice)
        self._trouble = trouble
        return writer.returncode == 0
