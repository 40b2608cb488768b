"""Which interfaces are uplinks, and what the status shows of them."""

from __future__ import annotations

import pytest
from tests.unit.ovs_agent.switches import bond, but, database, healthy, interface, tap, without

from hypercobalt.adapters.ovs.links import KernelBond, KernelBondMember, Link
from hypercobalt.adapters.ovs.rows import InterfaceRow
from hypercobalt.api.ovsnode import PhysicalInterface
from hypercobalt.ovs_agent.facts import Reading
from hypercobalt.ovs_agent.rules.uplinks import is_uplink, physical_interfaces, render_speed


def link(name: str, **fields: object) -> Link:
    return but(Link(name, 2, admin_up=True, carrier=True), **fields)


@pytest.mark.parametrize(
    ("row", "links", "expected"),
    [
        # No parent in sysfs, as macvlan and veth: still an uplink.
        (interface("eth0"), {"eth0": link("eth0")}, True),
        (interface("veth-a", type="system"), {"veth-a": link("veth-a")}, True),
        (interface("dpdk0", type="dpdk"), {}, True),
        (tap(), {"tap1": link("tap1", is_tap=True)}, False),
        (tap("veth7"), {"veth7": link("veth7")}, False),  # a container's: it has an iface-id
        (interface("weird"), {"weird": link("weird", is_tap=True)}, False),
        (interface("br-ex", type="internal"), {}, False),
        (interface("patch-1", type="patch"), {}, False),
        (interface("genev_1", type="geneve"), {}, False),
        (interface("vhu1", type="dpdkvhostuserclient"), {}, False),
        # The device is gone: names and the driver have to do.
        (interface("tap9"), {}, False),
        (interface("x9", status={"driver_name": "tun"}), None, False),
        (interface("eth9"), {}, True),
    ],
)
def test_uplink_is_a_system_interface_no_tap_and_of_no_instance(
    row: InterfaceRow, links: dict[str, Link] | None, expected: bool
) -> None:
    assert is_uplink(row, links) is expected


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (25 * 10**9, "25Gbps"),
        (2_500_000_000, "2.5Gbps"),
        (10**8, "100Mbps"),
        (0, None),
        (None, None),
        (-1, None),
    ],
)
def test_speed_is_rendered_with_its_unit(bits: int | None, text: str | None) -> None:
    assert render_speed(bits) == text


def test_uplinks_show_status_speed_and_bond() -> None:
    rows = database(
        {
            "br-ex": [
                bond("bond0", interface("eth0", 1), interface("eth1", 2, link_up=False)),
                interface("eth2", 3, link_speed=10**9, admin_up=False),
            ]
        }
    )
    assert physical_interfaces(healthy(rows)) == (
        PhysicalInterface(name="eth0", status="Up", bond="bond0"),
        PhysicalInterface(name="eth1", status="Down", bond="bond0"),
        PhysicalInterface(name="eth2", status="Down", speed="1Gbps"),
    )


def test_member_that_the_switch_could_not_open_is_down_though_its_link_is_up() -> None:
    (shown,) = physical_interfaces(healthy(database({"br-ex": [interface("eth0", -1)]})))
    assert shown.status == "Down"


def test_dead_vswitchd_makes_uplinks_unknown_and_hides_their_speed() -> None:
    facts = healthy()
    facts = without(facts, "vswitchd")
    assert physical_interfaces(facts) == (PhysicalInterface(name="eth0", status="Unknown"),)


def test_dead_ovsdb_keeps_the_names_alone() -> None:
    facts = healthy()
    facts = without(facts, "database")
    assert physical_interfaces(facts) == (PhysicalInterface(name="eth0", status="Unknown"),)


def test_bond_of_the_kernel_counts_by_its_members() -> None:
    rows = database({"br-ex": [interface("bond0")]})
    members = (KernelBondMember("eth0", True), KernelBondMember("eth1", False))
    facts = healthy(
        rows,
        kernel_bonds=Reading((KernelBond("bond0", "active-backup", True, members),)),
        links=Reading(
            {
                "bond0": link("bond0"),
                "eth0": link("eth0", master="bond0", speed=25 * 10**9),
                "eth1": link("eth1", master="bond0", carrier=False),
            }
        ),
    )
    assert physical_interfaces(facts) == (
        PhysicalInterface(name="eth0", status="Up", speed="25Gbps", bond="bond0"),
        PhysicalInterface(name="eth1", status="Down", bond="bond0"),
    )
