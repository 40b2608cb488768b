"""The port that a person means is found, or named with those that there are."""

from __future__ import annotations

import pytest
from tests.unit.ovs_agent.diagnostics.networks import lport, rows, vm
from tests.unit.ovs_agent.switches import bond, database, interface, tap

from hypercobalt.agent.diagnostics.use import RefusedUseError
from hypercobalt.ovs_agent.diagnostics.lookup import find_port, ofport_of


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("tap2", "tap2"),
        ("3", "tap2"),
        (lport(2), "tap2"),
        (vm(2).upper(), "tap2"),
        ("ovn-kvm-2-0", "ovn-kvm-2-0"),
        ("br-ex", "br-ex"),
        ("kvm-2", "ovn-kvm-2-0"),
    ],
)
def test_a_port_is_found_by_name_number_iface_id_instance_and_chassis(word: str, name: str) -> None:
    assert find_port(rows(), word).row.name == name


@pytest.mark.parametrize(
    ("word", "bridge", "message"),
    [
        ("nope", "", "'nope' is not a port of this host.*br-ex, eth0, br-int, ovn-kvm-2-0, tap1"),
        ("", "", "'' is not a port"),
        ("eth0", "br-int", "is not a port of bridge br-int"),
        ("1", "", "several ports.*eth0, ovn-kvm-2-0"),
        ("tap1\n2026 ERROR", "", r"'tap1\?2026 ERROR' is not a port"),
        ("x" * 5000, "", "x…' is not a port"),
    ],
)
def test_unknown_port_is_refused_with_the_existing_ones(
    word: str, bridge: str, message: str
) -> None:
    with pytest.raises(RefusedUseError, match=message) as refused:
        find_port(rows(), word, bridge)
    assert len(str(refused.value)) < 400


def test_an_instance_is_known_by_what_libvirt_writes_too() -> None:
    row = tap("tap7", 7, external_ids={"iface-id": lport(7), "vm-id": vm(7)})
    assert find_port(database({"br-int": [row]}), vm(7)).row is row


def test_a_number_is_of_the_bridge_that_is_given() -> None:
    assert find_port(rows(), "1", "br-ex").row.name == "eth0"


def test_an_instance_with_two_ports_needs_one_of_them() -> None:
    found = database({"br-int": [tap("tap1", 1), tap("tap2", 2)]})
    with pytest.raises(RefusedUseError, match=r"several ports.*: tap1, tap2"):
        find_port(found, dict(tap().external_ids)["vm-uuid"])


def test_a_bond_is_its_members() -> None:
    found = database({"br-ex": [bond("bond0", interface("eth0", 1), interface("eth1", 2))]})
    assert find_port(found, "eth1").is_bonded
    with pytest.raises(RefusedUseError, match="eth0, eth1"):
        find_port(found, "bond0")


@pytest.mark.parametrize("ofport", [None, -1])
def test_a_port_that_was_not_made_carries_no_packet(ofport: int | None) -> None:
    found = database({"br-int": [tap("tap1", ofport, error="No such device")]})
    with pytest.raises(RefusedUseError, match="could not make this port: No such device"):
        ofport_of(find_port(found, "tap1"))
