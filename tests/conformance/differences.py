"""The differences between the embedded server and the real one that we accept, each with a reason.

A difference that is not listed fails its scenario. An entry that no longer matches anything fails
the run: the list never outlives its causes. docs/compatibility.md tells users about them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.conformance.wire import Json


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where the two transcripts of a scenario part."""

    scenario: str
    step: str
    path: str
    real: Json
    ours: Json

    def __str__(self) -> str:
        return f"  {self.path}\n    real: {_cut(self.real)}\n    ours: {_cut(self.ours)}"


@dataclass(slots=True)
class Accepted:
    """A difference that we keep on purpose.

    Args:
        reason: why, for a person who compares the two servers.
        scenario: regular expression on the scenario's name.
        step: regular expression on the step's request line.
        path: regular expression on the place inside the step.
        real: regular expression on what the real server has there.
    """

    reason: str
    scenario: str = ""
    step: str = ""
    path: str = ""
    real: str = ""
    used: int = field(default=0, compare=False)

    def matches(self, difference: Difference) -> bool:
        return bool(
            re.search(self.scenario, difference.scenario)
            and re.search(self.step, difference.step)
            and re.search(self.path, difference.path)
            and re.search(self.real, str(difference.real))
        )


ACCEPTED: list[Accepted] = []


def unaccepted(differences: Iterable[Difference]) -> list[Difference]:
    """Return those that no entry of the list covers, and count the use of the entries that do."""
    left = []
    for difference in differences:
        entry = next((entry for entry in ACCEPTED if entry.matches(difference)), None)
        if entry is None:
            left.append(difference)
        else:
            entry.used += 1
    return left


def leaves(real: Json, ours: Json, path: str = "") -> list[tuple[str, Json, Json]]:
    """Return the places where two decoded JSON values differ, as (path, real, ours)."""
    if isinstance(real, dict) and isinstance(ours, dict):
        keys = sorted(real.keys() | ours.keys())
        pairs = [(f"{path}.{key}", real.get(key, ABSENT), ours.get(key, ABSENT)) for key in keys]
    elif isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours):
        pairs = [(f"{path}[{n}]", *pair) for n, pair in enumerate(zip(real, ours, strict=True))]
    elif type(real) is type(ours) and real == ours:
        return []
    else:
        return [(path, real, ours)]
    return [leaf for at, left, right in pairs for leaf in leaves(left, right, at)]


class _Absent:
    def __repr__(self) -> str:
        return "(absent)"


ABSENT = _Absent()
SHOWN = 1200  # characters of a value in a report


def _cut(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text)} characters)"
