"""A trace changes nothing on a real switch, is bounded, and gives up on one that hangs."""

from __future__ import annotations

import pytest

from hypercobalt.adapters.ovs import host
from hypercobalt.adapters.ovs.host import HostSwitch
from hypercobalt.adapters.ovs.packet import parse_packet
from hypercobalt.adapters.ovs.port import TRACE_DEADLINE, ProducerFault, SwitchError
from tests.integration.ovs.daemons import VSWITCHD, Daemons

PACKET = parse_packet(
    {
        "eth_src": "fa:16:3e:00:00:01",
        "eth_dst": "fa:16:3e:00:00:02",
        "proto": "udp",
        "ip_src": "10.0.0.1",
        "ip_dst": "10.0.0.2",
        "src_port": "9",
        "dst_port": "10",
    }
)
LEARN = "learn(table=9,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[]),NORMAL"


@pytest.fixture
def switch(daemons: Daemons) -> HostSwitch:
    """Give a switch with a port whose packets both the bridge and a flow learn."""
    daemons.add_link("p0", "p0-peer")
    daemons.vsctl(
        *("add-br", "br-t", "--", "set", "bridge", "br-t", "datapath_type=netdev"),
        *("--", "add-port", "br-t", "p0", "--", "set", "interface", "p0", "ofport_request=5"),
    )
    daemons.ofctl("add-flow", "br-t", f"priority=9,udp,actions={LEARN}")
    return HostSwitch(daemons.paths)


def learned(daemons: Daemons) -> tuple[str, str]:
    """Addresses that the bridge has learned from the port, and flows that a flow has made."""
    addresses = daemons.appctl(VSWITCHD, "fdb/show", "br-t").splitlines()
    flows = daemons.ofctl("dump-flows", "--no-stats", "br-t", "table=9")
    return "\n".join(one for one in addresses if "fa:16" in one), flows


async def test_a_trace_learns_nothing_that_its_packet_would_teach(
    switch: HostSwitch, daemons: Daemons
) -> None:
    nothing = learned(daemons)
    flows = daemons.ofctl("dump-flows", "br-t")
    found = await switch.trace("br-t", 5, PACKET)
    actions = [action.text for step in found.passes[0].steps for action in step.actions]
    assert any(one.startswith("learn(") for one in actions)
    assert "NORMAL" in actions
    assert learned(daemons) == nothing
    assert "n_packets=0" in daemons.ofctl("dump-flows", "br-t", "udp")
    assert len(daemons.ofctl("dump-flows", "br-t").splitlines()) == len(flows.splitlines())
    # What it would have done: with a packet, ovs-vswitchd executes what it traces.
    daemons.appctl(VSWITCHD, "ofproto/trace", "br-t", PACKET.text(5), "--generate")
    addresses, learned_flows = learned(daemons)
    assert "fa:16:3e:00:00:01" in addresses
    assert "dl_dst=fa:16:3e:00:00:01" in learned_flows


async def test_a_trace_longer_than_the_limit_is_refused(
    switch: HostSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "TRACE_LIMIT", 400)
    with pytest.raises(SwitchError, match="more than 400 bytes") as failed:
        await switch.trace("br-t", 5, PACKET)
    assert failed.value.fault is ProducerFault.MALFORMED


async def test_a_trace_on_a_switch_that_hangs_ends(
    switch: HostSwitch, daemons: Daemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "TRACE_DEADLINE", TRACE_DEADLINE / 50)
    with daemons.stopped(VSWITCHD), pytest.raises(SwitchError) as failed:
        await switch.trace("br-t", 5, PACKET)
    assert failed.value.fault is ProducerFault.TIMEOUT
