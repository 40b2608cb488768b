"""The OVSNode that is written: conditions with their times, and where the agent serves people."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec.structs import replace as but
from tests.unit.ovs_agent.switches import NOW, healthy, later, without

from hypercobalt.api.diagnostics import DiagnosticsEndpoint
from hypercobalt.api.ovsnode import OVSNode, OVSNodeStatus
from hypercobalt.ovs_agent.agent import new_object
from hypercobalt.ovs_agent.assess import judge
from hypercobalt.ovs_agent.facts import SwitchFacts
from hypercobalt.ovs_agent.settings import OVSAgentSettings
from hypercobalt.ovs_agent.status.compose import compose
from hypercobalt.ovs_agent.status.parts import Parts, with_status

STORED = new_object(OVSAgentSettings("kvm-a"))
STORED = but(STORED, metadata=but(STORED.metadata, generation=3))
KEPT = OVSNodeStatus(ovsVersion="3.0.0", issuesTotal=2)


def judged(parts: Parts, facts: SwitchFacts, seconds: float) -> Parts:
    made = judge(facts, {}, now=later(seconds), monotonic=seconds)
    return with_status(parts, made.status, made.conditions, later(seconds))


def written(parts: Parts, stored: OVSNode = STORED) -> OVSNodeStatus:
    return compose(parts, stored, stored.status)


def test_object_names_its_node() -> None:
    assert (STORED.metadata.name, STORED.spec.nodeRef.name) == ("kvm-a", "kvm-a")


def test_conditions_have_a_message_a_generation_and_the_time_of_their_last_change() -> None:
    first = judged(Parts(), healthy(), 0)
    second = judged(first, healthy(instances=None), 60)
    third = judged(second, without(healthy(), "vswitchd"), 120)
    of_ports = [
        next(one for one in written(parts).conditions if one.type == "PortsHealthy")
        for parts in (first, second, third)
    ]
    assert [(one.status, one.reason) for one in of_ports] == [
        ("True", "NoIssues"),
        ("True", "NoIssues"),
        ("Unknown", "VswitchdUnavailable"),
    ]
    assert [one.lastTransitionTime for one in of_ports] == [NOW, NOW, later(120)]
    assert of_ports[1].message == (
        "Not measured: InstanceDeviceLost, PortSilentlyDead, OrphanPortNoDomain"
    )
    assert {one.observedGeneration for one in of_ports} == {3}


@pytest.mark.parametrize("endpoint", [None, DiagnosticsEndpoint("https://10.0.0.1:9188", "9f2c")])
def test_endpoint_is_there_while_the_agent_serves_people(
    endpoint: DiagnosticsEndpoint | None,
) -> None:
    parts = replace(judged(Parts(), healthy(), 0), diagnostics=endpoint)
    stored = but(STORED, status=OVSNodeStatus(diagnostics=DiagnosticsEndpoint("https://old", "0")))
    assert written(parts, stored).diagnostics == endpoint


def test_status_of_before_stays_until_the_switch_was_judged() -> None:
    kept = compose(Parts(), STORED, KEPT)
    assert (kept.ovsVersion, kept.issuesTotal) == ("3.0.0", 2)
    first = written(judged(Parts(), healthy(), 0), but(STORED, status=KEPT))
    assert (first.ovsVersion, first.issuesTotal, first.lastProbeTime) == ("3.1.0", 0, NOW)
