"""A libvirt daemon over a Unix socket, whose answers a test sets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from hypercobalt.adapters.libvirt import uri
from hypercobalt.adapters.libvirt.rpc import protocol
from hypercobalt.adapters.libvirt.rpc.client import Client
from hypercobalt.adapters.libvirt.rpc.framing import Frames, Message, MessageKind, Status
from hypercobalt.adapters.libvirt.rpc.protocol import Procedure
from hypercobalt.adapters.libvirt.rpc.transport import connect
from hypercobalt.adapters.libvirt.rpc.xdr import codec

Answer = tuple[Any, ...]  # a struct; an `Error` refuses
Arguments = TypeVar("Arguments", bound=tuple[Any, ...])


def error(code: int, message: str) -> protocol.Error:
    return protocol.Error(code, 10, message, 2, None, None, None, None, 0, 0, None)


class MadeUpDaemon:
    """One daemon.

    Attributes:
        answers: of each procedure by number, or made of its arguments; the others have none.
        calls: that have arrived; they are answered over the connection that the last one came by.
        connections: how many there were.
        open: how many there are.
        piece: bytes that are sent at a time.
    """

    def __init__(self, socket: Path) -> None:
        self.uri = f"qemu+unix:///system?socket={socket}"
        self.answers: dict[int, Answer | Callable[[bytes], Answer]] = {
            protocol.AUTH_LIST.number: protocol.Types(()),
            protocol.OPEN.number: protocol.Void(),
            protocol.SUPPORTS_FEATURE.number: protocol.Number(0),
        }
        self.calls: list[Message] = []
        self.connections = self.open = 0
        self.piece = 1 << 20
        self._arrived = asyncio.Condition()
        self._writer: asyncio.StreamWriter | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer, frames = writer, Frames()
        self.connections += 1
        self.open += 1
        while data := await reader.read(65536):
            self._writer = writer
            for message in frames.feed(data):
                async with self._arrived:
                    self.calls.append(message)
                    self._arrived.notify_all()
                if message.procedure in self.answers and message.kind == MessageKind.CALL:
                    answer = self.answers[message.procedure]
                    made = answer(message.payload) if callable(answer) else answer
                    self.answer(message, made)
        writer.close()
        async with self._arrived:
            self.open -= 1
            self._arrived.notify_all()

    def when(
        self, procedure: Procedure[Arguments, Any], answer: Callable[[Arguments], Answer]
    ) -> None:
        """Answer a procedure by its arguments."""
        read = codec(procedure.arguments).decode
        self.answers[procedure.number] = lambda payload: answer(read(payload))

    async def until(self, seen: Callable[[], bool]) -> None:
        """Wait until a predicate holds; checked at each call and each end of a connection."""
        async with asyncio.timeout(10), self._arrived:
            await self._arrived.wait_for(seen)

    def of(self, procedure: Procedure[Any, Any]) -> list[Message]:
        """Calls of a procedure."""
        return [one for one in self.calls if one.procedure == procedure.number]

    def answer(self, call: Message, result: Answer) -> None:
        status = Status.ERROR if isinstance(result, protocol.Error) else Status.OK
        payload = codec(type(result)).encode(result)
        self.send(call._replace(kind=MessageKind.REPLY, status=status, payload=payload))

    def send(self, message: Message) -> None:
        self.write(message.pack())

    def write(self, data: bytes) -> None:
        assert self._writer is not None
        for at in range(0, len(data), self.piece):
            self._writer.write(data[at : at + self.piece])

    def hang_up(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()


@asynccontextmanager
async def made_up() -> AsyncGenerator[MadeUpDaemon]:
    """A daemon that serves."""
    with TemporaryDirectory(prefix="hv") as directory:  # short: a socket's path has 107 bytes
        daemon = MadeUpDaemon(Path(directory) / "sock")
        async with await asyncio.start_unix_server(daemon.serve, Path(directory) / "sock"):
            yield daemon
            daemon.hang_up()


@asynccontextmanager
async def connected() -> AsyncGenerator[tuple[MadeUpDaemon, Client]]:
    """A daemon and a client that is connected to it."""
    async with made_up() as daemon:
        client = await connect(uri.parse(daemon.uri))
        yield daemon, client
        client.close()
        await asyncio.sleep(0)  # its socket is closed by the loop
