"""One trace from the request to the report, on a switch in memory."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import msgspec
import pytest
from tests.unit.ovs_agent.diagnostics.networks import (
    HTTP,
    TELNET,
    facts,
    lport,
    mac,
    recorded,
    switch,
    vm,
)
from tests.unit.ovs_agent.switches import but, database, healthy, tap, without

from hypercobalt.adapters.ovn.logical import LogicalPort
from hypercobalt.adapters.ovs.fake import FakeSwitch
from hypercobalt.adapters.ovs.model import ControllerStart, DaemonName, TlsFiles
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from hypercobalt.agent.diagnostics.use import RefusedUseError
from hypercobalt.ovs_agent.diagnostics import tracing
from hypercobalt.ovs_agent.diagnostics.report import TraceOutcome, TraceReport
from hypercobalt.ovs_agent.diagnostics.tracing import trace
from hypercobalt.ovs_agent.facts import Reading

PARAMETERS = {"from": "tap1", "to": "tap2", "proto": "tcp", "dst_port": "23"}


async def test_a_report_has_the_verdict_and_each_table_with_its_logical_flow() -> None:
    fake = switch()
    fake.traces[TELNET] = recorded("acl")
    report = await trace(fake, facts(), PARAMETERS)
    assert (report.outcome, report.bridge, report.port) == (TraceOutcome.DROPPED, "br-int", "tap1")
    assert "ls_out_acl of switch net" in report.verdict
    assert (report.packet, report.unnamed) == (TELNET, "")
    assert [len(one.steps) for one in report.passes] == [9, 26, 2]
    last = report.passes[-1].steps[-1]
    assert last.logical is not None
    assert (last.cookie, last.network, last.logical.stage) == (
        *("0xcca3fb61", "switch net", "ls_out_acl"),
    )
    encoded = msgspec.json.encode(report)
    assert msgspec.json.decode(encoded, type=TraceReport) == report
    assert b'"finalFlow"' in encoded


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"from": "nope"}, "is not a port of this host"),
        ({"from": "tap1", "to": "nope"}, "to 'nope' is not a port.*nor a logical port of OVN"),
        ({"from": "tap1", "to": "br-ex"}, "has no iface-id"),
        ({"from": "tap1", "ip_dst": "here"}, "ip_dst 'here': must be: IPv4 or IPv6 address"),
        ({"from": "tap1", "to": "tap2", "dst_port": "80"}, "need a proto"),
        ({"from": "tap1", "to": "tap2", "ct_next": "zz"}, "ct_next 'zz'"),
        ({"from": "tap1"}, "the destination is missing"),
        ({"from": "tap1", "eth_dst": mac(2), "tun_id": "2"}, "port tap1 is none"),
    ],
)
async def test_packet_that_cannot_be_traced_is_refused_with_the_remedy(
    parameters: dict[str, str], message: str
) -> None:
    fake = switch()
    with pytest.raises(RefusedUseError, match=message):
        await trace(fake, facts(), parameters)
    assert not fake.calls["trace"]


async def test_a_target_may_be_on_another_host_and_another_network() -> None:
    fake = switch()
    report = await trace(fake, facts(), {"from": vm(1), "to": lport(4)})
    assert f"dl_dst={mac(4)}" in report.packet
    report = await trace(fake, facts(), {"from": vm(1), "to": vm(3)})
    assert "dl_dst=00:00:00:00:ff:01" in report.packet
    assert "nw_dst=10.0.0.3" in report.packet


async def test_a_packet_goes_on_at_the_next_host_where_this_one_has_ended() -> None:
    """The other host is this one again: its tunnel leads to the chassis that the packet is from."""
    fake = switch()
    here = but(facts(), start=Reading(ControllerStart("kvm-2")))
    fake.traces[HTTP] = recorded("tunnel")
    report = await trace(
        fake, here, {"from": "tap1", "to": lport(4), "proto": "tcp", "dst_port": "80"}
    )
    assert (report.outcome, report.packet) == (TraceOutcome.SENT, HTTP)
    assert report.onward is not None
    assert (report.onward.chassis, report.onward.host) == ("kvm-2", "kvm-2.example.org")
    encoded = msgspec.json.encode(report)
    assert msgspec.json.decode(encoded, type=TraceReport) == report

    there = await trace(fake, here, report.onward.parameters)
    assert there.port == "ovn-kvm-2-0"
    assert there.packet == HTTP.replace("in_port=2,", "in_port=1,tun_id=0x2,tun_metadata0=0x20004,")
    assert there.onward is None


async def test_without_the_southbound_database_flows_have_no_names() -> None:
    fake = switch()
    fake.southbound_state = None
    parameters = {"from": "tap1", "eth_dst": mac(2), "proto": "eth"}
    report = await trace(fake, facts(), parameters)
    assert report.unnamed.startswith("the southbound database cannot be read: tcp:10.0.0.10")
    assert report.verdict == (
        "dropped in table 0 of br-int by priority 100, cookie 0x72fd84cb: in_port=2"
    )
    assert fake.calls["logical_port"] == 1
    assert not fake.calls["explain"]  # the first call failed, and no other follows
    with pytest.raises(RefusedUseError, match=r"cannot be looked up.*connection refused"):
        await trace(fake, facts(), PARAMETERS)


async def test_without_ovn_only_the_switch_is_read() -> None:
    fake = switch()
    plain = healthy(database({"br-int": [tap()]}, external_ids={}))
    report = await trace(fake, plain, {"from": "tap1", "eth_dst": mac(2)})
    assert report.unnamed == "OVN is not configured on this host"
    assert not fake.calls["logical_port"]


async def test_a_southbound_database_that_hangs_holds_up_no_trace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Hanging(FakeSwitch):
        async def logical_port(
            self, remote: str, name: str, tls: TlsFiles | None = None
        ) -> LogicalPort | None:
            await asyncio.Event().wait()
            return await super().logical_port(remote, name, tls)

    monkeypatch.setattr(tracing, "NAMING", 0.01)
    fake = Hanging()
    fake.flow_table["br-int"] = ()
    report = await trace(fake, facts(), {"from": "tap1", "eth_dst": mac(2)})
    assert report.unnamed == "the southbound database does not answer in time"


@pytest.mark.parametrize("away", ["database", "vswitchd"])
async def test_packet_is_not_traced_by_unproven_facts(away: str) -> None:
    with pytest.raises(SwitchError):
        await trace(switch(), without(facts(), away), PARAMETERS)


async def test_a_switch_that_dies_meanwhile_is_reported() -> None:
    fake = switch()
    fake.fail(DaemonName.VSWITCHD, ProducerFault.TIMEOUT)
    with pytest.raises(SwitchError) as failed:
        await trace(fake, facts(), PARAMETERS)
    assert failed.value.fault is ProducerFault.TIMEOUT


async def test_long_explanation_of_ovn_makes_no_answer_too_large() -> None:
    fake = switch()
    fake.traces[TELNET] = recorded("acl")
    (cookie,) = fake.explained.flows
    flow = replace(fake.explained.flows[cookie], match="ip4.src == 10.0.0.1 || " * 100_000)
    fake.explained = replace(fake.explained, flows={cookie: flow})
    report = await trace(fake, facts(), PARAMETERS)
    assert report.verdict.endswith("…")
    assert len(msgspec.json.encode(report)) < 30_000
