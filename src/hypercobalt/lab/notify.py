"""Hear from a starting process what it says about itself.

Source: sd_notify(3); systemd-nspawn(1), `--notify-ready`.
"""

from __future__ import annotations

import asyncio
import socket
from types import TracebackType
from typing import Self

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
        """Wait until the other side has said that it is ready."""
        await self._ready.wait()
