"""A packet that leaves by a tunnel is given to the next host as it gets it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.ovs_agent.diagnostics.networks import explained, mac, recorded, rows

from hypercobalt.adapters.ovn.logical import Explained
from hypercobalt.adapters.ovs.packet import parse_packet
from hypercobalt.adapters.ovs.rows import Database
from hypercobalt.adapters.ovs.traced import Action, Trace, TracedStep
from hypercobalt.ovs_agent.diagnostics.onward import onward
from hypercobalt.ovs_agent.diagnostics.report import Onward

HTTP = {
    "proto": "tcp",
    "eth_src": mac(1),
    "eth_dst": "00:00:00:00:ff:01",
    "ip_src": "10.0.0.1",
    "ip_dst": "10.0.0.4",
    "dst_port": "80",
}


def of(trace: Trace, found: Database | None = None, names: Explained | None = None) -> object:
    return onward(trace, found or rows(), names or Explained(), HTTP, "kvm-1")


def test_the_next_host_gets_the_packet_as_it_leaves_with_what_ovn_sends_along() -> None:
    next_ = of(recorded("tunnel"))
    assert isinstance(next_, Onward)
    assert (next_.chassis, next_.host) == ("kvm-2", "kvm-2")
    assert next_.parameters == {
        "from": "kvm-1",
        **HTTP,
        "eth_dst": mac(4),  # the router has made it the target's
        "ttl": "64",
        "tun_id": "0x2",
        "tun_metadata0": "0x20004",  # as in the datapath's actions of the recorded trace
    }
    assert "0x20004" in recorded("tunnel").passes[-1].datapath_actions
    parse_packet({k: v for k, v in next_.parameters.items() if k != "from"})


def test_the_host_has_the_name_that_the_southbound_database_has() -> None:
    next_ = of(recorded("tunnel"), names=explained())
    assert isinstance(next_, Onward)
    assert next_.host == "kvm-2.example.org"


@pytest.mark.parametrize("name", ["delivered", "routed", "no-route", "localnet", "acl", "dhcp"])
def test_a_packet_that_leaves_by_no_tunnel_has_no_next_host(name: str) -> None:
    assert of(recorded(name)) is None


def test_a_packet_for_several_hosts_is_followed_to_none() -> None:
    found = rows()
    port, row = found.ports["p-ovn-kvm-2-0"], found.interfaces["i-ovn-kvm-2-0"]
    ids = {"ovn-chassis-id": "kvm-3@192.0.2.3"}
    second = replace(port, uuid="p3", name="ovn-kvm-3-0", interfaces=("i3",), external_ids=ids)
    bridge = found.bridges["b-br-int"]
    more = replace(
        found,
        bridges={**found.bridges, bridge.uuid: replace(bridge, ports=(*bridge.ports, "p3"))},
        ports={**found.ports, "p3": second},
        interfaces={**found.interfaces, "i3": replace(row, uuid="i3", name="ovn-kvm-3-0")},
    )
    trace = recorded("tunnel")
    flooded = TracedStep("br-int", 39, actions=(Action('output:"ovn-kvm-3-0"'),))
    last = trace.passes[-1]
    both = replace(trace, passes=(replace(last, steps=(*last.steps, flooded)),))
    assert of(both, more) is None
    assert isinstance(of(trace, more), Onward)


@pytest.mark.parametrize(
    "final", ["unchanged", "tcp,reg14=0x2,metadata=0x2", "tcp,reg14=x,reg15=0x4,metadata=0x2"]
)
def test_packet_without_the_metadata_of_ovn_is_not_followed(final: str) -> None:
    trace = recorded("tunnel")
    bare = replace(trace.passes[-1], final_flow=final)
    assert of(replace(trace, passes=(bare,))) is None


def test_a_tunnel_that_is_not_geneve_is_not_followed() -> None:
    found = rows()
    row = replace(found.interfaces["i-ovn-kvm-2-0"], type="vxlan")
    assert (
        of(recorded("tunnel"), replace(found, interfaces={**found.interfaces, row.uuid: row}))
        is None
    )
