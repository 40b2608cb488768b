"""Versions and DPDK in the status: what runs, while it answers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.ovs_agent.switches import (
    NOW,
    but,
    daemon,
    database,
    healthy,
    interface,
    tap,
    without,
)

from hypercobalt.adapters.ovs.model import DaemonName
from hypercobalt.ovs_agent.assess import judge
from hypercobalt.ovs_agent.facts import Reading, SwitchFacts

VSWITCHD, SERVER = DaemonName.VSWITCHD, DaemonName.OVSDB_SERVER
Shown = tuple[str | None, str | None, bool | None, str | None]


def running(**switch: object) -> SwitchFacts:
    """ovs-vswitchd 3.1.0 and ovsdb-server 3.2.0, and what the database has of them."""
    rows = database({"br-int": [tap()], "br-ex": [interface("eth0")]})
    rows = but(rows, switch=replace(rows.switch, **switch))  # type: ignore[arg-type]
    return healthy(rows, ovsdb_server=Reading(daemon(SERVER, "3.2.0")))


def shown(facts: SwitchFacts) -> Shown:
    status = judge(facts, {}, now=NOW, monotonic=0.0).status
    return status.ovsVersion, status.ovsdVersion, status.dpdkEnabled, status.dpdkVersion


DPDK = running(dpdk_initialized=True, dpdk_version="DPDK 22.11.1")
NAMELESS = Reading(daemon(VSWITCHD, ""))
CASES: dict[str, tuple[SwitchFacts, Shown]] = {
    "without DPDK": (running(), ("3.1.0", "3.2.0", False, None)),
    "built without DPDK": (running(dpdk_version="none"), ("3.1.0", "3.2.0", False, None)),
    "with DPDK": (DPDK, ("3.1.0", "3.2.0", True, "22.11.1")),
    "another version is installed": (running(ovs_version="3.3.0"), ("3.1.0", "3.2.0", False, None)),
    "an answer without a version": (
        but(running(ovs_version="3.0.5"), vswitchd=NAMELESS),
        ("3.0.5", "3.2.0", False, None),
    ),
    "ovs-vswitchd is away": (without(DPDK, "vswitchd"), (None, "3.2.0", None, None)),
    "ovsdb-server is away": (
        without(without(DPDK, "database"), "ovsdb_server"),
        ("3.1.0", None, None, None),
    ),
    "nothing has answered": (SwitchFacts(), (None, None, None, None)),
}


@pytest.mark.parametrize("case", CASES)
def test_versions_are_those_of_what_answers(case: str) -> None:
    facts, expected = CASES[case]
    assert shown(facts) == expected
