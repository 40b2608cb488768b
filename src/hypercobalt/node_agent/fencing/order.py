"""Ends the host's guests when the operator orders it, or has declared this very boot dead.

A host that is frozen or cut off may be declared dead by mistake, by a fence device that lies or by
a person. Once its agent reads that order, its guests must end: they may run elsewhere. The agent
ends them at each reading, and guests that are started later at once, without a reading: a host that
is cut off from the API may still be reached by a client of libvirt, and only its agent can stop
such a guest. An agent that is cut off without such an order ends no guest.

The watch of a host that was cut off may show the order minutes late: its connection is dead without
either end noticing, and what the server sends again comes after ever longer pauses. So an agent
whose Lease is not renewed reads the order itself until the API answers, and begins the watch again.
Each order that is read is known to all concerns of the agent before a guest ends by it: else the
guest would be stored as one that its owner has stopped, and started nowhere.

An order that was seen stands until a Hypervisor that can be read has none for this boot. One that
cannot be read withdraws nothing, nor does one that is gone: that of a dead host is deleted once its
guests run elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Final

from hypercobalt.adapters.libvirt.events import DomainEvent, Event, EventKind
from hypercobalt.adapters.libvirt.vocabulary import Lifecycle
from hypercobalt.agent.lease import renewal
from hypercobalt.agent.settings import LEASE
from hypercobalt.api.fencing import Fencing, GuestsStopped, is_ordered
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.errors import HypercobaltError, TransientError
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.fencing.guests import AllGuests, Ended, stop_all
from hypercobalt.node_agent.status.parts import Board
from hypercobalt.runtime import Clock, Kube
from hypercobalt.runtime.tasks import first
from hypercobalt.runtime.write_cache import Latest

log = get_logger(__name__)

_RUNS: Final = frozenset({Lifecycle.STARTED, Lifecycle.RESUMED})
_PACE: Final = timedelta(seconds=1)
"""Interval between readings: one that was sent while the host was cut off is lost, so the next one
begins beside it."""
_ATTEMPT: Final = timedelta(seconds=2)
"""Time for one reading."""
_LONGEST: Final = timedelta(seconds=16)
"""Longest time for one reading of a slow API: readings that fail give later ones more time."""
_SAME: Final = 100
"""Failed readings after which the time for one, and the interval, double."""
_LATE: Final = timedelta(seconds=2)
"""How long after it was due a renewal counts as missed."""


class FencingOrder:
    """Obeys `status.fencing` of the own Hypervisor.

    Args:
        kube: reads the order once more.
        guests: of the host.
        hypervisor: this host's.
        board: takes `guestsStopped`.
        boot: the boot that this process runs in; "" obeys nothing.
        renewals: how often the agent's Lease was renewed so far.
        ended: takes the guests that are ended.
        lease: duration of the agent's Lease.
    """

    def __init__(
        self,
        kube: Kube,
        guests: AllGuests,
        hypervisor: Latest[Hypervisor],
        board: Board,
        *,
        boot: str,
        renewals: Callable[[], int],
        ended: Ended,
        clock: Clock,
        lease: timedelta = LEASE,
    ) -> None:
        self._late = renewal(lease) + _LATE
        self._renewals, self._missed = renewals, 0
        self._obeying = asyncio.Lock()
        self._kube, self._guests, self._board = kube, guests, board
        self._hypervisor, self._boot = hypervisor, boot
        self._ended, self._clock = ended, clock
        self._seen: Fencing | None = None  # the last order, until one is known to be withdrawn
        self._stands = False  # that order was read, and is obeyed
        self._started = asyncio.Event()

    def on_event(self, event: Event) -> None:
        """Note the start of a guest."""
        if not self._stands or not isinstance(event, DomainEvent):
            return
        if event.kind is EventKind.LIFECYCLE and event.type in _RUNS:
            self._started.set()

    async def run(self) -> None:
        """Follow the own Hypervisor and the starts of guests until cancelled."""
        await first(self._follow(), self._keep(), self._note_launchers(), self._doubt())

    async def _follow(self) -> None:
        seen = self._hypervisor.value
        while True:
            if seen is not None:
                self._seen = self._order_of(seen)
                if self._seen is not None:
                    await self.obey(seen.metadata.name)
                else:
                    self._stands = False
            seen = await self._hypervisor.changed(seen)

    async def _keep(self) -> None:
        while True:
            await self._started.wait()
            self._started.clear()
            if self._stands:
                why = "this boot of the host is proven dead"
                await stop_all(self._guests, why, self._ended)

    async def _note_launchers(self) -> None:
        """Note each launcher pod that starts, as `on_event` does the other guests."""
        parts = self._board.parts
        while True:
            if self._stands and parts.launchers:
                self._started.set()
            parts = await self._board.changed(parts)

    async def _doubt(self) -> None:
        """Read the order whenever the Lease is not renewed: the host may be cut off."""
        known = self._renewals()
        while True:
            await asyncio.sleep(self._late.total_seconds())
            before, known = known, self._renewals()
            seen = self._hypervisor.value
            if seen is None or not known or known != before:
                continue
            await self.obey(seen.metadata.name)
            if self._missed:
                log.warning("api_answers_again", missed=self._missed)
                self._hypervisor.restart()

    def _order_of(self, own: Hypervisor) -> Fencing | None:
        fencing = own.status.fencing
        return fencing if is_ordered(fencing, self._boot) else None

    async def obey(self, name: str) -> None:
        """End every guest if the API still has the order, and report it."""
        async with self._obeying:
            await self._obey(name)

    async def _obey(self, name: str) -> None:
        fencing = await self._confirmed(name)
        self._stands = fencing is not None
        if fencing is None:
            return
        why = f"status.fencing of {name} is {fencing.phase}"
        count = await stop_all(self._guests, why, self._ended)
        done = self._board.parts.guests_stopped
        if count == 0 and done is not None and done.startedAt == fencing.startedAt:
            return
        log.warning("fencing_order_executed", guests=count, phase=fencing.phase)
        stopped = GuestsStopped(self._boot, fencing.startedAt, self._clock.now(), count)
        self._board.put(replace(self._board.parts, guests_stopped=stopped))

    async def _confirmed(self, name: str) -> Fencing | None:
        """The order as the API has it now; None: it is withdrawn, or there was none.

        Waits for an API that is away, and for a Hypervisor that can be read; of one that is gone
        the last order stays.
        """
        self._missed, begun = 0, 0
        found: asyncio.Future[Hypervisor | None] = asyncio.get_running_loop().create_future()
        async with asyncio.TaskGroup() as readings:
            running = set[asyncio.Task[None]]()
            while not found.done():
                scale = min(2 ** (self._missed // _SAME), _LONGEST // _ATTEMPT)
                reading = readings.create_task(self._read(name, _ATTEMPT * scale, found))
                running.add(reading)
                begun += 1
                reading.add_done_callback(running.discard)
                await asyncio.wait((found,), timeout=(_PACE * scale).total_seconds())
            for reading in running:
                reading.cancel()
        self._missed = max(self._missed, begun - 1)
        if (own := found.result()) is not None:
            known = self._hypervisor.value
            if known is not None and known.status.fencing != own.status.fencing:
                self._hypervisor.wrote(own)
            self._seen = self._order_of(own)
        return self._seen

    async def _read(
        self, name: str, within: timedelta, found: asyncio.Future[Hypervisor | None]
    ) -> None:
        """Read the order once; a failure is counted, and logged once of an outage."""
        try:
            async with asyncio.timeout(within.total_seconds()):
                own = await self._listed(name)
        except (HypercobaltError, TimeoutError) as error:
            if not self._missed:
                why = str(error) or f"no answer within {within.total_seconds():g} s"
                log.warning("fencing_order_not_read", hypervisor=name, error=why)
            self._missed += 1
        else:
            if not found.done():
                found.set_result(own)

    async def _listed(self, name: str) -> Hypervisor | None:
        """The own Hypervisor, by a list of one: agents have no right to get it.

        Raises:
            TransientError: it is there, and cannot be read.
        """
        listed = await self._kube.list(Hypervisor, fields=f"metadata.name={name}")
        if problem := next(iter(listed.unreadable.values()), ""):
            raise TransientError(f"Hypervisor {name} cannot be read: {problem}")
        return next(iter(listed.items), None)
