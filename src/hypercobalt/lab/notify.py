"""Wait for what a starting process reports of itself.

Source: sd_notify(3); systemd-nspawn(1), `--notify-ready`.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from hypercobalt.lab import processes
from hypercobalt.lab.errors import LabError

_MAX = 4096  # bytes of one message


class NotifySocket:
    """A socket for `$NOTIFY_SOCKET`, without a file: it is gone with this process."""

    def __init__(self, name: str) -> None:
        self.address = f"@hypercobalt/{name}"
        self._ready = asyncio.Event()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)

    def __enter__(self) -> Self:
        self._socket.bind("\0" + self.address[1:])
        asyncio.get_running_loop().add_reader(self._socket, self._read)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()

    def _read(self) -> None:
        message = self._socket.recv(_MAX)
        if b"READY=1" in message.splitlines():
            self._ready.set()

    async def ready(self) -> None:
        """Wait until the other side has reported that it is ready."""
        await self._ready.wait()


async def spawn_ready(
    argv: Sequence[str], *, lab_id: str, role: str, log: Path, within: timedelta
) -> None:
    """Start a marked process as `processes.spawn`, and wait until it has reported to be ready.

    Raises:
        LabError: it ended, or was not ready in time; the message has the end of its log.
        CommandError: it cannot be started.
    """
    with NotifySocket(f"{lab_id}/{role}") as waiting:
        env = os.environ | {"NOTIFY_SOCKET": waiting.address}
        await processes.spawn(argv, lab_id=lab_id, role=role, log=log, env=env)
        try:
            async with asyncio.timeout(within.total_seconds()):
                await waiting.ready()
        except TimeoutError:
            printed = processes.tail(log)
            raise LabError(f"{role} is not ready after {within}: {printed}") from None
