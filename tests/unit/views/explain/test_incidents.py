"""Incidents of a host in the explanation."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.unit.operator.samples import NOW, condition, hypervisor

from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.incident import Incident, IncidentType, Reaction, Severity
from hypercobalt.views.explain.hypervisor import ExplainedHypervisor, explain
from hypercobalt.views.explain.incidents import REMEDIES
from hypercobalt.views.explain.model import Explanation

CRASH = Incident(
    id="i-1",
    type=IncidentType.CRASH,
    severity=Severity.CRITICAL,
    instance="u-1",
    name="web",
    reaction=Reaction.RESTART,
    eviction="ha-i-1",
    count=2,
    firstSeen=NOW - timedelta(minutes=3),
    evidence=("StoppedFailed", "its QEMU or its guest crashed"),
)
STORAGE = Incident(
    id="host-1", type=IncidentType.STORAGE_DEGRADED, severity=Severity.CRITICAL, count=1
)
REBOOT = Incident(id="i-2", type=IncidentType.REBOOTING, severity=Severity.INFO, name="db")


def explained(*incidents: Incident) -> Explanation:
    return explain(
        ExplainedHypervisor(hypervisor(status=HypervisorStatus(incidents=incidents)), NOW)
    )


def shown(*incidents: Incident) -> list[str]:
    return explained(*incidents).lines


def test_each_grave_incident_is_listed_with_its_reaction() -> None:
    lines = shown(CRASH, STORAGE, REBOOT)
    assert lines[lines.index("Incidents:") + 1 :][:2] == [
        "  - Crash of web for 3m, seen 2 times, Critical, Restart by Eviction ha-i-1: "
        "its QEMU or its guest crashed",
        "  - StorageDegraded of the host, Critical, Report",
    ]
    assert not any("db" in line for line in lines)


def test_explanation_without_a_grave_incident_lists_none() -> None:
    assert "Incidents:" not in shown(REBOOT)


def test_storage_that_other_hosts_miss_too_is_named() -> None:
    host = hypervisor(status=HypervisorStatus(failingStorage=("/pool",)))
    lines = explain(ExplainedHypervisor(host, NOW)).lines
    assert lines[lines.index("Storage that fails on other hosts, too:") + 1] == "  - /pool"


@pytest.mark.parametrize("type_", REMEDIES)
def test_an_incident_that_nothing_ends_by_itself_has_what_to_do(type_: IncidentType) -> None:
    first = replace(CRASH, type=type_)
    (found,) = explained(first, replace(first, name="db", firstSeen=NOW), CRASH).also
    assert (found.condition, found.message) == (f"incident {type_}", "web, db")
    assert found.since == CRASH.firstSeen
    assert found.remedies


def test_handled_incident_needs_no_person() -> None:
    assert explained(CRASH, REBOOT).also == ()


def test_incidents_of_a_silent_agent_need_no_person() -> None:
    silent = condition("AgentReporting", "False", "AgentSilent", "45 s")
    storm = replace(STORAGE, type=IncidentType.EVENT_STORM)
    status = HypervisorStatus(conditions=(silent,), incidents=(storm,))
    found = explain(ExplainedHypervisor(hypervisor(status=status), NOW))
    assert [one.condition for one in found.also if "incident" in one.condition] == []
