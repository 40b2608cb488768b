"""When each reporting component was last seen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from tests.unit.operator.samples import node
from tests.unit.views.explain.made import lease, reporters

from hypercobalt.api.core import NodeCondition
from hypercobalt.operator.election import LEASE
from hypercobalt.views.explain.model import Explanation, Finding, Remedy
from hypercobalt.views.explain.reporters import (
    Reporters,
    is_late,
    operator_findings,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "holder", "late"),
    [(0, "x", False), (40, "x", False), (41, "x", True), (1, "", True), (-30, "x", False)],
    ids=["just renewed", "at its end", "run out", "released", "of a clock that is ahead"],
)
def test_a_lease_counts_for_its_own_duration(seconds: int, holder: str, *, late: bool) -> None:
    assert is_late(lease("x", NOW - timedelta(seconds=seconds), holder=holder), NOW) is late


def test_reporter_whose_lease_cannot_be_read_is_unknown_and_not_silent() -> None:
    found = Reporters(unreadable=("Lease", "Node")).sightings("kvm-a", NOW)
    assert not any(one.stale for one in found)
    assert {one.detail for one in found} == {"Leases cannot be read with these credentials"}


def test_a_kubelet_without_a_lease_counts_by_its_heartbeat() -> None:
    old = NodeCondition(type="Ready", status="True", lastHeartbeatTime=NOW - timedelta(minutes=9))
    agent, kubelet, _ = Reporters(node=node(old)).sightings("kvm-a", NOW)
    assert (agent.seen, agent.stale) == (None, True)
    assert (kubelet.stale, kubelet.detail) == (True, "Node kvm-a, Ready True")


def test_an_operator_that_released_its_lease_does_not_lead() -> None:
    released = Reporters(operator=lease(LEASE, NOW, holder=""))
    (found,) = operator_findings(released, NOW)
    assert found.message.startswith("No operator leads")
    assert operator_findings(reporters(NOW), NOW) == ()


def test_an_explanation_is_json_with_the_same_content() -> None:
    finding = Finding("why", "Evicting True/Running", NOW, "operator", (Remedy("do", "cobalt x"),))
    seen = reporters(NOW).sightings("kvm-a", NOW)
    whole = Explanation("Hypervisor", "kvm-a", NOW, "Evicting", NOW, waiting=(finding,), seen=seen)
    body = msgspec.json.decode(msgspec.json.encode(whole))
    assert body["waiting"][0]["remedies"] == [{"text": "do", "command": "cobalt x"}]
    assert body["seen"][0]["who"] == "node agent"
    assert body["state"] == "Evicting"
