"""docs/ovs-agent.md has a row for all that an OVSNode can show, and tests that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

import msgspec
import pytest
from msgspec.inspect import ListType, StructType, Type, UnionType, VarTupleType
from tests.pages import ROOT, first_cells, named_tests, proven, section, tables, unknown_tests

from hypercobalt.adapters.capture import filters, order
from hypercobalt.adapters.ovs import unixctl
from hypercobalt.adapters.ovs.fake import FakeSwitch
from hypercobalt.adapters.ovs.mirrors import Mirrors
from hypercobalt.adapters.ovs.packet import FIELDS, MOST_STATES, PROTOCOLS
from hypercobalt.adapters.ovs.port import TRACE_DEADLINE, TRACE_LIMIT
from hypercobalt.api import ovsnode_reasons as reasons
from hypercobalt.api.conditions import AGENT_MESSAGE
from hypercobalt.api.ovsnode import (
    MOST_BROKEN_TUNNELS,
    MOST_ISSUES,
    OVSNodeConditionType,
    OVSNodeSpec,
    OVSNodeStatus,
)
from hypercobalt.ovs_agent import exporter, flow_scan, probes
from hypercobalt.ovs_agent.diagnostics import tracing
from hypercobalt.ovs_agent.diagnostics.captures import Captures
from hypercobalt.ovs_agent.diagnostics.internals import MOST_MACS
from hypercobalt.ovs_agent.facts import SwitchFacts
from hypercobalt.ovs_agent.judging import Judge
from hypercobalt.ovs_agent.observing import FILL, SwitchObserver
from hypercobalt.ovs_agent.rules import findings
from hypercobalt.ovs_agent.settings import DEFAULT_COUNTERS
from hypercobalt.ovs_agent.status import bounds
from hypercobalt.ovs_agent.status.parts import Board, Parts
from hypercobalt.ovs_agent.uses import uses
from hypercobalt.runtime import FakeClock

PAGE = (ROOT / "docs/ovs-agent.md").read_text()
KINDS = (
    OVSNodeConditionType,
    reasons.OVSDBReason,
    reasons.VswitchdReason,
    reasons.ControllerReason,
    reasons.BridgesReason,
    reasons.BondsReason,
    reasons.PortsReason,
    reasons.FlowsReason,
    reasons.OVSReadyReason,
    reasons.UnknownReason,
    reasons.IssueCode,
)


@pytest.mark.parametrize("kind", KINDS)
def test_page_names_every_value(kind: type[StrEnum]) -> None:
    named = set(re.findall(r"`([A-Za-z]+)`", PAGE))
    assert {one.value for one in kind} - named == set()


def test_page_names_every_field_of_a_traced_packet() -> None:
    named = set(re.findall(r"`([a-z_0-9]+)`", PAGE))
    assert FIELDS.keys() - named == set()
    assert set(PROTOCOLS) - named == set()


def leaves(found: Type, path: str) -> Iterator[str]:
    """Paths of the values below a type, as in `bridges[].name`; a list of values is one."""
    match found:
        case UnionType():
            (inner,) = (one for one in found.types if not isinstance(one, msgspec.inspect.NoneType))
            yield from leaves(inner, path)
        case VarTupleType() | ListType() if isinstance(found.item_type, StructType):
            yield from leaves(found.item_type, f"{path}[]")
        case StructType():
            for field in found.fields:
                yield from leaves(field.type, f"{path}.{field.encode_name}".removeprefix("."))
        case _:
            yield path


def test_every_field_has_a_row() -> None:
    of_spec = leaves(msgspec.inspect.type_info(OVSNodeSpec), "spec")
    of_status = leaves(msgspec.inspect.type_info(OVSNodeStatus), "")
    rows = list(first_cells(section(PAGE, "## Fields")))
    assert sorted(rows) == sorted([*of_spec, *of_status])


def test_every_condition_and_every_code_has_a_row() -> None:
    types = first_cells(section(PAGE, "## Conditions"))
    assert sorted(types) == sorted(one.value for one in OVSNodeConditionType)
    codes = first_cells(section(PAGE, "## Issues"))
    assert sorted(codes) == sorted(one.value for one in reasons.IssueCode)


def test_every_endpoint_has_a_row_with_its_right() -> None:
    clock, switch = FakeClock(), FakeSwitch()
    observer = SwitchObserver(switch, clock)
    judge = Judge(observer.facts, Board(clock, Parts()), clock, counters=timedelta(minutes=5))
    mirrors = Mirrors(Path("/nonexistent/db.sock"), "kvm-1")
    captures = Captures(SwitchFacts, switch, mirrors, clock, by_mirror=False)
    verbs = {"GET": "get", "POST": "create"}
    row = r"^\| `(\w+) /v1/ovsnodes/NODE/([\w-]+)` \| `(\w+) ovsnodes/([\w-]+)` \|"
    assert set(re.findall(row, section(PAGE, "## Diagnostics"), re.MULTILINE)) == {
        (one.method, one.name, verbs[one.method], one.right)
        for one in (*uses(switch, observer, judge), *captures.uses())
    }


LIMITS = {
    "counters that change alone": DEFAULT_COUNTERS // timedelta(minutes=1),
    "rows after a restart of ovsdb-server": FILL.seconds,
    "text of the switch": bounds.LONGEST,
    "message of a condition": AGENT_MESSAGE,
    "object and message of an issue": findings.LONGEST_OBJECT,
    "a list": bounds.SHARE // 1024,
    "`issues`": MOST_ISSUES,
    "`ovnController.tunnels.broken`": MOST_BROKEN_TUNNELS,
    "flows of table 0 read for ports": probes.MOST_FLOWS,
    "flows of a table read for stale ones": flow_scan.MOST,
    "a scrape of `/metrics`": exporter.DEADLINE.seconds,
    "duration": order.DURATION.seconds,
    "packets": order.PACKETS,
    "snaplen": order.SNAPLEN,
    "bytes": order.BYTES // 1024**2,
    "filter": filters.LONGEST,
}
"""The first number of each row, in the unit of the page."""


def test_limits_are_those_of_the_code() -> None:
    rows = [
        cells
        for heading in ("## Limits", "## Captures")
        for _, table in tables(section(PAGE, heading))
        for cells in table
    ]
    numbers = {cells[0]: re.search(r"\d[\d,]*", cells[1]) for cells in rows}
    shown = {name: number and int(number[0].replace(",", "")) for name, number in numbers.items()}
    assert {name: shown.get(name) for name in LIMITS} == LIMITS
    (trace,) = re.findall(r"^\| `POST \S+/trace` \|.*", PAGE, re.MULTILINE)
    seconds, mebibytes = TRACE_DEADLINE.seconds, TRACE_LIMIT // 1024**2
    assert f"{seconds} s and {mebibytes} MB of ovs-vswitchd" in trace
    (bridge,) = re.findall(r"^\| `GET \S+/bridge` \|.*", PAGE, re.MULTILINE)
    assert f"{MOST_MACS:,} MAC addresses listed" in bridge
    assert f"{unixctl.LIMIT // 1024**2} MiB of each reply" in bridge
    assert f"{MOST_STATES} answers of connection tracking; {tracing.NAMING:g} s of" in trace


def test_every_test_exists() -> None:
    assert unknown_tests(PAGE) == []


PROVEN = proven(PAGE)


@pytest.mark.parametrize("row", [row for rows in PROVEN for row in rows], ids=lambda row: row[0])
def test_every_row_names_its_test(row: list[str]) -> None:
    assert named_tests(row[-1])


def test_claims_of_the_page_stand_in_tables() -> None:
    """Conditions, settings of OVN, issues, fields, limits, captures, metrics, endpoints."""
    assert len(PROVEN) == 8
