"""Bonds: what is configured, what carries, and the traps between the two."""

from __future__ import annotations

import pytest
from tests.unit.ovs_agent.switches import (
    NOT_RUNNING,
    bond,
    database,
    found,
    healthy,
    interface,
    shown,
    without,
)

from hypercobalt.adapters.ovs.links import KernelBond, KernelBondMember
from hypercobalt.adapters.ovs.model import BondState, LacpStatus
from hypercobalt.adapters.ovs.port import ProducerFault
from hypercobalt.adapters.ovs.rows import InterfaceRow
from hypercobalt.api.ovsnode import Bond
from hypercobalt.ovs_agent.facts import Reading, SwitchFacts
from hypercobalt.ovs_agent.rules.bonds import CODES, assess_bonds
from hypercobalt.ovs_agent.rules.findings import Assessed

UP = {"eth0": True, "eth1": True}
ONE = {"eth0": True, "eth1": False}
NONE = {"eth0": False, "eth1": False}


def two(one: InterfaceRow, other: InterfaceRow, *states: BondState, **port: object) -> SwitchFacts:
    rows = database({"br-int": [], "br-ex": [bond("bond0", one, other, **port)]})
    return healthy(rows, bonds=Reading(states))


def eth(number: int, **fields: object) -> InterfaceRow:
    return interface(f"eth{number}", number + 1, **{"lacp_current": True, **fields})


def summary(assessed: Assessed[tuple[Bond, ...]]) -> tuple[str | None, int | None, int | None]:
    (one,) = assessed.value
    return one.status, one.members, one.activeMembers


