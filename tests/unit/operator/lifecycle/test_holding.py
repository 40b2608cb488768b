"""When a deleted Hypervisor is kept."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.operator.lifecycle.facts import ON, facts
from tests.unit.operator.samples import NOW, condition

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.core import Node, NodeCondition, NodeStatus
from hypercobalt.api.hypervisor_status import SmokeTest
from hypercobalt.api.meta import ObjectMeta, OwnerReference
from hypercobalt.operator.lifecycle.holding import is_needed, stays
from hypercobalt.operator.lifecycle.step import LifecycleFacts
from hypercobalt.operator.nodes.hypervisor import orphaned

LEAVING = replace(ON, maintenance="termination")
UNTESTED = replace(ON, skipTests=True)


def onboarding(reason: str, status: str = "True") -> LifecycleFacts:
    return facts(condition("Onboarding", status, reason))


@pytest.mark.parametrize(
    ("given", "needed"),
    [
        pytest.param(facts(), False, id="nothing has begun"),
        pytest.param(onboarding("Initial"), True, id="a test server may come"),
        pytest.param(onboarding("Testing"), True, id="a test server is there"),
        pytest.param(onboarding("Aborted"), True, id="a test server is not deleted yet"),
        pytest.param(onboarding("Handover"), False, id="the test is over"),
        pytest.param(onboarding("Succeeded", "False"), False, id="in service"),
        pytest.param(onboarding("Aborted", "False"), False, id="given up and tidy"),
        pytest.param(
            facts(condition("Onboarding", "False", "Aborted"), smokeTest=SmokeTest(1)),
            True,
            id="given up, and a test server is left",
        ),
        pytest.param(
            facts(condition("Onboarding", "True", "Initial"), spec=UNTESTED), False, id="no test"
        ),
        pytest.param(
            facts(condition("Onboarding", "True", "Testing"), spec=UNTESTED),
            True,
            id="the label came in the middle of the test",
        ),
        pytest.param(facts(spec=LEAVING), True, id="on its way out"),
        pytest.param(
            facts(condition("Offboarded", "True"), spec=LEAVING), False, id="it has left OpenStack"
        ),
        pytest.param(facts(spec=LEAVING, serviceId=None), False, id="it never was in OpenStack"),
        pytest.param(
            facts(spec=replace(LEAVING, lifecycleEnabled=False)), False, id="it is not managed"
        ),
    ],
)
def test_finalizer_is_needed_while_openstack_has_the_host_or_a_test_server(
    given: LifecycleFacts, needed: bool
) -> None:
    assert is_needed(given.hypervisor) is needed


NODE = Node(metadata=ObjectMeta(name="kvm-a", uid="u-1"))
GOING = NodeStatus(conditions=(NodeCondition("Terminating", "True"),))


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        pytest.param(NODE, True, id="its owner"),
        pytest.param(None, False, id="none"),
        pytest.param(
            replace(NODE, metadata=replace(NODE.metadata, uid="u-2")), False, id="a newer one"
        ),
        pytest.param(
            replace(NODE, metadata=replace(NODE.metadata, deletionTimestamp=NOW)),
            False,
            id="being deleted",
        ),
        pytest.param(replace(NODE, status=GOING), False, id="being terminated"),
    ],
)
def test_node_of_the_hypervisor_stays_unless_it_is_deleted_or_replaced(
    node: Node | None, expected: bool
) -> None:
    given = facts().hypervisor
    owner = OwnerReference("v1", "Node", "kvm-a", "u-1")
    owned = replace(given, metadata=replace(given.metadata, ownerReferences=(owner,)))
    assert stays(node, owned) is expected


@pytest.mark.parametrize(("spec", "pods"), [(ON, False), (LEAVING, True)])
def test_hypervisor_without_a_node_is_terminating(spec: object, pods: bool) -> None:
    given = facts(condition("NodeHealthy", "True"), spec=spec)  # type: ignore[arg-type]
    shown = orphaned(given.hypervisor, NOW).conditions
    terminating = get_condition(shown, "Terminating")
    assert terminating is not None
    assert (terminating.status, terminating.message) == ("True", "The Node is gone")
    assert (get_condition(shown, "AgentPodsEvicted") is not None) is pods
    assert get_condition(shown, "NodeHealthy") is not None
