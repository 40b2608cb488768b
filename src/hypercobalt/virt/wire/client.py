"""The handler's end: calls to one launcher, and its reports.

A launcher may be broken into by its guest. What it sends is read with the limits of a frame, its
reports are kept in bounded memory, and the process behind the socket has to be the launcher's user.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from hypercobalt.errors import TerminalError, TransientError
from hypercobalt.virt.wire.frames import LONGEST, FrameError, frame, read_frame
from hypercobalt.virt.wire.messages import (
    DomainReport,
    LauncherCall,
    Problem,
    ReplyMessage,
    decode_from_launcher,
    encode_call,
)
from hypercobalt.virt.wire.peers import PeerCredentials, credentials

CONNECTING: Final = 5.0
"""Seconds."""
_KEPT: Final = 64  # reports that nobody has read; the newest count
_PER_SECOND: Final = (
    2 << 20
)  # bytes that are read of one launcher; what is more waits in its socket
_MESSAGE: Final = 4096  # bytes that each message counts for at least


class LauncherError(TransientError):
    """A call failed, or its outcome is unknown: the launcher does not answer, or has gone."""


class LauncherRefusedError(TerminalError):
    """The launcher cannot make a domain of this VMI."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reason="Invalid")


class LauncherConnection:
    """Made by `connect`.

    Attributes:
        peer: the launcher's process and user.
        closed: why the connection ended, once it has.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.peer: PeerCredentials = credentials(writer)
        self.closed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._replies: dict[int, asyncio.Future[ReplyMessage]] = {}
        self._last_id = 0
        self._reports = deque[DomainReport](maxlen=_KEPT)
        self._news = asyncio.Event()
        self._second, self._read = 0.0, 0

    async def call(self, call: LauncherCall, *, deadline: float) -> DomainReport | None:
        """Make a call.

        Args:
            call: of `messages`.
            deadline: seconds.

        Raises:
            LauncherRefusedError: the VMI has to be changed.
            LauncherError: it failed, or nothing is known of its outcome.
        """
        what = type(call).__name__
        self._last_id += 1
        reply: asyncio.Future[ReplyMessage] = asyncio.get_running_loop().create_future()
        id_ = self._last_id
        self._replies[id_] = reply
        try:
            self._send(frame(encode_call(id_, call)))
            async with asyncio.timeout(deadline):
                found = await reply
        except TimeoutError as exc:
            raise LauncherError(f"{what}: no answer within {deadline:g} s") from exc
        except FrameError as exc:
            raise LauncherError(f"{what}: {exc}") from exc
        finally:
            del self._replies[id_]
        if found.problem is Problem.INVALID:
            raise LauncherRefusedError(f"{what}: {found.message}")
        if found.problem is not None:
            raise LauncherError(f"{what}: {found.message}")
        return found.domain

    async def reports(self) -> AsyncGenerator[DomainReport]:
        """Reports of the domain, the present one first, until the connection ends.

        A reader that falls behind misses the oldest ones.
        """
        while True:
            while self._reports:
                yield self._reports.popleft()
            if self.closed.done():
                return
            self._news.clear()
            await self._news.wait()

    async def newest(self) -> DomainReport | None:
        """The newest report that was not read, as soon as there is one; older ones are skipped.

        None once the connection has ended.
        """
        while not self._reports:
            if self.closed.done():
                return None
            self._news.clear()
            await self._news.wait()
        found = self._reports[-1]
        self._reports.clear()
        return found

    async def run(self) -> None:
        """Read until the connection ends, no faster than a launcher has reason to write."""
        try:
            while content := await read_frame(self._reader):
                self._take(content)
                await self._pace(len(content))
            self.close("the launcher closed the connection")
        except FrameError as exc:
            self.close(f"the launcher: {exc}")

    def close(self, reason: str = "the connection was closed") -> None:
        """End the connection now; calls under way fail."""
        if self.closed.done():
            return
        self.closed.set_result(reason)
        self._writer.transport.abort()
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(FrameError(reason))
        self._news.set()

    async def _pace(self, size: int) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._second >= 1.0:
            self._second, self._read = now, 0
        self._read += max(size, _MESSAGE)
        if self._read > _PER_SECOND:
            await asyncio.sleep(self._second + 1.0 - now)

    def _take(self, content: bytes) -> None:
        message = decode_from_launcher(content)
        if not isinstance(message, ReplyMessage):
            self._reports.append(message.domain)
            self._news.set()
        elif (reply := self._replies.get(message.id)) and not reply.done():
            reply.set_result(message)  # else its caller has given up

    def _send(self, data: bytes) -> None:
        if self.closed.done():
            raise FrameError(self.closed.result())
        if self._writer.transport.get_write_buffer_size() > LONGEST:
            raise FrameError("the launcher does not read")
        self._writer.write(data)


@asynccontextmanager
async def connect(path: Path, *, uid: int) -> AsyncGenerator[LauncherConnection]:
    """Connect to a launcher's socket.

    Args:
        path: of the socket, as the handler sees it.
        uid: the user that must have opened it.

    Raises:
        LauncherError: nobody listens, or another user does.
    """
    try:
        async with asyncio.timeout(CONNECTING):
            reader, writer = await asyncio.open_unix_connection(path, limit=LONGEST)
    except OSError as exc:  # a TimeoutError too
        raise LauncherError(f"{path}: {exc.strerror or 'nobody answers'}") from exc
    connection = LauncherConnection(reader, writer)
    reading = asyncio.create_task(connection.run(), name="launcher-connection")
    try:
        if connection.peer.uid != uid:
            raise LauncherError(f"{path}: opened by user {connection.peer.uid}, not {uid}")
        yield connection
    finally:
        connection.close()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
