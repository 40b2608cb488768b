"""The real `Libvirt`: a daemon by its URI."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

import libvirt

from hypercobalt.adapters.libvirt import inventory, uri
from hypercobalt.adapters.libvirt.calls import Calls
from hypercobalt.adapters.libvirt.definitions import Definitions
from hypercobalt.adapters.libvirt.eventloop import ensure_running
from hypercobalt.adapters.libvirt.keeper import Keeper, Link, Pace
from hypercobalt.adapters.libvirt.lanes import Lanes
from hypercobalt.adapters.libvirt.model import (
    Domain,
    DomainCapabilities,
    DomainStats,
    HostCapabilities,
    JobStats,
    Notice,
)
from hypercobalt.adapters.libvirt.notices import Notices
from hypercobalt.adapters.libvirt.port import LibvirtError

Answer = TypeVar("Answer")

# The first question for capabilities makes libvirt start an emulator of each architecture.
_CAPABILITIES_DEADLINE = 60.0
_JOB_DEADLINE = 3.0  # a QEMU that is well answers in milliseconds
_CLOSING = 1.0


@asynccontextmanager
async def connect(
    address: str, *, pace: Pace | None = None, deadline: float = 10.0
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
    pace, notices, definitions, calls = pace or Pace(), Notices(), Definitions(), Calls()
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def on_end() -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waited so long
            loop.call_soon_threadsafe(ended.set)

    keeper = Keeper(checked, pace, notices, definitions, on_end)
    keeper.start()
    watch = asyncio.create_task(_watch(keeper, pace), name="libvirt-watch")
    try:
        yield LibvirtConnection(keeper, notices, definitions, calls, deadline)
    finally:
        watch.cancel()
        calls.close()
        keeper.stop()
        # A thread that waits for a hung daemon is left behind; it does not hold up the process.
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING):
                await ended.wait()


class LibvirtConnection:
    """See `hypercobalt.adapters.libvirt.port.Libvirt`; made by `connect`."""

    def __init__(
        self,
        keeper: Keeper,
        notices: Notices,
        definitions: Definitions,
        calls: Calls,
        deadline: float,
    ) -> None:
        self._keeper = keeper
        self._notices = notices
        self._definitions = definitions
        self._calls = calls
        self._jobs = Lanes()  # the one question here that asks the domain's QEMU
        self._deadline = deadline

    def notices(self) -> AsyncGenerator[Notice]:
        return self._notices.read()

    async def capabilities(self) -> HostCapabilities:
        return await self._ask(
            "capabilities",
            lambda link: inventory.host_capabilities(link.connection),
            _CAPABILITIES_DEADLINE,
        )

    async def domain_capabilities(self) -> DomainCapabilities:
        return await self._ask(
            "domain capabilities",
            lambda link: inventory.domain_capabilities(link.connection),
            _CAPABILITIES_DEADLINE,
        )

    async def domains(self) -> tuple[Domain, ...]:
        return await self._ask(
            "list of domains",
            lambda link: inventory.domains(
                link.connection, self._definitions, bulk=link.offer.bulk
            ),
        )

    async def job_stats(self, uuid: str, *, completed: bool = False) -> JobStats | None:
        what = f"job of domain {uuid}"
        call = self._call(
            what, lambda link: inventory.job(link.connection, uuid, completed=completed)
        )
        return await self._jobs.run(uuid, what, call, deadline=min(self._deadline, _JOB_DEADLINE))

    async def stats(self) -> tuple[DomainStats, ...]:
        return await self._ask(
            "counters of domains",
            lambda link: inventory.counters(link.connection, bulk=link.offer.bulk),
        )

    async def _ask(
        self, what: str, ask: Callable[[Link], Answer], deadline: float | None = None
    ) -> Answer:
        call = self._call(what, ask)
        return await self._calls.run(what, call, deadline=deadline or self._deadline)

    def _call(self, what: str, ask: Callable[[Link], Answer]) -> Callable[[], Answer]:
        link = self._keeper.link()

        def call() -> Answer:
            try:
                return ask(link)
            except libvirt.libvirtError as exc:
                raise LibvirtError(f"{what}: {exc}") from exc

        return call


async def _watch(keeper: Keeper, pace: Pace) -> None:
    """Make the keeper's checks when they are due."""
    loop, late = asyncio.get_running_loop(), False
    while True:
        due = loop.time() + keeper.check(late=late)
        await asyncio.sleep(due - loop.time())
        late = loop.time() - due > pace.patience / 2
