"""What the record of a failed drill has of the lab's objects."""

from __future__ import annotations

from msgspec.structs import replace
from tests.records import recorded
from tests.unit.operator.samples import NOW

from hypercobalt.api.conditions import Condition
from hypercobalt.api.eviction import (
    CheckResult,
    Eviction,
    EvictionCheck,
    EvictionInstance,
    EvictionMode,
    EvictionSpec,
    EvictionStatus,
    InstancePhase,
)
from hypercobalt.api.fencing import Fencing, FencingMethod, FencingPhase
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.drills.aftermath import of_eviction, of_hypervisor


def condition(type_: str, message: str) -> Condition:
    return Condition(type_, "True", "Why", message, NOW)


def test_failed_drill_shows_the_conditions_and_the_fencing_of_a_host() -> None:
    fencing = Fencing(
        phase=FencingPhase.FENCED,
        method=FencingMethod.AGENT,
        bootID="b1",
        evidence=("the agent has ended every instance",),
    )
    status = HypervisorStatus(fencing=fencing, conditions=(condition("Fenced", "it is dead"),))
    text = "\n".join(
        of_hypervisor(recorded(Hypervisor(metadata=ObjectMeta(name="kvm-1"), status=status)))
    )
    assert "Fenced True/Why" in text
    assert "it is dead" in text
    assert "fencing Fenced by Agent, boot b1" in text
    assert "the agent has ended every instance" in text


def test_failed_drill_shows_little_of_a_host_that_serves() -> None:
    ready = Condition("Ready", "True", "Ready", "all is well", NOW)
    status = HypervisorStatus(conditions=(ready, condition("NodeHealthy", "it is healthy")))
    host = Hypervisor(metadata=ObjectMeta(name="kvm-1"), status=status)
    lines = list(of_hypervisor(host))
    assert [line for line in lines if "all is well" in line]
    assert not [line for line in lines if "NodeHealthy" in line]


def test_failed_drill_shows_why_an_instance_waits() -> None:
    status = EvictionStatus(
        conditions=(condition("Evicting", "1 instance left"),),
        checks=(
            EvictionCheck("HostFenced", CheckResult.PENDING, "not proven"),
            EvictionCheck("TargetCapacity", CheckResult.PASSED, "room"),
        ),
        instances=(
            EvictionInstance(
                id="u", name="vm-1", phase=InstancePhase.PENDING, attempts=2, message="locked"
            ),
        ),
    )
    spec = EvictionSpec(hypervisor="kvm-1", reason="dead", mode=EvictionMode.EVACUATE)
    eviction = Eviction(metadata=ObjectMeta(name="ha-kvm-1"), spec=spec, status=status)
    text = "\n".join(of_eviction(eviction))
    assert "1 instance left" in text
    assert "check HostFenced Pending: not proven" in text
    assert "TargetCapacity" not in text
    assert "vm-1 is Pending, to no host, 2 attempts: locked" in text
    gone = replace(eviction, metadata=replace(eviction.metadata, deletionTimestamp=NOW))
    assert "is being deleted" in "\n".join(of_eviction(gone))
