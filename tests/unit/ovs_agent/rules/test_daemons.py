"""What ovsdb-server and ovs-vswitchd prove of themselves, and of who manages them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.ovs_agent.switches import (
    NOW,
    but,
    database,
    found,
    healthy,
    interface,
    later,
    tap,
    without,
)

from hypercobalt.adapters.ovs.port import ProducerFault
from hypercobalt.adapters.ovs.rows import ManagerRow
from hypercobalt.ovs_agent.assess import judge
from hypercobalt.ovs_agent.facts import SwitchFacts
from hypercobalt.ovs_agent.rules.daemons import MANAGER_GRACE, assess_daemons


def managed(target: str, *, is_connected: bool = False) -> SwitchFacts:
    rows = database({"br-int": [tap()], "br-ex": [interface("eth0")]})
    return healthy(but(rows, managers={"m": ManagerRow("m", target, is_connected)}))


@pytest.mark.parametrize("target", ["tcp:192.0.2.9:6640", "ssl:[2001:db8::9]:6640"])
def test_manager_that_ovsdb_server_cannot_reach_is_an_issue_and_no_condition(target: str) -> None:
    facts = managed(target)
    first = judge(facts, {}, now=NOW, monotonic=0.0)
    seconds = MANAGER_GRACE.total_seconds()
    last = judge(facts, first.ledger, now=later(seconds), monotonic=seconds)
    assert [(one.code, one.object, one.severity) for one in last.status.issues] == [
        ("ManagerDisconnected", target, "Warning")
    ]
    assert all(one.status == "True" for one in last.conditions.values())
    assert found(assess_daemons(managed(target, is_connected=True))) == []


@pytest.mark.parametrize("target", ["ptcp:6640:127.0.0.1", "pssl:6640", "punix:/run/x.sock", ""])
def test_manager_that_ovsdb_server_listens_for_needs_no_connection(target: str) -> None:
    assert found(assess_daemons(managed(target))) == []


def test_ovsdb_server_alone_proves_its_manager() -> None:
    facts = managed("tcp:192.0.2.9:6640")
    assert ("ManagerDisconnected", "tcp:192.0.2.9:6640") in found(
        assess_daemons(without(facts, "vswitchd"))
    )
    away = assess_daemons(without(facts, "database"))
    assert "ManagerDisconnected" in {one.value for one in away.unmeasured}
    assert [code for code, _ in found(away)] == ["OVSDBDisconnected"]


@pytest.mark.parametrize(
    ("facts", "waits"),
    [
        (without(healthy(), "database", ProducerFault.CONNECTION_REFUSED), True),
        (without(healthy(), "database", ProducerFault.TIMEOUT), False),
        (without(without(healthy(), "database", ProducerFault.CLOSED), "vswitchd"), False),
    ],
)
def test_issue_names_what_ovs_vswitchd_does_not_do_without_ovsdb(
    facts: SwitchFacts, waits: bool
) -> None:
    (finding, *_) = assess_daemons(facts).findings
    assert finding.code == "OVSDBDisconnected"
    assert ("no bond fails over" in finding.message) is waits


def test_hostile_target_stays_on_its_line() -> None:
    facts = managed("tcp:\n\x1b[2J" + "x" * 40_000)
    first = judge(facts, {}, now=NOW, monotonic=0.0)
    last = judge(replace(facts), first.ledger, now=later(90), monotonic=90.0)
    (issue,) = last.status.issues
    assert (issue.message + (issue.object or "")).isprintable()
    assert len(issue.message) <= 1024
