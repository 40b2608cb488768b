"""Recorded traces end in one line that names where the packet goes, or which table drops it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.ovs_agent.diagnostics.networks import explained, recorded, rows, vm
from tests.unit.ovs_agent.switches import but

from hypercobalt.adapters.ovn.logical import Explained
from hypercobalt.adapters.ovs.traced import Action, Pass, Trace, TracedStep
from hypercobalt.ovs_agent.diagnostics.report import TraceOutcome
from hypercobalt.ovs_agent.diagnostics.verdict import verdict


@pytest.mark.parametrize(
    ("name", "outcome", "text"),
    [
        ("delivered", TraceOutcome.DELIVERED, f"delivered to tap2 (instance {vm(2)})"),
        ("routed", TraceOutcome.DELIVERED, f"delivered to tap3 (instance {vm(3)})"),
        ("arp", TraceOutcome.DELIVERED, f"delivered to tap1 (instance {vm(1)})"),
        ("tunnel", TraceOutcome.SENT, "sent to host kvm-2 (192.0.2.2) by tunnel ovn-kvm-2-0"),
        (
            "no-route",
            TraceOutcome.DROPPED,
            "dropped: output to host kvm-2 (192.0.2.2) by tunnel ovn-kvm-2-0 fails: "
            "native tunnel routing failed",
        ),
        (
            "localnet",
            TraceOutcome.DELIVERED,
            "delivered to this host itself, by br-ex, out of uplink eth0 of br-ex",
        ),
        (
            "flood-localnet",
            TraceOutcome.DELIVERED,
            f"delivered to tap2 (instance {vm(2)}), to this host itself, by br-ex, "
            "out of uplink eth0 of br-ex",
        ),
        ("normal-learned", TraceOutcome.SENT, "sent out of uplink eth0 of br-ex"),
        (
            "dhcp",
            TraceOutcome.CONTROLLER,
            "handed to ovn-controller in table 28 of br-int by priority 100, cookie 0x8e334238: "
            "udp,reg14=0x2,metadata=0x2,dl_src=fa:16:3e:00:00:01,nw_src=0.0.0.0,"
            "nw_dst=255.255.255.255,tp_src=68,tp_dst=67",
        ),
        (
            "acl",
            TraceOutcome.DROPPED,
            "dropped in table 46 of br-int by priority 2001, cookie 0xcca3fb61: "
            "tcp,reg0=0x200/0x200,reg15=0x3,metadata=0x2,tp_dst=23",
        ),
        (
            "unknown-port",
            TraceOutcome.DROPPED,
            "dropped in table 0 of br-int by priority 0: any packet",
        ),
    ],
)
def test_a_recorded_trace_ends_in_a_verdict(name: str, outcome: TraceOutcome, text: str) -> None:
    found = verdict(recorded(name), rows(), Explained())
    assert (found.outcome, found.text) == (outcome, text)


def test_a_drop_is_named_by_its_logical_flow_and_what_it_means() -> None:
    found = verdict(recorded("acl"), rows(), explained())
    assert found.text == (
        "dropped in table 46, ls_out_acl of switch net (an ACL or security group): tcp.dst == 23"
    )


def test_a_host_is_named_as_the_southbound_database_has_it() -> None:
    found = verdict(recorded("tunnel"), rows(), explained())
    assert found.text == "sent to host kvm-2.example.org (192.0.2.2) by tunnel ovn-kvm-2-0"


def test_a_port_whose_link_is_down_gets_nothing_although_the_switch_delivers() -> None:
    found = rows()
    changed = {uuid: but(row, link_up=False) for uuid, row in found.interfaces.items()}
    text = verdict(recorded("delivered"), replace(found, interfaces=changed), Explained()).text
    assert text.endswith(", whose link is down")


def test_a_table_without_a_flow_drops() -> None:
    trace = Trace((Pass("", "in_port=1", (TracedStep("br-int", 7, actions=(Action("drop"),)),)),))
    assert verdict(trace, rows(), Explained()).text == (
        "dropped in table 7 of br-int: no flow matches"
    )


def test_many_ports_are_counted() -> None:
    outputs = tuple(Action(f"output:p{number}") for number in range(8))
    trace = Trace((Pass("", "in_port=1", (TracedStep("br-int", 65, actions=outputs),)),))
    text = verdict(trace, rows(), Explained()).text
    assert text.startswith("delivered to port p0, to port p1")
    assert text.endswith(", and 3 more")
