"""The real `Libvirt`: a daemon by its URI, connected to at once and again whenever it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from hypercobalt.adapters.libvirt import links, uri
from hypercobalt.adapters.libvirt.calls import Calls
from hypercobalt.adapters.libvirt.definitions import Definitions
from hypercobalt.adapters.libvirt.eventloop import ensure_running
from hypercobalt.adapters.libvirt.events import EventQueue
from hypercobalt.adapters.libvirt.host import DEADLINE, Answer, Call, Host
from hypercobalt.adapters.libvirt.keeper import Keeper, Pace
from hypercobalt.adapters.libvirt.model import Event
from hypercobalt.adapters.libvirt.per_subject import PerSubject

_CLOSING = 1.0


@asynccontextmanager
async def connect(
    address: str, *, pace: Pace | None = None, deadline: float = DEADLINE
) -> AsyncGenerator[LibvirtConnection]:
    """Have a connection, and have it again whenever it breaks; returns before it stands.

    Args:
        address: URI of the daemon, such as `qemu:///system` or `qemu+tcp://192.0.2.1/system`.
        pace: of noticing faults and of connecting again.
        deadline: of a call, seconds; one for capabilities may take a minute, one about a job 3 s.

    Raises:
        ConfigurationError: the URI is none that can be used.
    """
    checked = uri.parse(address)
    ensure_running()
    pace, events, definitions, calls = pace or Pace(), EventQueue(), Definitions(), Calls()
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def on_end() -> None:
        with suppress(RuntimeError):  # the loop is closed already
            loop.call_soon_threadsafe(ended.set)

    keeper = Keeper(checked, pace, events, definitions, on_end)
    keeper.start()
    watch = asyncio.create_task(_watch(keeper, pace), name="libvirt-watch")
    try:
        kept = KeptConnection(keeper, calls)
        yield LibvirtConnection(checked.uri, kept, definitions, events, deadline)
    finally:
        watch.cancel()
        calls.close()
        keeper.stop()
        # A thread that waits for a hung daemon is left behind; it does not hold up the process.
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING):
                await ended.wait()


class LibvirtConnection(Host):
    """See `hypercobalt.adapters.libvirt.port.Libvirt`; made by `connect`."""

    def __init__(
        self,
        uri: str,
        kept: KeptConnection,
        definitions: Definitions,
        events: EventQueue,
        deadline: float,
    ) -> None:
        super().__init__(uri, kept, definitions, deadline=deadline)
        self._events = events

    def events(self) -> AsyncGenerator[Event]:
        return self._events.read()


class KeptConnection:
    """Carries calls over the connection that a keeper keeps."""

    def __init__(self, keeper: Keeper, calls: Calls) -> None:
        self._keeper, self._calls = keeper, calls
        self._domains = PerSubject()

    async def ask(
        self, what: str, call: Call[Answer], deadline: float, *, domain: str = ""
    ) -> Answer:
        """See `Connection`."""
        link = self._keeper.link()

        def ask() -> Answer:
            with links.translated(what, link):
                return call(link)

        if domain:
            return await self._domains.run(domain, what, ask, deadline=deadline)
        return await self._calls.run(what, ask, deadline=deadline)


async def _watch(keeper: Keeper, pace: Pace) -> None:
    """Make the keeper's checks when they are due."""
    loop, late = asyncio.get_running_loop(), False
    while True:
        due = loop.time() + keeper.check(late=late)
        await asyncio.sleep(due - loop.time())
        late = loop.time() - due > pace.patience / 2
