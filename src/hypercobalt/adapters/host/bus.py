"""One connection to one service on the host's system bus.

A connection is closed when anything about it breaks, the service's restart included; its user
opens a new one and reads everything again. So no state has to be repaired.

Only the service's own signals count: the bus filters broadcasts by sender, but every process on the
host may send a signal straight to us, so the sender of each is compared with the service's owner.

Source: D-Bus specification 0.42.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Final

from dbus_fast.aio import MessageBus
from dbus_fast.constants import BusType, MessageType
from dbus_fast.errors import DBusFastError
from dbus_fast.message import Message
from dbus_fast.signature import Variant

from hypercobalt.adapters.host.port import HostError
from hypercobalt.logs import get_logger

log = get_logger(__name__)

CALL_DEADLINE: Final = timedelta(seconds=10)
PING: Final = timedelta(seconds=20)
"""After so much silence the service is pinged: one that hangs sends nothing."""

_BUS, _BUS_PATH = "org.freedesktop.DBus", "/org/freedesktop/DBus"
_CLOSE_DEADLINE = 1.0  # seconds
_MAX_TEXT = 512  # characters of an error's text
# What the library raises for a bus that ends, misbehaves, or is none.
_BROKEN = (OSError, EOFError, DBusFastError, ValueError, LookupError, AttributeError)

Handler = Callable[[Sequence[object]], None]


class RefusedError(HostError):
    """The service answered with an error; `name` is its D-Bus name."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


class Retry:
    """The waits between attempts to reach a service, and what is logged about them.

    Each wait is twice the last, up to `cap`. An error is logged when it is another than before: a
    host without the service must not fill its log.
    """

    def __init__(self, event: str, first: timedelta, cap: timedelta) -> None:
        self._event, self._first, self._cap = event, first, cap
        self._next, self._logged = first, ""

    def succeeded(self) -> None:
        self._next, self._logged = self._first, ""

    async def after(self, error: HostError) -> None:
        """Wait before the next attempt."""
        if str(error) != self._logged:
            self._logged = str(error)
            log.warning(self._event, error=self._logged)
        wait, self._next = self._next, min(self._next * 2, self._cap)
        await asyncio.sleep(wait.total_seconds())


