"""When the own Hypervisor is read before something is done, and how old what it says may be."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from prometheus_client import CollectorRegistry
from tests.integration.runtime.scripted import eventually
from tests.unit.ha.signs import NODE, PLENTY, U1, uuid
from tests.unit.node_agent.incidents.server import Server

from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.api.incident import IncidentType, Severity
from hypercobalt.ha.cases import Case, Instance, State, Step, key_of
from hypercobalt.ha.config import HaConfig
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

    def open(self, step: Step, state: State, who: str = U1) -> None:
        """Have an I/O error of an instance be due."""
        now = self.clock.now()
        case = Case(
            id=key_of(who, "1.1", IncidentType.IO_ERROR),
            type=IncidentType.IO_ERROR,
            severity=Severity.CRITICAL,
            start="1.1",
            first_seen=now,
            last_seen=now,
            about=f"/pool/{who}",
        )
        self.libvirt.put(Domain(who, who, True, DomainState.PAUSED))
        known = Instance(uuid=who, state=state, start="1.1", cases=(case.then(step, now),))
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


async def test_server_is_not_asked_where_nothing_would_be_done() -> None:
    acting = Acting()
    for who in (U1, U2):
        acting.open(Step.RECOVER, State.RUNNING, who)
    later = acting.clock.now() + timedelta(seconds=30)
    await acting.until(
        lambda: all((acting.store.get(who).cases[0].due or later) > later for who in (U1, U2))
    )
    assert acting.server.reads == 0