CASES = {
    "all members carry": (
        two(eth(0), eth(1), shown("bond0", UP), lacp="active"),
        ("Active", 2, 2),
        [],
    ),
    "no LACP wanted": (
        two(eth(0), eth(1), shown("bond0", UP, "active-backup", LacpStatus.OFF)),
        ("Active", 2, 2),
        [],
    ),
    "carrier loss of one member": (
        two(eth(0), eth(1, link_up=False), shown("bond0", ONE), lacp="active"),
        ("Degraded", 2, 1),
        [("MemberDown", "bond0/eth1")],
    ),
    "the row shows the loss before bond/show does": (
        two(eth(0), eth(1, link_up=False), shown("bond0", UP), lacp="active"),
        ("Degraded", 2, 1),
        [("MemberDown", "bond0/eth1")],
    ),
    "both down": (
        two(eth(0, link_up=False), eth(1, link_up=False), shown("bond0", NONE)),
        ("Down", 2, 0),
        [("MemberDown", "bond0/eth0"), ("MemberDown", "bond0/eth1"), ("BondDown", "bond0")],
    ),
    # The bond is gone from bond/show, the survivor is a plain port.
    "a member's device is missing": (
        two(eth(0), interface("eth1", -1, error="could not open network device eth1")),
        ("Degraded", 2, 1),
        [("MemberMissing", "bond0/eth1")],
    ),
    "both devices are missing": (
        two(interface("eth0", -1), interface("eth1", -1)),
        ("Down", 2, 0),
        [("MemberMissing", "bond0/eth0"), ("MemberMissing", "bond0/eth1"), ("BondDown", "bond0")],
    ),
    # Every link light is green, and nothing is carried.
    "the LACP partner is silent": (
        two(
            eth(0, lacp_current=False),
            eth(1, lacp_current=False),
            shown("bond0", NONE, lacp=LacpStatus.CONFIGURED),
            lacp="active",
        ),
        ("Down", 2, 0),
        [("LACPNotNegotiated", "bond0")],
    ),
    "the LACP partner has just gone silent": (
        two(
            eth(0, lacp_current=False),
            eth(1, lacp_current=False),
            shown("bond0", NONE, lacp=LacpStatus.NEGOTIATED),
            lacp="active",
        ),
        ("Down", 2, 0),
        [("LACPNotNegotiated", "bond0")],
    ),
    "the LACP partner is silent, with fallback": (
        two(
            eth(0, lacp_current=False),
            eth(1, lacp_current=False),
            shown("bond0", UP, lacp=LacpStatus.CONFIGURED, fallback=True),
            lacp="active",
        ),
        ("Degraded", 2, 2),
        [("LACPNotNegotiated", "bond0")],
    ),
    "all cables pulled with LACP": (
        two(
            eth(0, link_up=False),
            eth(1, link_up=False),
            shown("bond0", NONE, lacp=LacpStatus.CONFIGURED),
            lacp="active",
        ),
        ("Down", 2, 0),
        [("MemberDown", "bond0/eth0"), ("MemberDown", "bond0/eth1"), ("BondDown", "bond0")],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bond_shows_what_is_configured_and_what_carries(case: str) -> None:
    facts, expected, findings = CASES[case]
    assessed = assess_bonds(facts)
    assert summary(assessed) == expected
    assert found(assessed) == findings
    assert not assessed.unmeasured


def test_bond_that_carries_nothing_is_critical_and_one_that_carries_less_a_warning() -> None:
    severities = {
        case: {one.severity.value for one in assess_bonds(CASES[case][0]).findings}
        for case in ("both down", "carrier loss of one member", "the LACP partner is silent")
    }
    assert severities == {
        "both down": {"Critical"},
        "carrier loss of one member": {"Warning"},
        "the LACP partner is silent": {"Critical"},
    }


def test_mode_is_the_running_one_and_else_the_configured_or_the_default() -> None:
    running = two(eth(0), eth(1), shown("bond0", UP, "balance-slb"), bond_mode="balance-tcp")
    configured = two(eth(0), interface("eth1", -1), bond_mode="balance-slb")
    default = two(eth(0), interface("eth1", -1))
    modes = [assess_bonds(facts).value[0].mode for facts in (running, configured, default)]
    assert modes == ["balance-slb", "balance-slb", "active-backup"]


def test_dead_vswitchd_makes_bonds_unknown() -> None:
    facts = two(eth(0), eth(1), shown("bond0", UP))
    assessed = assess_bonds(without(facts, "vswitchd"))
    assert assessed.value == (Bond(name="bond0", status="Unknown"),)
    assert assessed.unmeasured == CODES
    assert not assessed.findings


@pytest.mark.parametrize(
    ("members", "status"), [(UP, "Unknown"), (ONE, "Degraded"), (NONE, "Down")]
)
def test_ovsdb_that_hangs_leaves_of_bonds_what_vswitchd_proves(
    members: dict[str, bool], status: str
) -> None:
    facts = two(eth(0), eth(1), shown("bond0", members))
    (one,) = assess_bonds(without(facts, "database")).value
    assert (one.status, one.members, one.activeMembers) == (status, None, sum(members.values()))


@pytest.mark.parametrize("fault", NOT_RUNNING)
def test_ovsdb_that_does_not_run_leaves_of_bonds_the_names(fault: ProducerFault) -> None:
    """Without it, ovs-vswitchd answers as of before, whatever becomes of the members."""
    facts = without(two(eth(0), eth(1), shown("bond0", ONE)), "database", fault)
    assessed = assess_bonds(facts)
    assert assessed.value == (Bond(name="bond0", status="Unknown"),)
    assert assessed.unmeasured == CODES


def test_port_with_one_interface_is_no_bond() -> None:
    assert assess_bonds(healthy()).value == ()


def kernel(partner: str | None, *members: tuple[bool, int | None]) -> SwitchFacts:
    rows = database({"br-ex": [interface("bond0")], "br-int": []})
    made = tuple(
        KernelBondMember(f"eth{number}", up, aggregator)
        for number, (up, aggregator) in enumerate(members)
    )
    bond_ = KernelBond(
        "bond0",
        "802.3ad" if partner else "active-backup",
        True,
        made,
        aggregator=1 if partner else None,
        partner=partner,
    )
    unrelated = KernelBond("mgmt", "active-backup", False)
    return healthy(rows, kernel_bonds=Reading((bond_, unrelated)))


PARTNER, SILENT = "aa:bb:cc:00:00:01", "00:00:00:00:00:00"


@pytest.mark.parametrize(
    ("facts", "expected", "findings"),
    [
        (kernel(PARTNER, (True, 1), (True, 1)), ("Active", 2, 2), []),
        (
            kernel(PARTNER, (True, 1), (False, 1)),
            ("Degraded", 2, 1),
            [("MemberDown", "bond0/eth1")],
        ),
        (
            kernel(PARTNER, (True, 1), (True, 2)),  # in an aggregate of its own: carries nothing
            ("Degraded", 2, 1),
            [("MemberDown", "bond0/eth1")],
        ),
        (
            kernel(SILENT, (True, 1), (True, 2)),
            ("Degraded", 2, 1),
            [("LACPNotNegotiated", "bond0")],
        ),
        (kernel(None, (True, None), (True, None)), ("Active", 2, 2), []),
        (
            kernel(None, (False, None), (False, None)),
            ("Down", 2, 0),
            [("MemberDown", "bond0/eth0"), ("MemberDown", "bond0/eth1"), ("BondDown", "bond0")],
        ),
    ],
)
def test_bond_of_the_kernel_is_judged_like_one_of_the_switch(
    facts: SwitchFacts, expected: tuple[str, int, int], findings: list[tuple[str, str]]
) -> None:
    assessed = assess_bonds(facts)
    assert summary(assessed) == expected
    assert found(assessed) == findings
