"""Whatever the switch's database has, the status is one that the API server takes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from tests.unit.ovs_agent.switches import (
    NOW,
    OVN,
    bond,
    but,
    database,
    healthy,
    interface,
    later,
    mirrored,
    shown,
    tap,
    without,
)

from hypercobalt.adapters.ovs.fake import FakeSwitch
from hypercobalt.adapters.ovs.links import KernelBond, KernelBondMember
from hypercobalt.adapters.ovs.model import Southbound
from hypercobalt.adapters.ovs.port import ProducerFault
from hypercobalt.adapters.ovs.rows import Database, ManagerRow, MirrorRow
from hypercobalt.agent.diagnostics.use import RefusedUseError
from hypercobalt.api.ovsnode import OVSNodeStatus
from hypercobalt.ovs_agent.assess import Judgement, judge
from hypercobalt.ovs_agent.diagnostics.ports import ports
from hypercobalt.ovs_agent.diagnostics.report import PortsReport
from hypercobalt.ovs_agent.exporter import Exporter
from hypercobalt.ovs_agent.facts import Reading, SwitchFacts
from hypercobalt.ovs_agent.judging import Judge
from hypercobalt.ovs_agent.observing import SwitchObserver
from hypercobalt.ovs_agent.rules.captures import CaptureRefusedError, source_of
from hypercobalt.ovs_agent.status.parts import Board, Parts
from hypercobalt.runtime import FakeClock

LONGEST = 4096
"""Characters of a condition's message."""

LARGEST = 700_000
"""Bytes; the API server adds the names of fields and keys for each of their managers."""


def hostile(text: str, count: int) -> Database:
    """Rows that have this text wherever one can be set."""
    ids = {
        **{f"ovn-{key}": text for key in ("remote", "encap-ip", "encap-type")},
        "system-id": text,
        "ovn-bridge-mappings": ",".join(f"{text}{n}:{text}{n}" for n in range(count)),
    }
    links = [interface(f"{text}{n}", n, error=text, type="") for n in range(count)]
    bonds = [
        bond(f"{text}b{n}", interface(f"{text}m{n}", -1), interface(f"{text}w{n}"), bond_mode=text)
        for n in range(count)
    ]
    tunnels = [
        interface(f"{text}t{n}", -1, type="geneve", options={"remote_ip": f"{text}{n}"})
        for n in range(count)
    ]
    of_vm = {"iface-id": text, "vm-uuid": text}
    taps = [tap(f"{text}v{n}", None, external_ids=of_vm) for n in range(count)]
    bridges = {f"{text}{n}": () for n in range(count)}
    rows = database({**bridges, "br-int": [*links, *bonds, *tunnels, *taps]}, ids)
    of_mirrors = (MirrorRow(f"u{n}", f"{text}{n}") for n in range(count))
    managers = {str(n): ManagerRow(str(n), f"tcp:{text}{n}") for n in range(count)}
    switch = replace(rows.switch, ovs_version=text, dpdk_version=text)
    rows = but(rows, managers=managers, switch=switch)
    return mirrored(rows, "br-int", *of_mirrors)


def judged(facts: SwitchFacts) -> Judgement:
    first = judge(facts, {}, now=NOW, monotonic=0.0)
    return judge(facts, first.ledger, now=later(600), monotonic=600.0)


def check(found: Judgement) -> None:
    size = len(msgspec.json.encode(found.status))
    size += len(msgspec.json.encode(list(found.conditions.items())))
    assert size < LARGEST
    assert all(len(one.message) <= LONGEST for one in found.conditions.values())
    assert all(one.message.isprintable() for one in found.conditions.values())
    status: OVSNodeStatus = found.status
    assert status.interfaces is not None
    for names in (
        [one.name for one in status.bridges],
        [one.name for one in status.interfaces.physical],
        [one.name for one in status.interfaces.bonds],
        [one.network for one in status.ovnController.bridgeMappings]
        if status.ovnController
        else [],
    ):
        assert len(names) == len(set(names))


@pytest.mark.parametrize("count", [1, 150])
@pytest.mark.parametrize("text", ["x" * 40_000, "\n\x1b[2J\u202e" * 2000, "\U0001f4a9" * 2000])
def test_status_stays_small(text: str, count: int) -> None:
    if count > 1:
        text = text[:700]
    rows = hostile(text, count)
    facts = healthy(rows, southbound=Reading(Southbound(7)), instances={})
    for away in (facts, without(facts, "database"), without(facts, "vswitchd")):
        check(judged(away))
    check(judged(without(facts, "southbound", ProducerFault.UNSUPPORTED)))


