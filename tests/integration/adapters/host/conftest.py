"""A private D-Bus with services on it whose answers a test scripts."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest
from dbus_fast.aio import MessageBus
from dbus_fast.constants import MessageType
from dbus_fast.message import Message

from hypercobalt.lab.machine import packages

CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path={path}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="false"/><allow own="*"/>
<allow send_type="signal"/><allow receive_sender="*"/></policy></busconfig>
"""
DEADLINE = 30.0


class Bus:
    """A dbus-daemon that can be killed and started again at the same place."""

    def __init__(self, directory: Path) -> None:
        self._socket = directory / "bus"
        self._config = directory / "bus.conf"
        self._config.write_text(CONFIG.format(path=self._socket))
        self._process: asyncio.subprocess.Process | None = None
        self.address = f"unix:path={self._socket}"

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *("dbus-daemon", f"--config-file={self._config}", "--nofork", "--print-address=1"),
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._process.stdout
        async with asyncio.timeout(DEADLINE):
            await self._process.stdout.readline()

    def freeze(self) -> None:
        """Have it hang, its connections open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    async def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            await self._process.wait()
            self._process = None
            self._socket.unlink(missing_ok=True)


Answer = Callable[[Message], Message | None]


class Peer:
    """One process on the bus.

    Attributes:
        answers: member of a method to what answers a call of it; None as an answer is silence.
        calls: members called so far.
    """

    def __init__(self, bus: MessageBus) -> None:
        self.bus = bus
        self.answers: dict[str, Answer] = {}
        self.calls: list[str] = []
        self._called = asyncio.Event()
        bus.add_message_handler(self._answer)

    def returns(self, member: str, signature: str = "", body: Sequence[object] = ()) -> None:
        """Answer a method with this from now on."""
        self.answers[member] = lambda call: Message.new_method_return(call, signature, list(body))

    async def called(self, member: str, times: int = 1) -> None:
        """Wait until a method was called so often."""
        async with asyncio.timeout(DEADLINE):
            while self.calls.count(member) < times:
                await self._called.wait()

    def refuses(self, member: str, name: str, text: str = "no") -> None:
        self.answers[member] = lambda call: Message.new_error(call, name, text)

    async def signal(
        self,
        path: str,
        name: str,
        signature: str = "",
        body: Sequence[object] = (),
        *,
        to: str | None = None,
    ) -> None:
        """Send a signal to all listeners, or to one of them."""
        interface, _, member = name.rpartition(".")
        message = Message.new_signal(path, interface, member, signature, list(body))
        message.destination = to
        await self.bus.send(message)

    def _answer(self, message: Message) -> Message | bool | None:
        if message.message_type is not MessageType.METHOD_CALL:
            return None
        self.calls.append(str(message.member))
        self._called.set()
        self._called = asyncio.Event()
        answer = self.answers.get(str(message.member))
        if answer is None:
            return None  # the library's own answer: unknown method
        return answer(message) or True

    async def leave(self) -> None:
        self.bus.disconnect()
        with suppress(EOFError, OSError):
            await self.bus.wait_for_disconnect()  # type: ignore[no-untyped-call]


Join = Callable[[str | None], Awaitable[Peer]]


@asynccontextmanager
async def joined(address: str, name: str | None, *, own: bool = True) -> AsyncIterator[Peer]:
    """A peer, with that name if `own`."""
    bus = await MessageBus(address, negotiate_unix_fd=True).connect()
    peer = Peer(bus)
    if name and own:
        await bus.request_name(name)
    try:
        yield peer
    finally:
        await peer.leave()


@pytest.fixture(scope="session")
def dbus_daemon(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Have the program; in CI what is missing is installed, or the tests fail."""
    if shutil.which("dbus-daemon") is None and os.environ.get("CI") == "true":
        with (tmp_path_factory.getbasetemp().parent / "apt.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # against the other workers
            if shutil.which("dbus-daemon") is None:
                with ThreadPoolExecutor(1) as thread:
                    thread.submit(asyncio.run, packages.install(["dbus"])).result()
    elif shutil.which("dbus-daemon") is None:
        pytest.skip("dbus-daemon is not installed: apt-get install dbus")


@pytest.fixture
async def bus(dbus_daemon: None, tmp_path: Path) -> AsyncIterator[Bus]:
    made = Bus(tmp_path)
    await made.start()
    yield made
    await made.kill()


@pytest.fixture
async def join(bus: Bus) -> AsyncIterator[Callable[[str | None], Awaitable[Peer]]]:
    """Make a peer with the name of a service, or without one."""
    async with AsyncExitStack() as peers:

        async def make(name: str | None) -> Peer:
            context: AbstractAsyncContextManager[Peer] = joined(bus.address, name)
            return await peers.enter_async_context(context)

        yield make
