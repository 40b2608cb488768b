"""docs/ha.md names all keys, gates, metrics and drills, and tests that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from tests.pages import ROOT, broken_links, first_cells, proven, section, unknown_tests

from hypercobalt.api.duration import format_duration
from hypercobalt.api.incident import IncidentType
from hypercobalt.drills.catalogue import DRILLS
from hypercobalt.ha.host_failure.census import census
from hypercobalt.ha.host_failure.guard import GatedHost, GateLimits, ObserverState, gates
from hypercobalt.ha.incidents.config import KEY, Document, HaConfig, parse
from hypercobalt.ha.incidents.signals import EventType
from hypercobalt.node_agent.incidents.metrics import IncidentMetrics

PATH = ROOT / "docs/ha.md"
PAGE = PATH.read_text()


def keys(document: Document, prefix: str = "") -> Iterator[tuple[str, object]]:
    for field in msgspec.structs.fields(document):
        value = getattr(document, field.name)
        nested = {"limits", "thresholds"}
        if field.encode_name == "events":
            for name in ("monitored", "reported"):
                yield f"events.TYPE.{name}", True
        elif field.encode_name in nested:
            yield from keys(value, f"{field.encode_name}.")
        else:
            yield prefix + field.encode_name, value


def written(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(written, value))}]"
    if isinstance(value, Document):
        pairs = (
            f"{f.encode_name}: {written(getattr(value, f.name))}"
            for f in msgspec.structs.fields(value)
        )
        return f"{{{', '.join(pairs)}}}"
    return str(value)


def test_page_has_every_key_with_its_default() -> None:
    rows = re.findall(
        r"^\| `([a-zA-Z.]+)` \| `([^`]+)` \|", section(PAGE, "## Configuration"), re.M
    )
    assert dict(rows) == {name: written(value) for name, value in keys(HaConfig())}


def test_the_example_is_valid() -> None:
    (text,) = re.findall(r"```yaml\n(dryRun.*?)```", PAGE, re.DOTALL)
    parse({KEY: text})


def test_page_has_every_event_type_and_incident() -> None:
    text = section(PAGE, "## Event types and reactions")
    assert set(first_cells(text)) == set(EventType)
    named = set(re.findall(r"^\| [^|]+\| `(\w+)` \|", text, re.M))
    limits = set(re.findall(r"`([A-Z]\w+)`", section(PAGE, "## Limits")))
    assert named | limits == set(IncidentType)


def test_page_has_every_metric() -> None:
    registry = CollectorRegistry()
    IncidentMetrics(registry)
    names = {
        f"{metric.name}_total" if metric.type == "counter" else metric.name
        for metric in registry.collect()
    }
    assert set(first_cells(section(PAGE, "## Metrics of the agent"))) == names


def test_every_test_exists() -> None:
    assert unknown_tests(PAGE) == []


PROVEN = proven(PAGE)
"""Rows that have to name a test or a drill each."""


@pytest.mark.parametrize("row", [row for rows in PROVEN for row in rows], ids=lambda row: row[0])
def test_every_row_names_its_test_or_drill(row: list[str]) -> None:
    named = set(re.findall(r"`(?:[\w/.]+::)?([\w-]+)`", row[-1]))
    assert named
    assert {name for name in named if not name.startswith("test_")} <= set(DRILLS)


def test_claims_of_the_page_stand_in_tables() -> None:
    """Reactions, peers, gates, devices, proofs, partitions, parts, events, limits, keys, files."""
    assert len(PROVEN) == 16


def test_page_has_every_drill_and_whether_ci_runs_it() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| (yes|no)", section(PAGE, "## Drills"), re.MULTILINE)
    assert dict(rows) == {
        **{name: "yes" if drill.in_ci else "no" for name, drill in DRILLS.items()},
        "soak": "no",
    }


def test_page_has_every_gate() -> None:
    subject, observer = GatedHost("a", (), 1, 1), ObserverState(leads=True, contact={})
    answers = gates(subject, census(()), observer, GateLimits(), datetime(2026, 11, 23, tzinfo=UTC))
    assert list(first_cells(section(PAGE, "## Gates"))) == [gate.name for gate in answers]


def test_links_of_the_page_resolve() -> None:
    assert list(broken_links(PATH)) == []
