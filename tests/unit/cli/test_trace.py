"""Words of `cobalt trace` become parameters, and its answer a text that is read from the top."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.ovs_agent.diagnostics.networks import explained, recorded, rows

from hypercobalt.adapters.ovn.logical import Explained
from hypercobalt.adapters.ovs.packet import PROTOCOLS
from hypercobalt.cli.trace_text import Hop, lines
from hypercobalt.cli.trace_words import onward_parameters, parameters
from hypercobalt.errors import InvalidRequestError
from hypercobalt.ovs_agent.diagnostics.onward import onward
from hypercobalt.ovs_agent.diagnostics.report import TraceOutcome, TraceReport
from hypercobalt.ovs_agent.diagnostics.tracing import PARAMETERS, passes_of

FROM = {"from": "tap1"}


@pytest.mark.parametrize(
    ("words", "flags", "expected"),
    [
        ((), {"to": "tap2"}, {"to": "tap2"}),
        ((), {"tcp_dst": "80"}, {"proto": "tcp", "dst_port": "80"}),
        (("tcp", "ip_dst=10.0.0.2", "tcp_dst=80"), {}, {"proto": "tcp", "ip_dst": "10.0.0.2"}),
        (("udp6,ipv6_dst=fd00::2,udp_src=53",), {}, {"proto": "udp", "ip_dst": "fd00::2"}),
        (
            ("in_port=tap1,arp,dl_src=fa:16:3e:00:00:01,arp_op=reply",),
            {},
            {"proto": "arp", "eth_src": "fa:16:3e:00:00:01", "arp_op": "reply"},
        ),
        (("icmp6", "icmpv6_type=128"), {}, {"proto": "icmp", "icmp_type": "128"}),
        (("dl_vlan=5", "nw_ttl=1"), {}, {"vlan": "5", "ttl": "1"}),
        (
            ("tun_id=0x2,tun_metadata0=0x20004,tcp",),
            {},
            {"tun_id": "0x2", "tun_metadata0": "0x20004", "proto": "tcp"},
        ),
        (("reg0=1",), {}, {"reg0": "1"}),  # which the agent refuses, and names the fields
    ],
)
def test_words_and_flags_become_parameters(
    words: tuple[str, ...], flags: dict[str, str], expected: dict[str, str]
) -> None:
    found = parameters(words, {**FROM, **flags})
    assert {**FROM, **expected}.items() <= found.items()
    assert found.keys() - {"reg0"} <= PARAMETERS


@pytest.mark.parametrize(
    ("words", "flags", "message"),
    [
        ((), {}, "--from is missing"),
        (("80",), FROM, "'80' is neither FIELD=VALUE nor a protocol"),
        (("tcp_dst=80", "udp_dst=53"), FROM, "udp_dst is not valid with tcp"),
        (("ip_dst=10.0.0.1", "nw_dst=10.0.0.2"), FROM, "ip_dst is given twice"),
        (("in_port=tap2",), FROM, "from is given twice: tap1 and tap2"),
        (("tcp", "udp"), FROM, "proto is given twice"),
    ],
)
def test_words_that_contradict_are_refused(
    words: tuple[str, ...], flags: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        parameters(words, flags)


OUT = {"from": "kvm-1", "tun_id": "0x2", "tun_metadata0": "0x20004", "proto": "tcp"}
"""What an agent has of a packet that leaves by a tunnel."""


def test_a_packet_goes_on_with_the_fields_of_a_tunnel() -> None:
    assert onward_parameters("kvm-1", OUT) == OUT


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({**OUT, "to": "tap2"}, "kvm-1 sends the packet on with 'to', which is no field of one"),
        ({**OUT, "bridge": "br-ex"}, "with 'bridge'"),
        ({**OUT, "ct_next": "est"}, "with 'ct_next'"),
        ({**OUT, "x" * 9_000: ""}, "with 'x{80}…'"),
        ({**OUT, "eth_src": "0" * 256}, "kvm-1 sends the packet on with eth_src of 256 characters"),
        ({"from": "tap1", "proto": "tcp"}, "kvm-1 sends the packet on without tun_id"),
        ({"tun_id": "0x2", "tun_metadata0": "0x1"}, "without from"),
    ],
)
def test_what_no_agent_makes_of_a_packet_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        onward_parameters("kvm-1", given)


def test_what_the_agent_makes_of_a_packet_is_taken() -> None:
    fields = {"proto": "tcp", "ip_src": "10.0.0.1", "ip_dst": "10.0.0.4", "dst_port": "80"}
    made = onward(recorded("tunnel"), rows(), explained(), fields, "kvm-1")
    assert made is not None
    assert onward_parameters("kvm-1", made.parameters) == made.parameters


def test_every_protocol_is_a_word() -> None:
    assert [parameters((one,), FROM)["proto"] for one in PROTOCOLS] == list(PROTOCOLS)


def report(name: str, unnamed: str = "", names: Explained | None = None) -> TraceReport:
    made = passes_of(recorded(name), names or explained())
    packet = "in_port=2,tcp,nw_dst=10.0.0.2"
    return TraceReport(TraceOutcome.DROPPED, "the verdict", "br-int", "tap1", packet, unnamed, made)


def test_the_verdict_comes_first_and_the_last_table_is_shown() -> None:
    assert list(lines(report("acl"), 100)) == [
        "the verdict",
        "",
        "in by tap1 on br-int: tcp,nw_dst=10.0.0.2",
        "  connection tracking answers new (assumed: see --ct-next)",
        "  connection tracking answers new (assumed: see --ct-next)",
        "  switch net",
        "     46  ls_out_acl  tcp.dst == 23  drop",
        "36 tables that only pass the packet on are left out (--all shows them)",
    ]


def test_states_that_were_given_are_not_assumed() -> None:
    shown = list(lines(report("routed"), 200))
    assert "  connection tracking answers est" in shown
    assert shown[-2].endswith("output:tap3")


def test_all_tables_are_shown_on_request() -> None:
    shown = list(lines(report("acl"), 100, show_all=True))
    tables = [line for line in shown if line.startswith("    ")]
    assert len(tables) == sum(len(one.steps) for one in report("acl").passes)
    assert "left out" not in shown[-1]


def test_without_names_openflow_is_shown_and_why() -> None:
    shown = list(lines(report("acl", "OVN is away", Explained()), 200))
    assert shown[-1] == "flows have no names: OVN is away"
    last = shown[-3].split()
    assert last == ["46", "tcp,reg0=0x200/0x200,reg15=0x3,metadata=0x2,tp_dst=23", "drop"]
    assert "  bridge br-int" in shown


def test_an_output_that_fails_has_its_reason_below() -> None:
    shown = list(lines(report("no-route"), 200))
    row = next(number for number, line in enumerate(shown) if 'output:"ovn-kvm-2-0"' in line)
    assert shown[row + 1].strip() == "native tunnel routing failed"


def test_a_packet_that_goes_on_has_the_verdict_of_each_host_first_and_then_its_tables() -> None:
    delivered = replace(report("delivered"), verdict="delivered to tap4", port="ovn-kvm-1-0")
    shown = list(lines(report("tunnel"), 100, hops=(Hop("kvm-2", delivered),)))
    assert shown[:3] == ["the verdict", "on kvm-2: delivered to tap4", ""]
    below = shown.index("on kvm-2")
    assert shown[below - 1] == ""
    assert shown[below + 1].startswith("in by ovn-kvm-1-0 on br-int: ")
    assert shown[below + 2 :] == list(lines(delivered, 100))[3:]


def test_host_that_could_not_be_read_is_named_with_the_reason() -> None:
    hop = Hop("kvm-2", problem="its agent does not answer")
    shown = list(lines(report("tunnel"), 100, hops=(hop,)))
    assert shown[1:3] == ["on kvm-2: not traced: its agent does not answer", ""]


@pytest.mark.parametrize("width", [20, 60, 80, 120])
@pytest.mark.parametrize("name", ["acl", "routed", "tunnel"])
def test_tables_fit_the_terminal_that_is_not_too_narrow(name: str, width: int) -> None:
    shown = list(lines(report(name), width, show_all=True))
    tables = [line for line in shown[4:] if line.startswith("    ")]
    assert max(map(len, tables)) <= max(width, 80)
