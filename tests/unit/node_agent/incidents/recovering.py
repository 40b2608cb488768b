"""The recoveries of a host, without its agent: a test opens the incidents that they are for."""

from __future__ import annotations

from datetime import timedelta

from prometheus_client import CollectorRegistry
from tests.unit.ha.cases import open_case
from tests.unit.ha.signs import NODE, PLENTY, U1

from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.api.incident import IncidentType
from hypercobalt.ha.incidents.cases import InstanceRecord, State, Step
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.node_agent.incidents.metrics import IncidentMetrics
from hypercobalt.node_agent.incidents.recovery import Recoveries
from hypercobalt.node_agent.incidents.store import Store
from hypercobalt.node_agent.settings import NodeAgentSettings
from hypercobalt.runtime import FakeClock, Kube


class Recovering:
    """The recoveries of a host, and what they read and change.

    Args:
        kube: has the Hypervisor and the Evictions.
        clock: of the host.
        libvirt: of the host.
        config: that is active; a test may change it.
    """

    def __init__(
        self,
        kube: Kube,
        *,
        clock: FakeClock | None = None,
        libvirt: FakeLibvirt | None = None,
        config: HaConfig | None = None,
    ) -> None:
        self.clock, self.store = clock or FakeClock(), Store()
        self.libvirt, self.config = libvirt or FakeLibvirt(), config or HaConfig()
        self.recoveries = Recoveries(
            kube,
            self.libvirt,
            self.store,
            NodeAgentSettings(node=NODE, label=NODE, namespace="default"),
            IncidentMetrics(CollectorRegistry()),
            clock=self.clock,
            config=lambda: self.config,
            memory=lambda: PLENTY,
        )

    def open(
        self,
        step: Step,
        state: State = State.PAUSED,
        who: str = U1,
        type_: IncidentType = IncidentType.IO_ERROR,
        due_in: timedelta = timedelta(0),
    ) -> None:
        """Have an incident of an instance be due; libvirt has it as paused, unless it has it."""
        now = self.clock.now()
        case = open_case(type_, who, "1.1", now, about=f"/pool/{who}").then(step, now + due_in)
        self.libvirt.put(self.libvirt.here.get(who) or Domain(who, who, True, DomainState.PAUSED))
        domain_id = self.libvirt.here[who].id
        self.store.put(
            InstanceRecord(uuid=who, state=state, start="1.1", domain_id=domain_id, cases=(case,))
        )
