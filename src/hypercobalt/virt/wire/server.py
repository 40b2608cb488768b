"""The launcher's end: takes calls from the handler, and reports the domain to it.

A connection that sends garbage, or does not read, ends alone. Its peer has to be one of the users
that the settings name. There may be few connections: a handler that starts again while the kernel
still holds the connection of the one before it; of more than that the oldest goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Container
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from hypercobalt.errors import HypercobaltError, TerminalError
from hypercobalt.logs import get_logger
from hypercobalt.virt.wire.frames import LONGEST, PATIENCE, FrameError, frame, read_frame
from hypercobalt.virt.wire.messages import (
    AnyCall,
    CallMessage,
    DomainMessage,
    DomainReport,
    Problem,
    ReplyMessage,
    decode_call,
    decode_message,
    encode,
)
from hypercobalt.virt.wire.peers import credentials

log = get_logger(__name__)

CONNECTIONS: Final = 4
CALLS: Final = 8
"""Calls of one connection that are under way; further ones wait in its socket."""
_SHOWN: Final = 4096  # characters of an error
_LAST: Final = 1.0  # seconds at the end, for calls and for replies

Answer = Callable[[AnyCall], Awaitable[DomainReport | None]]


class LauncherServer:
    """Serves one socket; `serve` opens it.

    Args:
        answer: answers a call; its errors of ours become replies.
        peers: user ids that may connect.
        patience: seconds for a frame, and for a peer to read what waits for it.
    """

    def __init__(
        self, answer: Answer, *, peers: Container[int], patience: float = PATIENCE
    ) -> None:
        self._answer, self._peers, self._patience = answer, peers, patience
        self._connections: dict[_Connection, asyncio.Task[None]] = {}
        self._calls = set[asyncio.Task[None]]()
        self._report = DomainReport()

    def report(self, domain: DomainReport) -> None:
        """Report the domain to all connections, unless it is as reported last."""
        if domain != self._report:
            self._report = domain
            for connection in tuple(self._connections):
                connection.send(DomainMessage(domain))

    @asynccontextmanager
    async def serve(self, path: Path) -> AsyncGenerator[None]:
        """Listen at a path, which appears once calls are taken.

        Raises:
            OSError: it cannot be made.
        """
        new = path.with_name(f".{path.name}")
        _unlink(new)
        server = await asyncio.start_unix_server(self._connected, new, limit=LONGEST)
        try:
            _put(new, path)
            yield
        finally:
            _unlink(path)
            server.close()
            await self._finish()

    async def _finish(self) -> None:
        """Let calls under way end and peers read their replies, for a moment."""
        if self._calls:
            await asyncio.wait(self._calls, timeout=_LAST)
        for connection in self._connections:
            connection.finish()
        if self._connections:
            await asyncio.wait(self._connections.values(), timeout=_LAST)
        tasks = (*self._connections.values(), *self._calls)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer, task = credentials(writer), asyncio.current_task()
        if peer.uid not in self._peers or task is None:
            log.warning("connection_refused", uid=peer.uid)
            writer.transport.abort()
            return
        if len(self._connections) >= CONNECTIONS:
            next(iter(self._connections)).end("a newer connection takes its place")
        connection = _Connection(reader, writer, self._answer, self._patience, self._calls)
        self._connections[connection] = task
        connection.send(DomainMessage(self._report))
        try:
            await connection.run()
        except FrameError as exc:
            log.warning("connection_ended", reason=str(exc))
        finally:
            self._connections.pop(connection, None)
            writer.transport.abort()


class _Connection:
    """One handler: its calls, each in a task that outlives the connection."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answer: Answer,
        patience: float,
        under_way: set[asyncio.Task[None]],
    ) -> None:
        self._reader, self._writer, self._answer = reader, writer, answer
        self._under_way = under_way
        self._patience, self._places = patience, asyncio.Semaphore(CALLS)
        self._loop = asyncio.get_running_loop()
        self._read_at = 0.0  # when the peer had last read everything

    async def run(self) -> None:
        """Take calls until the connection ends.

        Raises:
            FrameError: the peer sends what cannot be read.
        """
        while content := await read_frame(self._reader, patience=self._patience):
            message = decode_message(content)
            await self._places.acquire()
            task = asyncio.create_task(self._call(message), name="launcher-call")
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    def send(self, message: ReplyMessage | DomainMessage) -> None:
        """Send a message, or end the connection whose peer does not read."""
        transport, now = self._writer.transport, self._loop.time()
        waiting = transport.get_write_buffer_size()
        if not waiting:
            self._read_at = now
        if waiting > LONGEST or now - self._read_at > self._patience:
            self.end("its peer does not read")
        elif not transport.is_closing():
            transport.write(frame(encode(message)))

    def end(self, reason: str) -> None:
        """End the connection now."""
        log.warning("connection_ended", reason=reason)
        self._writer.transport.abort()

    def finish(self) -> None:
        """End the connection once its peer has what was sent."""
        self._writer.close()

    async def _call(self, message: CallMessage) -> None:
        try:
            self.send(await self._reply(message))
        finally:
            self._places.release()

    async def _reply(self, message: CallMessage) -> ReplyMessage:
        try:
            call = decode_call(message)
        except FrameError as exc:
            return ReplyMessage(message.id, Problem.UNKNOWN_CALL, str(exc))
        try:
            return ReplyMessage(message.id, domain=await self._answer(call))
        except HypercobaltError as exc:
            problem = Problem.INVALID if isinstance(exc, TerminalError) else Problem.FAILED
            log.warning("call_failed", call=type(call).__name__, error=str(exc))
            return ReplyMessage(message.id, problem, str(exc)[:_SHOWN])
        except Exception as exc:
            log.exception("call_broke", call=type(call).__name__)
            return ReplyMessage(message.id, Problem.FAILED, f"the launcher: {exc!r}"[:_SHOWN])


def _put(new: Path, path: Path) -> None:
    new.chmod(0o600)
    new.rename(path)


def _unlink(path: Path) -> None:
    path.unlink(missing_ok=True)
