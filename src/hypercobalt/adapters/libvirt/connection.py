"""The real `Libvirt`: a daemon by its URI, connected to at once and again whenever it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing, suppress
from typing import Final

from hypercobalt.adapters.libvirt import uri
from hypercobalt.adapters.libvirt.definitions import Definitions
from hypercobalt.adapters.libvirt.events import Event, EventQueue
from hypercobalt.adapters.libvirt.host import DEADLINE, Host
from hypercobalt.adapters.libvirt.links import Answer, Call
from hypercobalt.adapters.libvirt.on_demand import OnDemandConnection
from hypercobalt.adapters.libvirt.per_subject import PerSubject
from hypercobalt.adapters.libvirt.reconnect import ConnectionPace, Reconnector

_PROBES_IDLE: Final = 90.0  # beyond the half minute after which each domain is probed again
MOST_HUNG: Final = 9
"""Domains whose emulators may hang while further ones are probed. Each keeps one of the workers of
its daemon (`max_workers`, 20), which other clients need as well."""


@asynccontextmanager
async def connect(
    address: str, *, pace: ConnectionPace | None = None, deadline: float = DEADLINE
) -> AsyncGenerator[LibvirtConnection]:
    """Keep a connection, and open it again whenever it breaks; the context does not wait for it.

    Args:
        address: URI of the daemon, such as `qemu:///system` or `qemu+tcp://192.0.2.1/system`.
        pace: of noticing faults and of connecting again.
        deadline: seconds of a call; a call for capabilities may take a minute, one about a job 3 s.

    Raises:
        ConfigurationError: the URI cannot be used.
    """
    checked, events, definitions = uri.parse(address), EventQueue(), Definitions()
    reconnector = Reconnector(checked, pace or ConnectionPace(), events, definitions)
    keeping = asyncio.create_task(reconnector.run(), name="libvirt-reconnector")
    try:
        with closing(OnDemandConnection(address, idle=_PROBES_IDLE, most=MOST_HUNG)) as probes:
            kept = ReconnectingConnection(reconnector)
            yield LibvirtConnection(
                checked.uri, kept, definitions, events, probes=probes, deadline=deadline
            )
    finally:
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping


class LibvirtConnection(Host):
    """See `hypercobalt.adapters.libvirt.port.Libvirt`; made by `connect`."""

    def __init__(
        self,
        uri: str,
        kept: ReconnectingConnection,
        definitions: Definitions,
        events: EventQueue,
        *,
        probes: OnDemandConnection,
        deadline: float,
    ) -> None:
        super().__init__(uri, kept, definitions, probes=probes, deadline=deadline)
        self._events = events

    def events(self) -> AsyncGenerator[Event]:
        return self._events.read()


class ReconnectingConnection:
    """Carries calls over the connection of a `Reconnector`."""

    def __init__(self, reconnector: Reconnector) -> None:
        self._reconnector = reconnector
        self._hanging = PerSubject()

    async def run(
        self, what: str, call: Call[Answer], deadline: float, *, subject: str = ""
    ) -> Answer:
        """See `Connection`."""
        client = self._reconnector.client()
        return await self._hanging.run(subject, what, lambda: call(client), deadline=deadline)