class Service:
    """A service on the bus, for as long as one connection and one incarnation of it last."""

    def __init__(self, bus: MessageBus, name: str, ping: timedelta = PING) -> None:
        self.name = name
        self._ping = ping.total_seconds()
        self._bus = bus
        self._owner: str | None = None  # unique name; None: not read yet
        self._wake = asyncio.Event()
        self._lost: HostError | None = None
        self._handlers: list[tuple[str, str, str | None, Handler | None]] = []
        bus.add_message_handler(self._on_message)

    async def call(
        self,
        path: str,
        method: str,
        signature: str = "",
        body: Sequence[object] = (),
        *,
        deadline: timedelta = CALL_DEADLINE,
    ) -> Message:
        """Call a method of an object.

        `method` is given with its interface: `org.freedesktop.systemd1.Manager.StartUnit`.

        Raises:
            RefusedError: the service refuses.
            HostError: no answer.
        """
        return await self._send(make_call(self.name, path, method, signature, body), deadline)

    async def properties(self, path: str, interface: str) -> dict[str, object]:
        """All properties of one interface of an object."""
        method = "org.freedesktop.DBus.Properties.GetAll"
        reply = await self.call(path, method, "s", [interface])
        if reply.signature != "a{sv}":
            raise HostError(f"{self.name} {path}: properties of {interface} have no values")
        found: dict[str, Variant] = reply.body[0]
        return {name: value.value for name, value in found.items()}

    async def get(self, path: str, interface: str, name: str) -> object:
        """One property of an object."""
        method = "org.freedesktop.DBus.Properties.Get"
        reply = await self.call(path, method, "ss", [interface, name])
        if reply.signature != "v":
            raise HostError(f"{self.name} {path}: property {name} has no value")
        value: Variant = reply.body[0]
        return value.value

    async def attach(self) -> None:
        """From now on, notice when the service leaves the bus or restarts.

        Raises:
            HostError: it is not on the bus.
        """
        if self._owner is not None:
            return
        # First the match, so that no change is missed.
        rule = f"type='signal',sender='{_BUS}',interface='{_BUS}',member='NameOwnerChanged'"
        await self._call_bus("AddMatch", f"{rule},arg0='{self.name}'")
        reply = await self._call_bus("GetNameOwner", self.name)
        self._owner = str(reply.body[0])

    async def listen(
        self,
        signal: str,
        *,
        path: str | None = None,
        arg: tuple[int, str] | None = None,
        handler: Handler | None = None,
    ) -> None:
        """Wake `changed` by a signal of this service.

        Args:
            signal: with its interface.
            path: of this object only.
            arg: only where the argument of that number is this text.
            handler: is given the arguments; called on the event loop.

        Raises:
            HostError: the service is not on the bus.
        """
        await self.attach()
        interface, _, member = signal.rpartition(".")
        rule = self._rule(interface, member, path)
        rule += f",arg{arg[0]}='{arg[1]}'" if arg else ""
        self._handlers.append((interface, member, path, handler))
        await self._call_bus("AddMatch", rule)

    async def ignore(self, signal: str, path: str) -> None:
        """Undo a `listen` to a signal of one object.

        Raises:
            HostError: the connection broke.
        """
        interface, _, member = signal.rpartition(".")
        self._handlers = [one for one in self._handlers if one[:3] != (interface, member, path)]
        await self._call_bus("RemoveMatch", self._rule(interface, member, path))

    async def changed(self) -> None:
        """Wait until a signal came since the last call, or the service went away.

        Raises:
            HostError: the connection broke, the service left the bus or restarted, or it or the bus
                hangs.
        """
        while not self._wake.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._ping):
                    await self._wake.wait()
                continue
            with suppress(RefusedError):  # that is an answer
                await self.call("/", "org.freedesktop.DBus.Peer.Ping")
        self._wake.clear()
        if self._lost:
            raise self._lost

    def _rule(self, interface: str, member: str, path: str | None) -> str:
        rule = f"type='signal',sender='{self.name}',interface='{interface}',member='{member}'"
        return rule + (f",path='{path}'" if path else "")

    def lose(self, why: str) -> None:
        """Note the end of the connection."""
        self._lost = self._lost or HostError(f"{self.name}: {why}")
        self._wake.set()

    async def _call_bus(self, method: str, argument: str) -> Message:
        call = make_call(_BUS, _BUS_PATH, f"{_BUS}.{method}", "s", [argument])
        return await self._send(call, CALL_DEADLINE)

    async def _send(self, message: Message, deadline: timedelta) -> Message:
        about = f"{message.destination} {message.member}"
        if self._lost or not self._bus.connected:
            raise self._lost or HostError(f"{about}: the connection to the system bus broke")
        try:
            async with asyncio.timeout(deadline.total_seconds()):
                reply = await self._bus.call(message)
        except TimeoutError as error:
            seconds = deadline.total_seconds()
            raise HostError(f"{about}: no answer within {seconds:g} s") from error
        except _BROKEN as error:
            raise HostError(f"{about}: the connection broke: {error}") from error
        if reply.message_type is MessageType.ERROR:
            name, text = str(reply.error_name), str(reply.body[0]) if reply.body else ""
            raise RefusedError(f"{about}: {text[:_MAX_TEXT]} ({name})", name)
        return reply

    def _on_message(self, message: Message) -> None:
        if message.message_type is not MessageType.SIGNAL:
            return
        if message.sender == _BUS and message.member == "NameOwnerChanged":
            name, _, now = message.body
            if name == self.name and now != self._owner:
                self.lose("the service left the bus or restarted")
        elif message.sender == self._owner:
            self._dispatch(message)

    def _dispatch(self, message: Message) -> None:
        for interface, member, path, handler in self._handlers:
            if (interface, member) == (message.interface, message.member) and (
                path in (None, message.path)
            ):
                if handler:
                    handler(message.body)
                self._wake.set()


def make_call(
    destination: str, path: str, method: str, signature: str, body: Sequence[object]
) -> Message:
    interface, _, member = method.rpartition(".")
    return Message(
        destination=destination,
        path=path,
        interface=interface,
        member=member,
        signature=signature,
        body=list(body),
    )


@asynccontextmanager
async def reach(
    name: str, address: str | None, *, descriptors: bool = False, ping: timedelta = PING
) -> AsyncGenerator[Service]:
    """Connect to the system bus, to talk to one service.

    Args:
        name: of the service: `org.freedesktop.systemd1`.
        address: of the bus, such as `unix:path=/run/dbus/system_bus_socket`; None: the usual one.
        descriptors: whether file descriptors can be received.
        ping: after so much silence `Service.changed` pings the service.

    Raises:
        HostError: no bus there, or it does not let us in.
    """
    bus = await _connect(name, address, descriptors=descriptors)
    service = Service(bus, name, ping)
    ended = asyncio.create_task(_ended(bus), name=f"dbus {name}")
    ended.add_done_callback(lambda _: service.lose("the connection to the system bus broke"))
    try:
        yield service
    finally:
        bus.disconnect()
        # The library closes the socket once it has read the end of it.
        await asyncio.wait([ended], timeout=_CLOSE_DEADLINE)
        ended.cancel()


async def _ended(bus: MessageBus) -> None:
    with suppress(*_BROKEN):
        await bus.wait_for_disconnect()  # type: ignore[no-untyped-call]


async def _connect(name: str, address: str | None, *, descriptors: bool) -> MessageBus:
    seconds = CALL_DEADLINE.total_seconds()
    try:
        bus = MessageBus(address, BusType.SYSTEM, negotiate_unix_fd=descriptors)
        async with asyncio.timeout(seconds):
            return await bus.connect()
    except TimeoutError as error:
        raise HostError(f"{name}: the system bus gave no answer within {seconds:g} s") from error
    except _BROKEN as error:
        raise HostError(f"{name}: cannot connect to the system bus: {error!r}") from error
