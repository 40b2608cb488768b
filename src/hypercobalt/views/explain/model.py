"""What an explanation of one object consists of, and its text.

The order of the text is that of the questions on call: which state, since when, what is waited
for, what to do about it, and whether those who report are alive at all. Pure; times are aware.

Much of it was written by others: a node agent, a guest's name, whoever creates an Eviction. In a
command each value is one word of the shell, and no line of the text has a character that moves the
cursor or hides what stands there.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from hypercobalt.api.duration import human_duration
from hypercobalt.text import printable


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing to do: what, and the command line for it where there is one."""

    text: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is waited for, or is not as it should be.

    Args:
        message: one sentence.
        condition: `Type Status/Reason` that it was read from; "" for none.
        since: when it began, if that is recorded.
        reporter: who reported it; "" for what was computed here.
        remedies: what to do, the first thing first.
    """

    message: str
    condition: str = ""
    since: datetime | None = None
    reporter: str = ""
    remedies: tuple[Remedy, ...] = ()


@dataclass(frozen=True, slots=True)
class ReporterSighting:
    """When one of those who report was last seen.

    Args:
        who: "node agent", "kubelet", "operator".
        seen: its last sign of life; None if there is none.
        stale: it should have been seen since.
        detail: the object that shows it.
    """

    who: str
    seen: datetime | None
    stale: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Group:
    """Instances in the same phase, one line each."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why one object is where it is.

    Args:
        kind: Hypervisor, Eviction or Migration.
        name: of the object.
        at: when it was read; ages count from here.
        state: one value, such as `Evicting`.
        since: when that state began, if it is recorded.
        summary: one sentence.
        waiting: what the state ends with, and what to do about it.
        also: what else is not as it should be.
        groups: instances by phase.
        seen: those who report.
    """

    kind: str
    name: str
    at: datetime
    state: str
    since: datetime | None = None
    summary: str = ""
    waiting: tuple[Finding, ...] = ()
    also: tuple[Finding, ...] = ()
    groups: tuple[Group, ...] = ()
    seen: tuple[ReporterSighting, ...] = ()

    @property
    def lines(self) -> list[str]:
        """The text, without line ends."""
        found = [f"{self.kind.lower()}/{self.name}: {self.state}{self._began()}"]
        if self.summary:
            found.append(f"  {self.summary}")
        advised: set[Remedy] = set()
        found += _section("Waiting for", self._findings(self.waiting, advised))
        for group in self.groups:
            found += _section(group.title, [f"  - {line}" for line in group.lines])
        found += _section("Not as it should be", self._findings(self.also, advised))
        return [printable(line) for line in found + _section("Last seen", self._sightings())]

    def _began(self) -> str:
        if self.since is None:
            return ""
        return f" for {age(self.since, self.at)} (since {self.since:%Y-%m-%dT%H:%M:%SZ})"

    def _findings(self, findings: Iterable[Finding], advised: set[Remedy]) -> list[str]:
        lines: list[str] = []
        for one in findings:
            lines.append(f"  - {self._head(one)}{one.message}")
            new = [remedy for remedy in one.remedies if remedy not in advised]
            advised.update(new)
            for remedy in new:
                lines.append(f"    -> {remedy.text}{':' if remedy.command else ''}")
                if remedy.command:
                    lines.append(f"       {remedy.command}")
        return lines

    def _head(self, one: Finding) -> str:
        """`Evicting False/Failed for 5m (operator): `."""
        if not one.condition:
            return ""
        since = f" for {age(one.since, self.at)}" if one.since else ""
        reporter = f" ({one.reporter})" if one.reporter else ""
        return f"{one.condition}{since}{reporter}: "

    def _sightings(self) -> list[str]:
        rows = [(one.who, self._when(one), one.detail) for one in self.seen]
        who, when = (max((len(row[at]) for row in rows), default=0) for at in (0, 1))
        return [f"  {row[0]:{who}}  {row[1]:{when}}  {row[2]}" for row in rows]

    def _when(self, one: ReporterSighting) -> str:
        if one.seen is None:
            return "never"
        return f"{age(one.seen, self.at)} ago{', late' if one.stale else ''}"


def command(template: str, **values: str) -> str:
    """A command line; each value in it is one word for the shell, whatever it holds."""
    return template.format_map({name: shlex.quote(value) for name, value in values.items()})


def age(then: datetime, now: datetime) -> str:
    """How long ago, as kubectl shows it; a clock that is ahead gives `0s`."""
    return human_duration(max(now - then, timedelta(0)))


def _section(title: str, lines: list[str]) -> list[str]:
    return ["", f"{title}:", *lines] if lines else []
