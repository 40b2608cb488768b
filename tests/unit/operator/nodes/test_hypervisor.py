"""The status that the hypervisor controller decides."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.unit.operator.samples import LABELS, NOW, condition, hypervisor, node, reports

from hypercobalt.api.conditions import Condition, get_condition
from hypercobalt.api.core import Node
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.incident import Incident, IncidentType, Severity
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.workloads import Pod, PodSpec, PodStatus, Toleration
from hypercobalt.operator.agents.pods import OVERDUE, PodsReport, still_running
from hypercobalt.operator.nodes.hypervisor import agents_must_leave, decide, worth_a_pass
from hypercobalt.operator.shared.node_facts import AGGREGATES_ANNOTATION, OFFBOARDING_TAINT

LATER = NOW + timedelta(minutes=5)
FOR_GOOD = Toleration(operator="Exists")


def pod(*tolerations: Toleration, phase: str = "Running", deleted: bool = False) -> Pod:
    when = NOW if deleted else None
    return Pod(
        metadata=ObjectMeta(name="agent-1", namespace="agents", deletionTimestamp=when),
        spec=PodSpec(nodeName="kvm-a", tolerations=tolerations),
        status=PodStatus(phase=phase),
    )


def decided(of: Node, *stored: Condition, pods: PodsReport | None = None) -> tuple[Condition, ...]:
    return decide(of, hypervisor(*stored), pods, (), LATER).part.conditions


def summary(conditions: tuple[Condition, ...], type_: str) -> str:
    found = get_condition(conditions, type_)
    return f"{found.status}/{found.reason}" if found else ""


@pytest.mark.parametrize(
    ("of", "stored", "shown"),
    [
        pytest.param(node(), (), "", id="never reported, not needed"),
        pytest.param(node(reports("Terminating")), (), "True/Terminating", id="by Gardener"),
        pytest.param(node(deleted=True), (), "True/Terminating", id="being deleted"),
        pytest.param(node(reports("Terminating", "False")), (), "", id="false is not terminating"),
        pytest.param(
            node(),
            (condition("Terminating", "True", "Terminating"),),
            "False/NotTerminating",
            id="no longer true, so cleared",
        ),
    ],
)
def test_condition_terminating_follows_from_the_node(
    of: Node, stored: tuple[Condition, ...], shown: str
) -> None:
    assert summary(decided(of, *stored), "Terminating") == shown


@pytest.mark.parametrize(
    ("maintenance", "wants", "stored", "shown"),
    [
        pytest.param("termination", "other", (), "True/NodeDiffers", id="frozen"),
        pytest.param("termination", "general", (), "", id="frozen, and nothing else is wanted"),
        pytest.param("manual", "other", (), "", id="not frozen: it follows"),
        pytest.param(
            "termination",
            "general",
            (condition("SpecFrozen", "True", "NodeDiffers"),),
            "False/InStep",
            id="no longer wanted, so cleared",
        ),
    ],
)
def test_change_of_the_node_to_a_frozen_spec_is_reported(
    maintenance: str, wants: str, stored: tuple[Condition, ...], shown: str
) -> None:
    spec = HypervisorSpec(maintenance=maintenance, aggregates=("general", "zone-a"))
    annotated = node(annotations={AGGREGATES_ANNOTATION: wants})
    plan = decide(annotated, hypervisor(*stored, spec=spec), None, (), LATER)
    assert summary(plan.part.conditions, "SpecFrozen") == shown


def test_conditions_of_others_are_not_written() -> None:
    types = {c.type for c in decided(node(), condition("Ready", "True"))}
    assert types == {"NodeHealthy", "AcceptsNewInstances"}


def test_decision_does_not_depend_on_the_time() -> None:
    once = decided(node(reports("Ready")))
    again = decide(node(reports("Ready")), hypervisor(*once), None, (), LATER + timedelta(days=1))
    assert again.part.conditions == once


@pytest.mark.parametrize(
    ("pods", "shown"),
    [
        pytest.param(PodsReport(), "True/NoAgentPods", id="none left"),
        pytest.param(PodsReport((pod(),)), "False/AgentPodsRunning", id="one left"),
        pytest.param(PodsReport((), ("agents",)), "", id="not read yet, nothing to report"),
        pytest.param(
            PodsReport((), ("agents",), overdue=True), "Unknown/NotRead", id="cannot be read"
        ),
    ],
)
def test_condition_agent_pods_evicted_follows_from_the_pods(pods: PodsReport, shown: str) -> None:
    plan = decide(node(), hypervisor(), pods, (), NOW)
    assert summary(plan.part.conditions, "AgentPodsEvicted") == shown
    assert plan.requeue_after == (OVERDUE if pods.unread else None)


def test_agent_pods_of_an_earlier_offboarding_count_no_longer() -> None:
    left = condition("AgentPodsEvicted", "True", "NoAgentPods")
    assert summary(decided(node(), left), "AgentPodsEvicted") == "False/NotOffboarding"


@pytest.mark.parametrize(
    ("of", "counts"),
    [
        pytest.param(pod(), True, id="running"),
        pytest.param(pod(deleted=True), True, id="being deleted, held by a finalizer"),
        pytest.param(pod(phase="Succeeded"), False, id="succeeded"),
        pytest.param(pod(phase="Failed"), False, id="failed"),
        pytest.param(pod(FOR_GOOD), False, id="tolerates everything"),
        pytest.param(pod(Toleration(operator="Exists", tolerationSeconds=60)), True, id="a while"),
        pytest.param(pod(Toleration(operator="Exists", effect="NoSchedule")), True, id="effect"),
        pytest.param(
            pod(Toleration(key="kvm.cloud.sap/offboarding", operator="Exists")), False, id="key"
        ),
        pytest.param(pod(Toleration(key="kvm.cloud.sap/offboarding")), False, id="no value"),
        pytest.param(
            pod(Toleration(key="kvm.cloud.sap/offboarding", value="x")), True, id="other value"
        ),
        pytest.param(pod(Toleration(key="other", operator="Exists")), True, id="other key"),
    ],
)
def test_pod_that_runs_and_does_not_tolerate_the_taint_has_yet_to_leave(
    of: Pod, counts: bool
) -> None:
    assert still_running((of,)) == (("agents/agent-1",) if counts else ())


@pytest.mark.parametrize(
    ("maintenance", "evicting", "tainted", "leave"),
    [
        ("termination", condition("Evicting", "False", "Succeeded"), True, True),
        ("manual", condition("Evicting", "False", "Succeeded"), True, False),
        ("termination", condition("Evicting", "True", "Running"), True, False),
        ("termination", None, True, False),
        ("termination", condition("Evicting", "False", "Succeeded"), False, False),
        pytest.param(
            "termination",
            condition("Evicting", "False", "Failed"),
            True,
            False,
            id="failed eviction never lets termination proceed",
        ),
    ],
)
def test_agents_must_leave_once_termination_has_evicted_the_host(
    maintenance: str, evicting: Condition | None, tainted: bool, leave: bool
) -> None:
    of = hypervisor(
        *((evicting,) if evicting else ()), spec=HypervisorSpec(maintenance=maintenance)
    )
    where = node(taints=(OFFBOARDING_TAINT,) if tainted else ())
    assert agents_must_leave(of, where) is leave


LIVES = hypervisor(condition("NodeHealthy", "True"), labels=LABELS)


def with_incident(type_: IncidentType) -> Hypervisor:
    incident = Incident(id="i", type=type_, severity=Severity.CRITICAL)
    return replace(LIVES, status=replace(LIVES.status, incidents=(incident,)))


@pytest.mark.parametrize(
    ("new", "worth"),
    [
        pytest.param(hypervisor(*LIVES.conditions, labels=LABELS), False, id="nothing"),
        pytest.param(
            hypervisor(*LIVES.conditions, condition("LibVirtConnection", "True"), labels=LABELS),
            False,
            id="the node agent's report",
        ),
        pytest.param(
            replace(LIVES, status=replace(LIVES.status, numInstances=3)), False, id="an instance"
        ),
        pytest.param(with_incident(IncidentType.CRASH), False, id="a crash"),
        pytest.param(with_incident(IncidentType.MEMORY_FAILURE), True, id="its memory fails"),
        pytest.param(hypervisor(*LIVES.conditions), True, id="a label was taken away"),
        pytest.param(hypervisor(labels=LABELS), True, id="a condition was taken away"),
        pytest.param(
            replace(LIVES, spec=HypervisorSpec(maintenance="termination")), True, id="the spec"
        ),
        pytest.param(
            replace(LIVES, status=replace(LIVES.status, internalIp="10.0.0.9")), True, id="address"
        ),
        pytest.param(
            hypervisor(*LIVES.conditions, condition("Evicting", "False", "Succeeded")),
            True,
            id="empty",
        ),
    ],
)
def test_pass_follows_only_relevant_changes_of_others(new: Hypervisor, worth: bool) -> None:
    assert worth_a_pass(LIVES, new) is worth
