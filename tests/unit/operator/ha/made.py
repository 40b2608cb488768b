"""A silent host at the stages of its recovery, for tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from msgspec.structs import replace as with_fields
from tests.records import recorded
from tests.unit.operator.samples import NOW

from hypercobalt.api.conditions import Condition
from hypercobalt.api.eviction import EvictionMode
from hypercobalt.api.fencing import Fencing, FencingMethod, FencingPhase
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.model import Host
from hypercobalt.ha.host_failure.doubts import LatestReports
from hypercobalt.ha.host_failure.facts import FenceSetup, Means
from hypercobalt.ha.host_failure.guard import Gate
from hypercobalt.ha.host_failure.node_failure import Dead
from hypercobalt.operator.ha.model.facts import RecoveryFacts
from hypercobalt.operator.ha.model.plan import BEFORE
from hypercobalt.operator.ha.planning.evictions import recovery
from hypercobalt.operator.ha.settings import HaSettings
from hypercobalt.operator.shared.ha_mode import HaMode

S = timedelta(seconds=1)
SETTINGS = HaSettings(mode=HaMode.INTERNAL)
DEAD = Dead(("silent",))
HEALTHY = ("NodeHealthy", "AgentReporting", "LibVirtConnection")
ATTEMPT = Fencing(
    phase=FencingPhase.ATTEMPTING, bootID="b1", method=FencingMethod.BMC, device="bmc", attempts=1,
    startedAt=NOW, deadline=NOW + 61 * S, evidence=("silent",), leaseRenewedAt="12:00",
)  # fmt: skip
PROVEN = with_fields(ATTEMPT, phase=FencingPhase.FENCED, fencedAt=NOW, proof="off")
DOWN = with_fields(PROVEN, forcedDownAt=NOW)
OPEN, CLOSED = Gate("MaxUnhealthy", True, "few"), Gate("MaxUnhealthy", False, "many", storm=True)
HOST = Host("kvm-a", "h", "s", enabled=True, up=False, servers=("vm-1",))
EMPTY = replace(HOST, servers=())


def hypervisor(
    fencing: Fencing | None = None,
    *,
    mode: str = "",
    before: str = "",
    boot: str = "b1",
    conditions: tuple[Condition, ...] = (),
) -> Hypervisor:
    made = Hypervisor(
        metadata=ObjectMeta(name="kvm-a", uid="u", annotations={BEFORE: before} if before else {}),
        spec=HypervisorSpec(maintenance=mode),
        status=HypervisorStatus(
            bootID=boot, fencing=fencing, unhealthySince=NOW, conditions=conditions
        ),
    )
    return recorded(made)


FACTS = RecoveryFacts(
    hypervisor=hypervisor(mode="ha"),
    verdict=DEAD,
    ready="Unknown",
    latest=LatestReports("b1", "12:00"),
    silenced="",
    abandoned=False,
    gates=(OPEN,),
    host=HOST,
    evictions=(),
    fence=FenceSetup(Means("bmc", 60 * S)),
    stopped="",
    asserted="",
    rejected="",
    assertion=None,
    mine=None,
    now=NOW,
)
EVACUATION = recovery(FACTS.hypervisor, EvictionMode.EVACUATE, NOW)
