"""Which incidents stand in the status."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.ha.signs import uuid

from hypercobalt.api.incident import IncidentType, Severity
from hypercobalt.ha.incidents.cases import Case, InstanceRecord
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.node_agent.incidents.reports import shown
from hypercobalt.node_agent.incidents.store import Store

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def case(number: int, severity: Severity) -> Case:
    seen = NOON - timedelta(minutes=number)
    return Case(f"case-{number}", IncidentType.CRASH, severity, "start", seen, seen)


@pytest.mark.parametrize("critical", [0, 3, 20, 30])
def test_status_has_the_twenty_gravest_the_oldest_first(critical: int) -> None:
    store = Store()
    for number in range(30):
        grave = Severity.CRITICAL if number < critical else Severity.WARNING
        store.put(InstanceRecord(uuid=uuid(number), cases=(case(number, grave),)))
    found = shown(store, HaConfig())
    assert len(found) == 20
    kept = min(critical, 20)
    severities = [one.severity for one in found]
    assert severities == [Severity.CRITICAL] * kept + [Severity.WARNING] * (20 - kept)
    for alike in (found[:kept], found[kept:]):
        times = [one.firstSeen for one in alike if one.firstSeen is not None]
        assert (times, len(times)) == (sorted(times), len(alike))
