"""Findings between the switches of a fleet."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.operator.samples import condition

from hypercobalt.api.conditions import Condition
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.ovsnode import (
    MOST_BROKEN_TUNNELS,
    BridgeMapping,
    NodeReference,
    OVNController,
    OVSNode,
    OVSNodeSpec,
    OVSNodeStatus,
    Tunnels,
)
from hypercobalt.operator.network.fleet_check import check

READY = condition("Ready", "True", "AllChecksPassed")
SILENT = condition("Ready", "Unknown", "AgentSilent", "no renewal for 40 s")
PHYSNET = (BridgeMapping(network="physnet1", bridge="br-ex"),)


def switch(
    name: str, ready: Condition = READY, version: str = "3.1.0", **controller: object
) -> OVSNode:
    """A switch consistent with others, but for what is given; `name` ends with its number."""
    number = name[-1]
    usual: dict[str, object] = {
        "connected": True,
        "chassisId": f"chassis-{name}",
        "encapIP": f"192.0.2.{number}",
        "encapType": "geneve",
        "sbConnection": "tcp:10.0.0.1:6642,tcp:10.0.0.2:6642",
        "bridgeMappings": PHYSNET,
        "tunnels": Tunnels(count=2),
    }
    return OVSNode(
        metadata=ObjectMeta(name=name, namespace="ovn-system"),
        spec=OVSNodeSpec(nodeRef=NodeReference(name=name)),
        status=OVSNodeStatus(
            ovsVersion=version,
            conditions=(ready,),
            ovnController=OVNController(**{**usual, **controller}),  # type: ignore[arg-type]
        ),
    )


A, B, C = switch("kvm-1"), switch("kvm-2"), switch("kvm-3")


def broken(*addresses: str) -> Tunnels:
    return Tunnels(count=2, broken=addresses)


def test_consistent_switches_give_no_finding() -> None:
    assert check([A, B, C]) == ()


def test_switch_of_which_nothing_was_reported_is_named_and_not_compared() -> None:
    new = replace(switch("kvm-3", encapIP="192.0.2.1"), status=OVSNodeStatus())
    (found,) = check([A, B, new])
    assert (found.code, found.hosts) == ("NotReported", ("kvm-3",))
    assert found.message == "kvm-3 is not checked: its OVS agent has not reported yet"


def test_end_that_has_no_room_to_name_its_tunnels_makes_none_one_sided() -> None:
    many = tuple(f"198.51.100.{number}" for number in range(MOST_BROKEN_TUNNELS))
    found = check(
        [switch("kvm-1", tunnels=broken("192.0.2.2")), switch("kvm-2", tunnels=broken(*many))]
    )
    assert "TunnelOneSided" not in {one.code for one in found}
    (both,) = (one for one in found if one.hosts == ("kvm-1", "kvm-2"))
    assert (both.code, "more than its OVSNode names" in both.message) == ("TunnelDown", True)


def test_addresses_that_are_none_are_one_finding_of_their_host() -> None:
    many = ",".join(f"a{number}" for number in range(300))
    (found,) = check([A, B, switch("kvm-3", encapIP=many)])
    assert (found.code, found.hosts) == ("EncapAddressInvalid", ("kvm-3",))
    assert "'a0'" in found.message
    assert "and 299 more" in found.message


def test_order_of_a_database_s_addresses_is_no_difference() -> None:
    other = switch("kvm-3", sbConnection="tcp:10.0.0.2:6642, tcp:10.0.0.1:6642")
    assert check([A, B, other]) == ()


@pytest.mark.parametrize(
    ("third", "code", "hosts", "part"),
    [
        pytest.param(
            switch("kvm-3", encapIP="192.0.2.1"),
            "EncapAddressTaken",
            ("kvm-1", "kvm-3"),
            "have the encap address 192.0.2.1",
            id="an address of another host",
        ),
        pytest.param(
            switch("kvm-3", chassisId="chassis-kvm-2"),
            "ChassisTaken",
            ("kvm-2", "kvm-3"),
            "have the chassis chassis-kvm-2",
            id="a chassis of another host",
        ),
        pytest.param(
            switch("kvm-3", encapIP=None),
            "EncapAddressMissing",
            ("kvm-3",),
            "without an encap address",
            id="no address",
        ),
        pytest.param(
            switch("kvm-3", encapIP="192.0.2"),
            "EncapAddressInvalid",
            ("kvm-3",),
            "'192.0.2' as encap address, which is not an IP address",
            id="an address that is none",
        ),
        pytest.param(
            switch("kvm-3", encapIP="2001:db8::3"),
            "EncapFamilyDiffers",
            ("kvm-3", "kvm-1"),
            "of kvm-3 is IPv6, of kvm-1, kvm-2 IPv4",
            id="an address of another family",
        ),
        pytest.param(
            switch("kvm-3", encapType="vxlan"),
            "EncapTypeDiffers",
            ("kvm-3", "kvm-1"),
            "of kvm-3 is vxlan, of kvm-1, kvm-2 geneve",
            id="another encapsulation",
        ),
        pytest.param(
            switch("kvm-3", tunnels=broken("192.0.2.1")),
            "TunnelOneSided",
            ("kvm-3", "kvm-1"),
            "kvm-3 reports the tunnel to kvm-1 (192.0.2.1) down, kvm-1 does not",
            id="a tunnel that is down on one side",
        ),
        pytest.param(
            switch("kvm-3", tunnels=broken("198.51.100.9")),
            "TunnelDown",
            ("kvm-3",),
            "no OVSNode has that address",
            id="a tunnel to an unknown host",
        ),
        pytest.param(
            switch("kvm-3", tunnels=Tunnels(count=1)),
            "TunnelsMissing",
            ("kvm-3", "kvm-2"),
            "kvm-3 has fewer tunnels (1) than kvm-2 (2)",
            id="a tunnel that is not there",
        ),
        pytest.param(
            switch("kvm-3", version="3.3.0"),
            "VersionSkew",
            ("kvm-3", "kvm-1"),
            "Open vSwitch of kvm-3 is 3.3.0, of kvm-1, kvm-2 3.1.0",
            id="another version",
        ),
        pytest.param(
            switch("kvm-3", bridgeMappings=()),
            "MappingMissing",
            ("kvm-3", "kvm-1"),
            "no bridge is mapped to physnet1 on kvm-3, one is on kvm-1, kvm-2",
            id="no mapping",
        ),
        pytest.param(
            switch("kvm-3", bridgeMappings=(BridgeMapping(network="physnet1", bridge="br-p"),)),
            "MappingDiffers",
            ("kvm-3", "kvm-1"),
            "the bridge for physnet1 of kvm-3 is br-p, of kvm-1, kvm-2 br-ex",
            id="another bridge",
        ),
        pytest.param(
            switch("kvm-3", SILENT, version="2.17.0", encapIP="192.0.2.1"),
            "AgentSilent",
            ("kvm-3",),
            "is not checked: no renewal for 40 s",
            id="a report that proves nothing",
        ),
    ],
)
def test_inconsistency_is_found_once_and_names_both_ends(
    third: OVSNode, code: str, hosts: tuple[str, ...], part: str
) -> None:
    (found,) = check([A, B, third])
    assert (found.code, found.hosts) == (code, hosts)
    assert part in found.message


def test_other_southbound_database_is_found_though_tunnels_differ_with_it() -> None:
    alone = switch("kvm-3", sbConnection="tcp:10.9.9.9:6642", tunnels=Tunnels(count=0))
    (found,) = check([A, B, alone])
    assert found.code == "SouthboundDiffers"


def test_tunnel_that_is_down_on_both_sides_is_one_finding() -> None:
    ends = (
        switch("kvm-1", tunnels=broken("192.0.2.2")),
        switch("kvm-2", tunnels=broken("192.0.2.1")),
    )
    (found,) = check([*ends, C])
    assert (found.code, found.hosts) == ("TunnelDown", ("kvm-1", "kvm-2"))


def test_physical_network_that_few_hosts_have_is_a_choice_of_the_site() -> None:
    gateway = (*PHYSNET, BridgeMapping(network="dmz", bridge="br-dmz"))
    assert check([A, B, switch("kvm-3", bridgeMappings=gateway)]) == ()


def test_host_without_ovn_is_compared_by_its_version_alone() -> None:
    plain = replace(C, status=replace(C.status, ovnController=None))
    assert check([A, B, plain]) == ()


@pytest.mark.parametrize(
    "away",
    [
        condition("OVSDBConnected", "False", "EchoTimeout", "no answer"),
        condition("VswitchdResponding", "Unknown", "Starting"),
    ],
)
def test_switch_that_its_agent_cannot_read_is_a_finding(away: Condition) -> None:
    stale = condition("Ready", "False", away.type)
    status = OVSNodeStatus(conditions=(stale, away))
    (found,) = check([A, B, replace(C, status=status)])
    assert (found.code, found.hosts) == ("SwitchNotRead", ("kvm-3",))
    assert f"{away.type} {away.status}/{away.reason}" in found.message


def test_finding_about_many_hosts_names_some() -> None:
    many = [switch(f"old-{n}", version="2.17.0", encapIP=f"198.51.100.{n}") for n in range(8)]
    most = [switch(f"new-{n}", encapIP=f"203.0.113.{n}") for n in range(9)]
    (found,) = check([*many, *most])
    assert "old-4 and 3 more is 2.17.0" in found.message
    assert len(found.hosts) == 9


def test_hosts_that_are_cut_from_the_southbound_database_are_one_finding() -> None:
    def cut(one: OVSNode, why: str = "SBDisconnected") -> OVSNode:
        lost = condition("OVNControllerConnected", "False", why)
        return replace(one, status=replace(one.status, conditions=(READY, lost)))

    (all_,) = check([cut(A), cut(B), cut(C)])
    assert (all_.code, all_.hosts) == ("OVNDisconnected", ("kvm-1", "kvm-2", "kvm-3"))
    assert "OVNControllerConnected is False/SBDisconnected" in all_.message
    two = check([cut(A), cut(B, "Paused"), C])
    assert [one.hosts for one in two] == [("kvm-2",), ("kvm-1",)]
