"""Which ports are traced on a suspicion, and what the trace adds to a finding's message."""

from __future__ import annotations

import pytest
from tests.unit.ovs_agent.switches import IFACE, database, healthy, tap

from hypercobalt.ovs_agent.facts import Sample, SuspectTrace, SwitchFacts
from hypercobalt.ovs_agent.flow_scan import ForeignFlow, TableScan
from hypercobalt.ovs_agent.rules.flows import assess_flows
from hypercobalt.ovs_agent.rules.silence import message_of
from hypercobalt.ovs_agent.rules.suspects import MOST, suspects

TAPS = [
    tap(name=f"tap{n}", uuid=f"u{n}", ofport=n, external_ids={"iface-id": f"{IFACE}{n}"})
    for n in range(1, 6)
]


def foreign(in_port: int, priority: int = 65535) -> ForeignFlow:
    return ForeignFlow(0, priority, 0, in_port, True)


def scanned(*flows: ForeignFlow) -> dict[int, TableScan]:
    return {0: TableScan(foreign=frozenset(flows))}


def silent(*numbers: int) -> tuple[Sample, ...]:
    return tuple(
        Sample(
            100,
            {f"u{n}": packets for n in numbers},
            {f"u{n}": n for n in numbers},
            dict.fromkeys(numbers, 5),
        )
        for packets in (0, 20, 40)
    )


def ports(**readings: object) -> SwitchFacts:
    return healthy(database({"br-int": TAPS}), **readings)


@pytest.mark.parametrize(
    ("facts", "traced"),
    [
        pytest.param(ports(), [], id="no suspicion"),
        pytest.param(ports(scans=scanned(foreign(-1))), ["u1"], id="flow of any port"),
        pytest.param(ports(scans=scanned(foreign(3))), ["u3"], id="flow of one port"),
        pytest.param(ports(scans=scanned(foreign(9))), [], id="flow of a port that is gone"),
        pytest.param(ports(samples=silent(4)), ["u4"], id="silent port"),
        pytest.param(
            ports(scans=scanned(foreign(2, 5), foreign(3, 9))), ["u3", "u2"], id="worst flow first"
        ),
        pytest.param(
            ports(scans=scanned(foreign(3)), samples=silent(3)), ["u3"], id="each port once"
        ),
        pytest.param(ports(samples=silent(1, 2, 3, 4, 5)), ["u1", "u2"], id="few of many"),
    ],
)
def test_ports_are_traced_by_suspicion(facts: SwitchFacts, traced: list[str]) -> None:
    assert [one.uuid for one in suspects(facts)] == traced
    assert len(traced) <= MOST


@pytest.mark.parametrize(
    ("attached", "mac"),
    [
        ("fa:16:3e:00:00:01", "fa:16:3e:00:00:01"),
        ("FA:16:3E:00:00:01", "fa:16:3e:00:00:01"),
        ("", ""),
        ("fa:16:3e:00:00", ""),
        ("fa:16:3e:00:00:01,nw_src=10.0.0.1", ""),
        ("fa:16:3e:00:00:01\n", ""),
        ("\u00e9" * 5000, ""),
    ],
)
def test_port_whose_attached_mac_is_none_is_traced_without_it(attached: str, mac: str) -> None:
    ids = {"iface-id": IFACE, "attached-mac": attached}
    row = tap(name="tap1", uuid="u1", ofport=1, external_ids=ids)
    (found,) = suspects(healthy(database({"br-int": [row]}), scans=scanned(foreign(1))))
    assert (found.uuid, found.mac) == ("u1", mac)


def test_trace_of_a_suspect_is_in_the_message_of_a_foreign_flow() -> None:
    flow = frozenset({foreign(-1)})
    scans = {0: TableScan(foreign=flow, lasting_foreign=flow)}
    trace = {"u1": SuspectTrace("dropped in table 0 of br-int by priority 65535", True)}
    (with_trace,) = assess_flows(ports(scans=scans, traces=trace)).findings
    (without,) = assess_flows(ports(scans=scans)).findings
    added = "; a broadcast from tap1, traced, is dropped in table 0 of br-int by priority 65535"
    assert with_trace.message == without.message + added


def test_silent_port_whose_packets_a_flow_of_others_takes_is_not_called_re_created() -> None:
    taken = message_of("tap1", SuspectTrace("dropped in table 0 of br-int", ends_at_once=True))
    assert "traced, is dropped in table 0" in taken
    assert "re-created" not in taken


def test_silent_port_that_flows_serve_was_re_created() -> None:
    assert "re-created" in message_of("tap1", None)
    message = message_of("tap1", SuspectTrace("sent to host kvm-2"))
    assert "re-created" in message
    assert message.endswith("traced, is sent to host kvm-2, so flows do not stop them")
