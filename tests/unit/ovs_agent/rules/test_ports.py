"""The codes of a port, each with its witnesses and its traps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.ovs_agent.switches import (
    IFACE,
    NOW,
    OVN,
    VM,
    bond,
    but,
    database,
    found,
    gone,
    healthy,
    interface,
    later,
    tap,
    without,
)

from hypercobalt.adapters.ovs.links import Link
from hypercobalt.adapters.ovs.model import LocalBinding
from hypercobalt.adapters.ovs.rows import InterfaceRow
from hypercobalt.ovs_agent.assess import judge
from hypercobalt.ovs_agent.facts import Reading, Sample, SwitchFacts, with_hosted
from hypercobalt.ovs_agent.rules.findings import LONGEST_MESSAGE, LONGEST_OBJECT
from hypercobalt.ovs_agent.rules.ports import (
    ARRIVAL,
    CODES,
    GRACE,
    assess_ports,
)
from hypercobalt.ovs_agent.rules.silence import silently_dead

IDS = dict(tap().external_ids)
NOT_INSTALLED = {key: value for key, value in IDS.items() if key != "ovn-installed"}
BY_LIBVIRT = {"vm-id" if key == "vm-uuid" else key: value for key, value in IDS.items()}
NO_DEVICE = "could not open network device tap1 (No such device)"


def port(row: InterfaceRow, **readings: object) -> SwitchFacts:
    return healthy(database({"br-int": [row]}), **readings)


def codes(facts: SwitchFacts) -> list[tuple[str, str]]:
    return found(assess_ports(facts))


NO_LINKS = Reading({"eth0": Link("eth0", 2, admin_up=True)})
BOUND, UNBOUND = (Reading((LocalBinding(IFACE, "tap1", number),)) for number in (1, 0))

CASES = {
    "works": (port(tap()), []),
    "kernel datapath, device gone": (
        port(tap(ofport=-1, error=NO_DEVICE), links=NO_LINKS, instances={VM: False}),
        [("OrphanPortNoDevice", "tap1")],
    ),
    # No error, the same ofport, the flows stay: only the ephemeral columns show it.
    "userspace datapath, device gone": (
        port(gone(tap()), links=NO_LINKS, instances={VM: False}),
        [("OrphanPortNoDevice", "tap1")],
    ),
    "device gone, whether the instance runs is not known": (
        port(gone(tap()), links=NO_LINKS, instances=None),
        [("OrphanPortNoDevice", "tap1")],
    ),
    "device of a running instance gone": (
        port(gone(tap()), links=NO_LINKS),
        [("InstanceDeviceLost", "tap1")],
    ),
    "a running instance has its port": (port(tap(), wanted={VM: (IFACE.upper(),)}), []),
    "a running instance has its device": (port(tap(), wanted={VM: ("tap1",)}), []),
    "port of a running instance deleted": (
        healthy(database({"br-int": []}), wanted={VM: (IFACE,)}),
        [("InstancePortMissing", IFACE)],
    ),
    "one of two ports deleted": (
        port(tap(), wanted={VM: (IFACE, "c0ffee00-0000-4000-8000-00000000000b")}),
        [("InstancePortMissing", "c0ffee00-0000-4000-8000-00000000000b")],
    ),
    "integration bridge deleted": (
        healthy(database({}), wanted={VM: (IFACE,)}),
        [("InstancePortMissing", IFACE)],
    ),
    "the database was lost, OVN's settings with it": (
        healthy(database({}, {}), wanted={VM: (IFACE,)}),
        [("InstancePortMissing", IFACE)],
    ),
    "device that Nova's os-vif plugs deleted": (
        healthy(database({"br-int": []}), wanted={VM: ("tap1",)}),
        [("InstancePortMissing", "tap1")],
    ),
    "device of a host without OVN may be plugged elsewhere": (
        healthy(database({"br-int": []}, {}), wanted={VM: ("tap1",)}, start=Reading()),
        [],
    ),
    "an instance without ports": (healthy(database({"br-int": []}), wanted={VM: ()}), []),
    "nothing is known of the instances": (healthy(database({"br-int": []}), wanted=None), []),
    "switched off, but there": (port(but(tap(), admin_up=False, link_up=False)), []),
    "the switch has lost it, the kernel has it": (port(gone(tap())), []),
    "an uplink of the userspace datapath, device gone": (
        port(gone(interface("eth9")), links=NO_LINKS),
        [("OrphanPortNoDevice", "eth9")],
    ),
    "vhost-user has no device in the kernel": (
        port(gone(tap("vhu1", type="dpdkvhostuserclient")), links=NO_LINKS),
        [],
    ),
    "no logical port of this name": (
        port(tap(external_ids=NOT_INSTALLED), bindings=UNBOUND),
        [("OrphanPortNoBinding", "tap1")],
    ),
    # The timestamp stays when the key goes.
    "no logical port, timestamp left": (
        port(tap(external_ids={**NOT_INSTALLED, "ovn-installed-ts": "1"}), bindings=UNBOUND),
        [("OrphanPortNoBinding", "tap1")],
    ),
    "bound elsewhere": (
        port(tap(external_ids=NOT_INSTALLED), bindings=BOUND),
        [("PortNotInstalled", "tap1")],
    ),
    "a localport, as Neutron's metadata agent has": (
        port(
            tap(external_ids={"iface-id": IFACE}),
            bindings=Reading((LocalBinding(IFACE, "tap1", 1, is_localport=True),)),
        ),
        [],
    ),
    "being moved to this host": (
        port(tap(external_ids=NOT_INSTALLED), bindings=BOUND, instances={VM: False}),
        [],
    ),
    "the instance is gone": (port(tap(), instances={}), [("OrphanPortNoDomain", "tap1")]),
    "the instance's UUID in capitals": (
        port(tap(external_ids={**IDS, "vm-uuid": VM.upper()})),
        [],
    ),
    "the instance is gone, libvirt plugged the port": (
        port(tap(external_ids=BY_LIBVIRT), instances={}),
        [("OrphanPortNoDomain", "tap1")],
    ),
    "the instance runs, libvirt plugged the port": (port(tap(external_ids=BY_LIBVIRT)), []),
    "libvirt plugged the port of an instance that is being moved to this host": (
        port(
            tap(external_ids=BY_LIBVIRT | {"ovn-installed": "false"}),
            bindings=BOUND,
            instances={VM: False},
        ),
        [],
    ),
    "Nova's UUID goes before another tool's": (
        port(tap(external_ids={**IDS, "vm-id": "0f2c1a5e-0000-4000-8000-00000000dead"})),
        [],
    ),
    "a name that another tool wrote is no instance": (
        port(tap(external_ids={**BY_LIBVIRT, "vm-id": "web-1"}), instances={}),
        [],
    ),
    "a container's port has no instance": (
        port(tap(external_ids={"iface-id": IFACE, "ovn-installed": "true"}), instances={}),
        [],
    ),
    "another error": (
        port(tap(ofport=-1, error="could not add port (Device or resource busy)")),
        [("PortError", "tap1")],
    ),
    "no port number, no cause": (port(tap(ofport=-1)), [("PortError", "tap1")]),
    "not processed": (port(tap(ofport=None)), [("PortPending", "tap1")]),
    "a bond's member is judged with its bond": (
        healthy(
            database({"br-int": [bond("b", interface("eth0"), interface("eth1", -1))]}),
        ),
        [],
    ),
    "two ports with one iface-id": (
        healthy(
            database({"br-int": [tap(), tap("tap2", 2)]}),
            links=Reading({n: Link(n, 7, admin_up=True, is_tap=True) for n in ("tap1", "tap2")}),
        ),
        [("DuplicateIfaceID", IFACE)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_port_has_the_code_that_explains_it(case: str) -> None:
    facts, expected = CASES[case]
    assert codes(facts) == expected


def test_every_port_finding_has_to_last_a_minute() -> None:
    graces = {one.grace for facts, _ in CASES.values() for one in assess_ports(facts).findings}
    assert graces == {GRACE}


def test_port_that_waits_for_its_instance_is_given_longer() -> None:
    """Plugged ahead by Nova; until its instance has been here, it may still come."""
    (early,) = assess_ports(port(tap(), instances={}, hosted=frozenset())).findings
    (left,) = assess_ports(port(tap(), instances={})).findings
    assert (early.code, early.grace) == (left.code, ARRIVAL)
    assert left.grace == GRACE < ARRIVAL


def test_port_meets_its_instance_and_one_of_the_same_name_does_not() -> None:
    early = but(healthy(hosted=frozenset()), instances={})
    assert with_hosted(early).hosted == frozenset()
    met = with_hosted(but(early, instances={VM: False}))
    assert met.hosted == {tap().uuid}
    gone_again = with_hosted(but(met, instances={}))
    assert gone_again.hosted == {tap().uuid}
    again = database({"br-int": [tap(uuid="i-plugged-again")]})
    assert with_hosted(but(gone_again, database=Reading(again))).hosted == frozenset()


@pytest.mark.parametrize(
    ("lost", "code"),
    [
        ("links", "OrphanPortNoDevice"),
        ("ovn_controller", "OrphanPortNoBinding"),
        ("ovn_controller", "PortNotInstalled"),
        ("bindings", "PortNotInstalled"),
    ],
)
def test_code_without_its_witness_is_not_measured(lost: str, code: str) -> None:
    facts = port(tap(external_ids=NOT_INSTALLED), bindings=UNBOUND)
    assessed = assess_ports(without(facts, lost))
    assert code in {one.value for one in assessed.unmeasured}
    assert code not in {one.code.value for one in assessed.findings}


def test_instances_that_the_node_agent_does_not_report_orphan_no_port() -> None:
    assessed = assess_ports(port(tap(), instances=None))
    assert not assessed.findings
    assert "OrphanPortNoDomain" in {one.value for one in assessed.unmeasured}


@pytest.mark.parametrize("lost", ["database", "vswitchd"])
def test_no_port_is_judged_without_both_daemons(lost: str) -> None:
    assessed = assess_ports(without(port(tap(ofport=-1)), lost))
    assert (assessed.findings, assessed.unmeasured) == ((), CODES)


def test_ports_outside_the_integration_bridge_need_no_binding() -> None:
    rows = database({"br-int": [], "br-lab": [tap(external_ids=NOT_INSTALLED)]})
    assert codes(healthy(rows, bindings=Reading(()))) == []


def test_without_ovn_no_port_needs_a_binding() -> None:
    rows = database({"br-int": [tap(external_ids=NOT_INSTALLED)]}, {**OVN, "ovn-remote": ""})
    assert codes(healthy(rows, bindings=Reading(()))) == []


U = tap().uuid


def samples(*counts: tuple[int, int], ofports: tuple[int, ...] = (1, 1, 1)) -> tuple[Sample, ...]:
    """Packets that the device delivered, and that flows of its port have matched."""
    return tuple(
        Sample(100, {U: received}, {U: ofport}, {ofport: matched})
        for (received, matched), ofport in zip(counts, ofports, strict=True)
    )


SILENT = samples((0, 5), (20, 5), (40, 5))


@pytest.mark.parametrize(
    ("taken", "dead"),
    [
        (SILENT, True),
        (SILENT[:2], False),  # one interval is no proof
        (samples((0, 5), (20, 5), (40, 25)), False),  # the counters were late
        (samples((0, 5), (20, 25), (40, 25)), False),
        (samples((0, 5), (0, 5), (0, 5)), False),  # an idle instance
        (samples((0, 5), (9, 5), (18, 5)), False),  # too few to count
        (samples((0, 5), (20, 5), (40, 5), ofports=(1, 2, 2)), False),  # renumbered
        ((SILENT[0], replace(SILENT[1], pid=101), replace(SILENT[2], pid=101)), False),
        (tuple(replace(one, matched={}) for one in SILENT), False),  # no flow of this port
        # A foreign flow takes them before those of the port do.
        ((SILENT[0], replace(SILENT[1], others=20), replace(SILENT[2], others=40)), False),
    ],
)
def test_silently_dead_port_delivers_what_no_flow_has_seen(
    taken: tuple[Sample, ...], dead: bool
) -> None:
    assert (silently_dead(taken) == {U}) is dead


def test_silently_dead_port_is_found_though_its_row_is_perfect() -> None:
    assert codes(port(tap(), samples=SILENT)) == [("PortSilentlyDead", "tap1")]


def test_names_and_ids_of_any_kind_stay_small_and_on_their_line() -> None:
    ids = {**tap().external_ids, "iface-id": "x" * 40_000 + "\n", "vm-uuid": "a\nREADY=1"}
    rows = database({"br-int": [gone(tap(f"tap{n}", n, external_ids=ids)) for n in range(1, 400)]})
    facts = healthy(rows, links=NO_LINKS)
    first = judge(facts, {}, now=NOW, monotonic=0.0)
    last = judge(facts, first.ledger, now=later(90), monotonic=90.0)
    assert {one.code for one in last.status.issues} == {"DuplicateIfaceID", "OrphanPortNoDevice"}
    for issue in last.status.issues:
        assert len(issue.message) <= LONGEST_MESSAGE
        assert len(issue.object or "") <= LONGEST_OBJECT
        assert issue.message.isprintable()
    again = judge(facts, last.ledger, now=later(91), monotonic=91.0)
    assert again.status.issues == last.status.issues


@pytest.mark.parametrize("lost", [{"instances": None}, {"bindings": Reading()}])
def test_issue_of_a_removed_port_is_over_without_its_witness(lost: dict[str, object]) -> None:
    orphan = healthy(instances={})
    ledger = judge(orphan, {}, now=NOW, monotonic=0.0).ledger
    ledger = judge(orphan, ledger, now=later(90), monotonic=90.0).ledger
    unknown = but(healthy(instances=None), **lost)
    kept = judge(unknown, ledger, now=later(91), monotonic=91.0)
    assert [one.code for one in kept.status.issues] == ["OrphanPortNoDomain"]
    rows = database({"br-int": [], "br-ex": []})
    removed = but(unknown, database=Reading(rows))
    over = judge(removed, kept.ledger, now=later(92), monotonic=92.0)
    assert over.status.issues == ()
