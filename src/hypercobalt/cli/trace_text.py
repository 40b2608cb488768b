"""A trace as a person reads it: the verdict, then what each table made of the packet. Pure.

Most tables of OVN only pass a packet on; they are left out unless `show_all` is set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from hypercobalt.ovs_agent.diagnostics.report import TraceOutcome, TraceReport, TraceStep

_ENDS: Final = ("output:", "controller(", "CONTROLLER:", "NORMAL", "FLOOD")
_PLUMBING: Final = ("resubmit(", "set_field:", "move:", "load:", "push:", "pop:", "clone(")
_STATE: Final = re.compile(r"ct_state=(\S+)")
_STAGE: Final = 26  # columns
_LEAST: Final = 20  # columns of a match, however narrow the terminal


@dataclass(frozen=True, slots=True)
class _Row:
    """A table's line: its number, stage, match, and what it did."""

    table: str
    stage: str
    match: str
    actions: str


class Hop(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The next host of a packet.

    Args:
        host: its name.
        report: of its own agent; absent when it made none.
        problem: why it made none; "" if it did.
    """

    host: str
    report: TraceReport | None = None
    problem: str = ""


def lines(
    report: TraceReport, width: int, *, hops: Sequence[Hop] = (), show_all: bool = False
) -> Iterator[str]:
    """The text: the verdict of each host, then its tables.

    Args:
        report: of the agent.
        width: columns of the terminal; longer cells are cut.
        hops: the hosts that the packet goes on to, in order.
        show_all: tables that change nothing as well.
    """
    yield report.verdict
    for hop in hops:
        found = hop.report.verdict if hop.report else f"not traced: {hop.problem}"
        yield f"on {hop.host}: {found}"
    yield ""
    yield from _tables(report, width, show_all=show_all)
    for hop in hops:
        if hop.report is not None:
            yield ""
            yield f"on {hop.host}"
            yield from _tables(hop.report, width, show_all=show_all)


def _tables(report: TraceReport, width: int, *, show_all: bool) -> Iterator[str]:
    packet = report.packet.partition(",")[2] or "no fields"
    yield f"in by {report.port} on {report.bridge}: {packet}"
    steps = [step for one in report.passes for step in one.steps]
    last = steps[-1:] if report.outcome is TraceOutcome.DROPPED else []
    chosen = [one for one in steps if show_all or one in last or _matters(one, report)]
    rows = {id(step): _row(step) for step in chosen}
    fit = _Fit(rows.values(), width)
    network = ""
    for one in report.passes:
        if one.resumed:
            yield f"  {_tracked(one.resumed)}"
        for step in one.steps:
            if id(step) not in rows:
                continue
            if (where := _where(step, report)) and where != network:
                network = where
                yield f"  {network}"
            yield fit.line(rows[id(step)])
            yield from (f"           {error}" for act in step.actions for error in act.errors)
    if hidden := len(steps) - len(chosen):
        yield f"{hidden} tables that only pass the packet on are left out (--all shows them)"
    if report.unnamed:
        yield f"flows have no names: {report.unnamed}"


class _Fit:
    """Columns as wide as they need to be, and as the terminal lets them."""

    def __init__(self, rows: Iterable[_Row], width: int) -> None:
        known = list(rows)
        self._stage = min(_STAGE, max((len(row.stage) for row in known), default=0))
        left = max(width - self._stage - 14, 2 * _LEAST)
        needed = max((len(row.match) for row in known), default=0)
        longest = max((len(row.actions) for row in known), default=0)
        self._match = min(needed, max(left // 2, left - longest))
        self._actions = left - self._match

    def line(self, row: _Row) -> str:
        stage = _cut(row.stage, self._stage).ljust(self._stage)
        match = _cut(row.match, self._match).ljust(self._match)
        return f"    {row.table}  {stage}  {match}  {_cut(row.actions, self._actions)}".rstrip()


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _matters(step: TraceStep, report: TraceReport) -> bool:
    """Whether a table does more than pass the packet on."""
    if any(one.errors or one.text.startswith(_ENDS) for one in step.actions):
        return True
    if step.logical is not None:
        return _short(step.logical.actions) != ""
    if not report.unnamed:
        return False  # plumbing of OVN, between its logical tables
    return any(not one.text.startswith(_PLUMBING) for one in step.actions)


def _row(step: TraceStep) -> _Row:
    number = f"{step.table:3}"
    if step.logical is not None:
        match = "any" if step.logical.match == "1" else step.logical.match
        return _Row(number, step.logical.stage, match, _short(step.logical.actions) or "next")
    done = [one.text for one in step.actions if not one.text.startswith("resubmit(")]
    match = "no flow matches" if step.priority is None else step.match or "any"
    if step.port:
        match = f'port "{step.port}"'
        done = [one for one in done if one.startswith(_ENDS)] or done
    return _Row(number, "", match, ", ".join(done) or "next")


def _short(actions: str) -> str:
    """Actions of a logical flow without the `next;` that ends most of them."""
    text = re.sub(r"/\* (\w+) \*/", r"\1;", actions.strip())
    return re.sub(r"(^|\s)next;$", "", text).strip().removesuffix(";")


def _where(step: TraceStep, report: TraceReport) -> str:
    if step.network:
        return step.network
    return f"bridge {step.bridge}" if step.bridge != report.bridge or report.unnamed else ""


def _tracked(resumed: str) -> str:
    """Text for a packet that comes back from connection tracking, with its state."""
    found = _STATE.search(resumed)
    if found is None:
        return resumed
    states = ",".join(one for one in found[1].split("|") if one != "trk")
    assumed = " (assumed: see --ct-next)" if "default" in resumed else ""
    return f"connection tracking answers {states or 'nothing'}{assumed}"
