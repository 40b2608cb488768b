"""When the own Hypervisor is read before something is done, and how old what it says may be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry
from tests.integration.runtime.scripted import eventually
from tests.unit.ha.signs import NODE, PLENTY, U1, uuid
from tests.unit.node_agent.incidents.server import Server

from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.api.conditions import ConditionStatus, set_condition
from hypercobalt.api.eviction import Eviction, EvictionSpec, EvictionStatus
from hypercobalt.api.incident import IncidentType, Severity
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.ha.cases import MOST_EVICTIONS, Case, Instance, Made, State, Step, key_of
from hypercobalt.ha.config import HaConfig
from hypercobalt.ha.signals import HOST
from hypercobalt.node_agent.incidents.metrics import IncidentMetrics
from hypercobalt.node_agent.incidents.recovery import Recoveries
from hypercobalt.node_agent.incidents.store import Store
from hypercobalt.node_agent.settings import Settings
from hypercobalt.runtime import FakeClock
from hypercobalt.runtime.tasks import first

U2 = uuid(2)


class Acting:
    """The recoveries of a host, by a server that a test moves."""

    def __init__(self) -> None:
        self.clock, self.store, self.libvirt = FakeClock(), Store(), FakeLibvirt()
        self.server = Server()
        self.recoveries = Recoveries(
            self.server,
            self.libvirt,
            self.store,
            Settings(node=NODE, label=NODE, namespace="default"),
            IncidentMetrics(CollectorRegistry()),
            clock=self.clock,
            config=HaConfig,
            memory=lambda: PLENTY,
        )

    def open(
        self,
        step: Step,
        state: State,
        who: str = U1,
        type_: IncidentType = IncidentType.IO_ERROR,
        due_in: timedelta = timedelta(0),
    ) -> None:
        """Have an incident of an instance be due."""
        now = self.clock.now()
        case = Case(
            id=key_of(who, "1.1", type_),
            type=type_,
            severity=Severity.CRITICAL,
            start="1.1",
            first_seen=now,
            last_seen=now,
            about=f"/pool/{who}",
        )
        self.libvirt.put(Domain(who, who, True, DomainState.PAUSED))
        known = Instance(uuid=who, state=state, start="1.1", cases=(case.then(step, now + due_in),))
        self.store.put(known)

    async def until(self, good: Callable[[], bool]) -> None:
        await first(self.recoveries.run(), eventually(good, seconds=1.5))


async def test_answer_that_lay_in_the_socket_of_a_frozen_host_resumes_nothing() -> None:
    acting, resumed = Acting(), list[int]()

    def thaw() -> None:
        resumed.append(acting.libvirt.calls["resume"])
        if acting.server.reads == 1:
            acting.clock.advance(timedelta(minutes=2))

    acting.server.meanwhile = thaw
    acting.open(Step.RESUME, State.PAUSED)
    await acting.until(lambda: acting.libvirt.calls["resume"] == 1)
    assert resumed == [0, 0], "by the second answer, which is new"


async def test_each_eviction_is_made_by_a_hypervisor_that_was_just_read() -> None:
    acting, reads = Acting(), list[int]()

    def slow() -> None:
        reads.append(acting.server.reads)
        acting.clock.advance(timedelta(seconds=3))

    acting.server.meanwhile = slow
    for who in (U1, U2):
        acting.open(Step.RECOVER, State.RUNNING, who, IncidentType.WATCHDOG)
    await acting.until(lambda: len(acting.server.evictions) == 2)
    assert reads == [1, 1, 2, 2], "each after 3 s, and 6 s are too long"


async def test_evictions_are_bounded_by_removing_the_oldest_that_have_ended() -> None:
    acting, now = Acting(), FakeClock().now()
    made = [Made(name=f"ha-{number}", at=now) for number in range(MOST_EVICTIONS)]
    ended = set_condition((), "Evicting", ConditionStatus.FALSE, "Succeeded", "", now=now)
    for one in made:
        eviction = Eviction(
            metadata=ObjectMeta(name=one.name),
            spec=EvictionSpec(hypervisor=NODE, reason="r"),
            status=EvictionStatus(conditions=ended),
        )
        acting.server.evictions[one.name] = eviction
    acting.store.put(Instance(uuid=HOST, evictions=tuple(made)))
    acting.open(Step.RECOVER, State.RUNNING, U1, IncidentType.WATCHDOG)
    await acting.until(lambda: acting.store.host.evictions != tuple(made))
    names = [one.name for one in acting.store.host.evictions]
    assert (len(names), names[0]) == (MOST_EVICTIONS, "ha-1")
    assert set(acting.server.evictions) == set(names)


async def test_server_is_not_asked_where_nothing_would_be_done() -> None:
    acting = Acting()
    for who in (U1, U2):
        acting.open(Step.RECOVER, State.RUNNING, who)
    later = acting.clock.now() + timedelta(seconds=30)
    await acting.until(
        lambda: all((acting.store.get(who).cases[0].due or later) > later for who in (U1, U2))
    )
    assert acting.server.reads == 0


@pytest.mark.parametrize(
    ("steps", "made"), [(-3600, 1), (0, 0), (3600, 1)], ids=["back", "not at all", "forward"]
)
async def test_clock_that_is_set_holds_up_no_recovery(steps: int, made: int) -> None:
    """As after a boot, by the time of day that the hardware has."""
    acting, due_in = Acting(), timedelta(seconds=20)
    acting.open(Step.RECOVER, State.RUNNING, U1, IncidentType.WATCHDOG, due_in)
    passed = due_in if steps else due_in / 2
    acting.clock.step(timedelta(seconds=steps))
    acting.clock.advance(passed)
    if made:
        await acting.until(lambda: len(acting.server.evictions) == made)
    else:
        await first(acting.recoveries.run(), asyncio.sleep(0.05))
    assert len(acting.server.evictions) == made


def test_what_waits_for_nothing_is_not_brought_forward() -> None:
    acting = Acting()
    acting.open(Step.RECOVER, State.RUNNING, U1)
    case = acting.store.get(U1).cases[0]
    idle = replace(case, id="idle", step=Step.NONE, due=None)
    acting.store.put(acting.store.get(U1).with_case(idle))
    acting.store.bring_forward(timedelta(seconds=7))
    assert [one.due for one in acting.store.get(U1).cases] == [
        case.due and case.due - timedelta(seconds=7),
        None,
    ]
