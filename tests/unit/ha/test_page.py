"""docs/ha.md names what there is, and tests that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from tests.pages import ROOT, broken_links, first_cells, section

from hypercobalt.api.duration import format_duration
from hypercobalt.api.incident import IncidentType
from hypercobalt.ha.config import KEY, Document, HaConfig, parse
from hypercobalt.ha.signals import EventType
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


def test_every_key_stands_there_with_its_default() -> None:
    rows = re.findall(
        r"^\| `([a-zA-Z.]+)` \| `([^`]+)` \|", section(PAGE, "## Configuration"), re.M
    )
    assert dict(rows) == {name: written(value) for name, value in keys(HaConfig())}


def test_the_example_is_valid() -> None:
    (text,) = re.findall(r"```yaml\n(dryRun.*?)```", PAGE, re.DOTALL)
    parse({KEY: text})


def test_every_event_type_and_incident_stands_there() -> None:
    text = section(PAGE, "## Event types and reactions")
    assert set(first_cells(text)) == set(EventType)
    named = set(re.findall(r"^\| [^|]+\| `(\w+)` \|", text, re.M))
    limits = set(re.findall(r"`([A-Z]\w+)`", section(PAGE, "## Limits")))
    assert named | limits == set(IncidentType)


def test_every_metric_stands_there() -> None:
    registry = CollectorRegistry()
    IncidentMetrics(registry)
    names = {
        f"{metric.name}_total" if metric.type == "counter" else metric.name
        for metric in registry.collect()
    }
    assert set(first_cells(section(PAGE, "## Metrics of the agent"))) == names


@pytest.mark.parametrize("test", sorted(set(re.findall(r"`(test_\w+)`", PAGE))))
def test_every_test_exists(test: str) -> None:
    files = [*(ROOT / "tests").rglob("test_*.py")]
    assert any(f"def {test}(" in file.read_text() for file in files)


def test_links_lead_somewhere() -> None:
    assert list(broken_links(PATH)) == []
