"""The agent of a host that was cut off, whose watch shows nothing of what happened meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import cast

import pytest
from msgspec.structs import replace

from hypercobalt.adapters.host.fake import FakePods
from hypercobalt.adapters.libvirt.events import DomainEvent, EventKind
from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.adapters.libvirt.vocabulary import Lifecycle
from hypercobalt.api.fencing import Fencing, FencingMethod, FencingPhase
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.node_agent.fencing.guests import AllGuests, Ended
from hypercobalt.node_agent.fencing.order import FencingOrder
from hypercobalt.node_agent.host.launchers import PodLaunchers
from hypercobalt.node_agent.status.parts import Board
from hypercobalt.runtime import Kube, SystemClock
from hypercobalt.runtime.observable import Observable
from hypercobalt.runtime.write_cache import Latest

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

CUT = 100.0
"""Seconds for which nothing of the API reaches the host."""
LATEST = 1.1
"""Seconds after the cut at which the guests are ended: a reading begins each second."""
DEAD = Fencing(phase=FencingPhase.FENCED, method=FencingMethod.BMC, bootID="b1")


def own(fencing: Fencing | None = None) -> Hypervisor:
    return Hypervisor(
        metadata=ObjectMeta(name="kvm-1"), status=HypervisorStatus(bootID="b1", fencing=fencing)
    )


@dataclass
class Listed:
    items: tuple[Hypervisor, ...]
    unreadable: dict[str, str] = field(default_factory=dict[str, str])


NOTHING = Listed(())
UNREADABLE = Listed((), {"kvm-1": "Expected `str`, got `int` - at `$.status.fencing.phase`"})


@dataclass
class Away:
    """An API that takes requests and answers none until the cut is over."""

    fencing: Fencing | None = DEAD
    takes: float = 0.0
    back: float = CUT
    has: Listed | None = None
    """What it has instead of a Hypervisor that can be read."""
    asked: int = 0
    open: int = 0
    together: int = 0

    async def list(self, *_: object, **__: object) -> Listed:
        self.asked, self.open = self.asked + 1, self.open + 1
        self.together = max(self.together, self.open)
        try:
            if asyncio.get_running_loop().time() < self.back:
                await asyncio.Event().wait()  # lost on the way: no later answer to it
            await asyncio.sleep(self.takes)
        finally:
            self.open -= 1
        return self.has or Listed((own(self.fencing),))


@dataclass
class Stale:
    """A watch whose connection is dead: it shows the host as it was before."""

    value: Hypervisor | None = field(default_factory=own)
    restarts: int = 0

    async def changed(self, _: object) -> Hypervisor | None:
        await asyncio.Event().wait()
        raise AssertionError

    def restart(self) -> None:
        self.restarts += 1

    def wrote(self, obj: Hypervisor) -> Hypervisor:
        self.value = obj
        return obj


class Following(Stale):
    """A watch that shows what it is given."""

    def __init__(self, value: Hypervisor | None) -> None:
        super().__init__(value)
        self._shown = Observable(value)

    async def changed(self, since: object) -> Hypervisor | None:
        assert since is None or isinstance(since, Hypervisor)
        return await self._shown.changed(since)

    def show(self, value: Hypervisor | None) -> None:
        self.value = value
        self._shown.set(value)


class Ending(FakeLibvirt):
    """Notes what the agent's concerns know of the order while a guest ends."""

    def __init__(self, watch: Stale) -> None:
        super().__init__()
        self.watch = watch
        self.known: list[Fencing | None] = []

    async def destroy(self, uuid: str, *, graceful: bool = False) -> None:
        known = self.watch.value
        self.known.append(known.status.fencing if known is not None else None)
        await super().destroy(uuid, graceful=graceful)


@dataclass
class Site:
    api: Away = field(default_factory=Away)
    watch: Stale = field(default_factory=Stale)
    renews: bool = False

    def __post_init__(self) -> None:
        self.libvirt, self.pods = Ending(self.watch), FakePods()
        self.libvirt.put(Domain("a", "a", True, DomainState.RUNNING))

    def renewals(self) -> int:
        return int(asyncio.get_running_loop().time()) if self.renews else 7

    def order(self) -> FencingOrder:
        return FencingOrder(
            cast("Kube", self.api),
            AllGuests(self.libvirt, PodLaunchers(self.pods)),
            cast("Latest[Hypervisor]", self.watch),
            Board(SystemClock()),
            boot="b1",
            renewals=self.renewals,
            ended=Ended(),
            clock=SystemClock(),
        )

    async def runs(self, until: float, order: FencingOrder | None = None) -> None:
        async with asyncio.timeout(until - asyncio.get_running_loop().time()):
            await (order or self.order()).run()

    async def ends_what_starts(self, order: FencingOrder, until: float) -> bool:
        """Whether the agent ends a guest that starts now."""
        self.libvirt.put(Domain("b", "b", True, DomainState.RUNNING))
        order.on_event(
            DomainEvent(
                EventKind.LIFECYCLE,
                "b",
                "b",
                datetime.now(UTC),
                type=Lifecycle.STARTED,
                domain_id=2,
            )
        )
        with pytest.raises(TimeoutError):
            await self.runs(until, order)
        return self.guests == 0

    @property
    def guests(self) -> int:
        return sum(domain.active for domain in self.libvirt.here.values())


