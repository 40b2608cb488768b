"""Objects and taints for Gardener's machine controller."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.operator.samples import condition, hypervisor, node, reports

from hypercobalt.api.conditions import Condition
from hypercobalt.api.core import Node, Taint
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.operator.nodes.gardener import LABEL, GardenerSignal, decide, worth_a_pass
from hypercobalt.operator.settings import GARDENER_NAMESPACE as NAMESPACE
from hypercobalt.operator.shared.node_facts import HOSTNAME_LABEL, OFFBOARDING_TAINT

ON = HypervisorSpec(lifecycleEnabled=True)
LEAVING = HypervisorSpec(lifecycleEnabled=True, maintenance="termination")
ONBOARDED = condition("Onboarding", "False", "Succeeded")
OFFBOARDED = condition("Offboarded", "True", "Offboarded")
EVICTED = condition("Evicting", "False", "Succeeded")
HA_ON = condition("HaEnabled", "True", "Succeeded")
HA_UNKNOWN = condition("HaEnabled", "Unknown", "Failed")
HA_OFF = condition("HaEnabled", "False", "Evicted")
GOING = reports("Terminating")
TAINTED = node(GOING, taints=(OFFBOARDING_TAINT,))


def decided(
    of: Node, *conditions: Condition, spec: HypervisorSpec = ON
) -> GardenerSignal | Taint | None:
    return decide(of, hypervisor(*conditions, spec=spec), "image:1", NAMESPACE, signalled=False)


def signalled(of: Node, *conditions: Condition) -> GardenerSignal:
    plan = decided(of, *conditions)
    assert isinstance(plan, GardenerSignal)
    return plan


def kept(plan: GardenerSignal) -> int:
    count = plan.deployment.spec.replicas
    assert plan.budget.spec.minAvailable == count
    assert isinstance(count, int)
    return count


def probe(plan: GardenerSignal) -> str:
    (container,) = plan.deployment.spec.template.spec.containers
    assert container.startupProbe is not None
    assert container.startupProbe.exec is not None
    return " ".join(container.startupProbe.exec.command)


def test_host_outside_the_lifecycle_is_not_managed() -> None:
    assert decided(node(), OFFBOARDED, spec=HypervisorSpec(lifecycleEnabled=False)) is None


@pytest.mark.parametrize(
    ("of", "conditions", "count"),
    [
        pytest.param(node(), (), 1, id="new"),
        pytest.param(node(), (ONBOARDED,), 1, id="in service"),
        pytest.param(node(), (ONBOARDED, OFFBOARDED), 0, id="offboarded"),
        pytest.param(TAINTED, (ONBOARDED, OFFBOARDED, EVICTED, HA_ON), 1, id="ha is still on"),
        pytest.param(TAINTED, (ONBOARDED, OFFBOARDED, EVICTED, HA_UNKNOWN), 1, id="ha unknown"),
        pytest.param(TAINTED, (ONBOARDED, OFFBOARDED, EVICTED, HA_OFF), 0, id="ha is off"),
        pytest.param(TAINTED, (ONBOARDED, OFFBOARDED, EVICTED), 0, id="ha was never on"),
        pytest.param(TAINTED, (OFFBOARDED, HA_ON), 0, id="was never in service"),
        pytest.param(
            node(reports("Terminating", "False"), taints=(OFFBOARDING_TAINT,)),
            (ONBOARDED, OFFBOARDED, HA_ON),
            0,
            id="terminating counts when it is true only",
        ),
    ],
)
def test_disruption_budget_keeps_the_node_until_it_may_go(
    of: Node, conditions: tuple[Condition, ...], count: int
) -> None:
    assert kept(signalled(of, *conditions)) == count


def test_pod_gets_ready_when_onboarding_is_over() -> None:
    assert probe(signalled(node())) == "/bin/false"
    assert probe(signalled(node(), condition("Onboarding", "True"))) == "/bin/false"
    assert probe(signalled(node(), ONBOARDED)) == "/bin/true"


@pytest.mark.parametrize(
    ("of", "spec", "evicting", "taint"),
    [
        pytest.param(node(), LEAVING, EVICTED, True, id="emptied in termination"),
        pytest.param(TAINTED, LEAVING, EVICTED, False, id="has it already"),
        pytest.param(node(), ON, EVICTED, False, id="only in termination"),
        pytest.param(node(), LEAVING, condition("Evicting", "True"), False, id="not empty yet"),
        pytest.param(
            node(), LEAVING, condition("Evicting", "False", "Failed"), False, id="eviction failed"
        ),
    ],
)
def test_taint_evicts_the_agents_of_a_host_emptied_in_termination(
    of: Node, spec: HypervisorSpec, evicting: Condition, taint: bool
) -> None:
    plan = decided(of, evicting, spec=spec)
    assert isinstance(plan, Taint if taint else GardenerSignal)


def test_objects_are_named_labelled_and_owned_so_that_changes_are_seen() -> None:
    plan = signalled(node(labels={HOSTNAME_LABEL: "short"}))
    for made in (plan.budget, plan.deployment):
        meta = made.metadata
        assert (meta.namespace, meta.name) == ("kube-system", "maint-kvm-a")
        assert meta.labels == {LABEL: "maint-kvm-a"}
        assert [owner.controller for owner in meta.ownerReferences] == [True]
    template = plan.deployment.spec.template
    assert template.metadata.labels == {
        LABEL: "maint-kvm-a",
        "node.gardener.cloud/critical-component": "true",
    }
    assert template.spec.nodeSelector == {HOSTNAME_LABEL: "short"}
    assert {t.effect for t in template.spec.tolerations} == {"NoExecute", "NoSchedule"}
    assert template.spec.containers[0].image == "image:1"


@pytest.mark.parametrize(
    ("conditions", "kept_label", "chosen"),
    [((), "kvm-a", "kvm-a"), ((condition("Registered", "False", "Claimed"),), "kvm-c", "kvm-a")],
)
def test_pod_of_a_host_is_scheduled_to_no_node_whose_name_the_host_takes(
    conditions: tuple[Condition, ...], kept_label: str, chosen: str
) -> None:
    of = hypervisor(*conditions, spec=ON, labels={HOSTNAME_LABEL: kept_label})
    taken = node(labels={HOSTNAME_LABEL: "kvm-c"})
    plan = decide(taken, of, "image:1", NAMESPACE, signalled=False)
    assert isinstance(plan, GardenerSignal)
    assert plan.deployment.spec.template.spec.nodeSelector == {HOSTNAME_LABEL: chosen}


IDLE = hypervisor(ONBOARDED, spec=ON)


@pytest.mark.parametrize(
    ("new", "worth"),
    [
        pytest.param(IDLE, False, id="nothing"),
        pytest.param(hypervisor(ONBOARDED, spec=replace(ON, version="2")), False, id="version"),
        pytest.param(hypervisor(ONBOARDED, condition("Ready", "True"), spec=ON), False, id="ready"),
        pytest.param(
            hypervisor(replace(ONBOARDED, message="other words"), spec=ON), False, id="a message"
        ),
        pytest.param(hypervisor(ONBOARDED, OFFBOARDED, spec=ON), True, id="offboarded"),
        pytest.param(hypervisor(ONBOARDED, HA_OFF, spec=ON), True, id="ha"),
        pytest.param(hypervisor(ONBOARDED, EVICTED, spec=ON), True, id="evicted"),
        pytest.param(hypervisor(spec=ON), True, id="onboarding"),
        pytest.param(hypervisor(ONBOARDED, spec=LEAVING), True, id="termination"),
    ],
)
def test_pass_follows_only_relevant_changes(new: Hypervisor, worth: bool) -> None:
    assert worth_a_pass(IDLE, new) is worth