@settings(max_examples=60)
@given(st.text(max_size=30), st.integers(1, 3))
def test_any_text_is_judged(text: str, count: int) -> None:
    check(judged(healthy(hostile(text, count), instances={})))


def test_long_remote_that_cannot_be_read_is_no_long_condition() -> None:
    remote = "ssl:" + "x" * 2_000_000
    rows = database({"br-int": [tap()]}, {**OVN, "ovn-remote": remote})
    facts = without(healthy(rows), "southbound", ProducerFault.UNSUPPORTED)
    failed = but(facts, southbound=but_message(facts.southbound, f"remote {remote}\nis none"))
    check(judged(failed))


def but_message(reading: Reading[Southbound], message: str) -> Reading[Southbound]:
    return Reading(reading.value, reading.failures, reading.fault, message, reading.since)


def test_texts_of_the_switch_are_cut_at_256_characters() -> None:
    facts = healthy(hostile("x" * 257, 1))
    status = judged(facts).status
    assert status.ovnController is not None
    (mapping,) = status.ovnController.bridgeMappings
    for text in (status.ovnController.chassisId or "", mapping.network, status.dpdkVersion or ""):
        assert (len(text), text[-1]) == (256, "\u2026")
    exact = judged(healthy(hostile("x" * 255, 1))).status.ovnController
    assert exact is not None
    assert exact.bridgeMappings[0].network == "x" * 255 + "0"


def test_faulty_entry_stays_in_a_list_that_is_too_long() -> None:
    rows = database({f"a{n:04}" + "x" * 200: () for n in range(1000)} | {"br-int": [tap()]})
    down = but(rows.bridges["b-br-int"], datapath_id=None)
    rows = but(rows, bridges={**rows.bridges, down.uuid: down})
    status = judged(healthy(rows)).status
    assert len(status.bridges) < 500
    assert [one.status for one in status.bridges if one.name == "br-int"] == ["Down"]


def test_counters_of_a_broken_driver_fit_64_bits() -> None:
    rows = database({"br-int": [tap()], "br-ex": [interface("eth0"), interface("eth1", 2)]})
    broken = {"rx_bytes": 2**63 - 1, "rx_errors": 2**63 - 1, "tx_dropped": -1}
    statistics = dict.fromkeys(rows.interfaces, broken)
    metrics = judged(healthy(rows, statistics=Reading(statistics))).status.metrics
    assert metrics is not None
    assert (metrics.bytesReceived, metrics.errors) == (2**63 - 1, 2**63 - 1)
    assert metrics.drops == 0


def test_bonds_of_the_kernel_and_the_switch_have_one_entry_a_name() -> None:
    name = "bond0\x01"
    rows = database(
        {"br-ex": [bond(name, interface("e0"), interface("e1")), interface("bond0\x02")]}
    )
    members = (KernelBondMember("e2", up=True),)
    kernel = (KernelBond("bond0\x02", "802.3ad", up=True, members=members),)
    bonds = Reading((shown(name, {"e0": True, "e1": True}),))
    check(judged(healthy(rows, bonds=bonds, kernel_bonds=Reading(kernel))))


@settings(max_examples=40)
@given(st.text(max_size=30), st.integers(1, 3))
def test_any_text_is_a_metric_of_one_line(text: str, count: int) -> None:
    facts = healthy(hostile(text, count), instances={})
    clock = FakeClock(NOW)
    observer = SwitchObserver(FakeSwitch(), clock)
    observer.facts.set(facts)
    judge_ = Judge(observer.facts, Board(clock, Parts()), clock, counters=timedelta(minutes=5))
    judge_.adopt(())
    registry = CollectorRegistry()
    registry.register(Exporter(FakeSwitch(), observer, judge_))
    page = generate_latest(registry).decode()
    series = [one for one in page.split("\n") if one and not one.startswith("#")]
    assert all(one.rpartition(" ")[2].replace(".", "").isalnum() for one in series)
    assert len({one.rpartition(" ")[0] for one in series}) == len(series)


@settings(max_examples=40)
@given(st.text(max_size=30), st.integers(1, 3))
async def test_any_text_is_a_port_that_is_reported_or_refused(text: str, count: int) -> None:
    facts = healthy(hostile(text, count), instances={})
    found = await ports(FakeSwitch(), facts, (), {})
    assert msgspec.json.decode(msgspec.json.encode(found), type=PortsReport) == found
    for word in (text, f"{text}0", "0", "x"):
        with suppress(RefusedUseError):
            await ports(FakeSwitch(), facts, (), {"port": word})
        with suppress(CaptureRefusedError):
            rows = facts.rows
            assert rows is not None
            source_of(rows, {}, word, uplinks=True, mirrors=True)