async def test_host_that_was_cut_off_ends_its_guests_within_two_seconds_of_the_first_answer() -> (
    None
):
    site = Site()
    with pytest.raises(TimeoutError):
        await site.runs(CUT + LATEST)  # an answer is possible from CUT on
    assert (site.guests, site.watch.restarts) == (0, 1)


async def test_order_is_known_to_every_concern_of_the_agent_before_a_guest_ends() -> None:
    """Else a guest that ends by it would be stored as one that its owner has stopped."""
    site = Site()
    with pytest.raises(TimeoutError):
        await site.runs(CUT + LATEST)
    assert site.libvirt.known == [DEAD]


async def test_host_that_was_cut_off_without_an_order_ends_no_guest() -> None:
    site = Site(Away(fencing=None))
    with pytest.raises(TimeoutError):
        await site.runs(CUT + 30)
    assert (site.guests, site.watch.restarts) == (1, 1)


async def test_agent_whose_lease_is_renewed_reads_nothing_and_waits_for_its_watch() -> None:
    site = Site(renews=True)
    with pytest.raises(TimeoutError):
        await site.runs(CUT + 100)
    assert (site.api.asked, site.guests) == (0, 1)


async def test_api_that_is_away_gets_one_request_a_second_at_most() -> None:
    site = Site()
    with pytest.raises(TimeoutError):
        await site.runs(CUT)
    assert CUT / 2 < site.api.asked <= CUT
    assert site.api.together <= 2


async def test_readings_of_an_api_that_stays_away_become_rarer() -> None:
    site = Site()
    with pytest.raises(TimeoutError):
        await site.runs(CUT)
    before, site.api.back = site.api.asked, 10_000.0
    with pytest.raises(TimeoutError):
        await site.runs(2_000)
    assert site.api.asked - before < 500


async def test_watch_begins_again_after_one_lost_reading() -> None:
    site = Site(Away(back=12.5))
    with pytest.raises(TimeoutError):
        await site.runs(12.5 + LATEST)
    assert (site.guests, site.watch.restarts, site.api.asked) == (0, 1, 2)


async def test_answer_to_an_earlier_reading_counts_while_later_ones_wait() -> None:
    site = Site(Away(takes=1.8))
    with pytest.raises(TimeoutError):
        await site.runs(CUT + 1.8 + LATEST)
    assert site.guests == 0


async def test_host_that_was_cut_off_reads_its_order_until_that_can_be_read() -> None:
    site = Site(Away(has=UNREADABLE))
    asyncio.get_running_loop().call_at(CUT + 5, setattr, site.api, "has", None)
    with pytest.raises(TimeoutError):
        await site.runs(CUT + 5 + LATEST)
    assert site.guests == 0


@pytest.mark.parametrize("has", [UNREADABLE, NOTHING], ids=["cannot be read", "is gone"])
async def test_order_that_was_executed_stands_while_the_hypervisor(has: Listed) -> None:
    site = Site(Away(back=0))
    order = site.order()
    with pytest.raises(TimeoutError):
        await site.runs(20, order)
    assert site.guests == 0
    site.api.has = has
    with pytest.raises(TimeoutError):
        await site.runs(60, order)
    assert await site.ends_what_starts(order, 62)


async def test_order_that_was_executed_stands_after_the_watch_has_shown_a_deletion() -> None:
    watch = Following(own(DEAD))
    site = Site(Away(back=0), watch, renews=True)
    order = site.order()
    with pytest.raises(TimeoutError):
        await site.runs(20, order)
    assert site.guests == 0
    watch.show(None)
    with pytest.raises(TimeoutError):
        await site.runs(30, order)
    assert await site.ends_what_starts(order, 32)


async def test_order_that_the_watch_has_shown_is_executed_though_the_hypervisor_is_gone() -> None:
    """The Hypervisor of a dead host goes once its guests run elsewhere."""
    site = Site(Away(back=0, has=NOTHING), Following(own(DEAD)), renews=True)
    with pytest.raises(TimeoutError):
        await site.runs(20)
    assert site.guests == 0


async def test_deletion_of_a_hypervisor_without_an_order_ends_no_guest() -> None:
    watch = Following(own())
    site = Site(Away(back=0, has=NOTHING), watch)
    order = site.order()
    with pytest.raises(TimeoutError):
        await site.runs(30, order)
    watch.show(None)
    with pytest.raises(TimeoutError):
        await site.runs(60, order)
    assert site.guests == 1
    assert not await site.ends_what_starts(order, 62)


@pytest.mark.parametrize(
    "fencing", [None, replace(DEAD, phase=FencingPhase.RELEASED), replace(DEAD, bootID="b0")]
)
async def test_order_is_over_once_a_hypervisor_that_can_be_read_has_none(
    fencing: Fencing | None,
) -> None:
    watch = Following(own(DEAD))
    site = Site(Away(back=0), watch, renews=True)
    order = site.order()
    with pytest.raises(TimeoutError):
        await site.runs(20, order)
    watch.show(None)
    with pytest.raises(TimeoutError):
        await site.runs(30, order)
    watch.show(own(fencing))
    with pytest.raises(TimeoutError):
        await site.runs(40, order)
    assert not await site.ends_what_starts(order, 42)
