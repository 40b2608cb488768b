"""A host's limit of incidents within a minute."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.unit.ha.cases import open_case
from tests.unit.ha.signs import NOON

from hypercobalt.api.incident import IncidentType
from hypercobalt.ha.incidents.cases import InstanceRecord, Step
from hypercobalt.ha.incidents.config import HaConfig, RecoveryLimits
from hypercobalt.ha.incidents.signals import HOST
from hypercobalt.ha.incidents.storm import admit
from hypercobalt.ha.incidents.verdict import SHORTLY

FULL = InstanceRecord(uuid=HOST, incidents=(NOON,) * 10)


def test_storm_is_one_incident_that_counts() -> None:
    other = open_case(IncidentType.STORAGE_DEGRADED, HOST, "")
    full = replace(FULL, cases=(other,))
    for count in (1, 2):
        now = NOON + timedelta(seconds=count)
        full, admitted = admit(full, now, HaConfig())
        assert not admitted
        assert full.case(IncidentType.STORAGE_DEGRADED) == other
        storm = full.case(IncidentType.EVENT_STORM)
        assert storm is not None
        assert (storm.count, storm.first_seen) == (count, NOON + timedelta(seconds=1))
        assert (storm.last_seen, storm.step, storm.due) == (now, Step.EXPIRE, now + SHORTLY)
    full, admitted = admit(full, NOON + timedelta(seconds=60), HaConfig())
    assert admitted


@pytest.mark.parametrize(("limit", "shown"), [(10, 5), (3, 1), (1, 1)])
def test_reboots_of_guests_leave_turns_for_recoveries(limit: int, shown: int) -> None:
    config, host = (
        HaConfig(limits=RecoveryLimits(incidents_per_minute=limit)),
        InstanceRecord(uuid=HOST),
    )
    admitted = list[bool]()
    for minor in [True] * 20 + [False] * 20:
        host, one = admit(host, NOON, config, minor=minor)
        admitted.append(one)
        assert bool(host.cases) is (not minor and not one), "the storm is what holds up recoveries"
        if host.cases:
            break
    assert (sum(admitted[:20]), sum(admitted)) == (shown, limit)


def test_event_refused_before_keeps_its_storm_open_and_is_not_counted_again() -> None:
    later = NOON + timedelta(seconds=6)
    full, _ = admit(FULL, NOON, HaConfig())
    full, admitted = admit(full, later, HaConfig(), again=True)
    storm = full.case(IncidentType.EVENT_STORM)
    assert storm is not None
    assert (admitted, storm.count, storm.last_seen) == (False, 1, NOON)
    assert storm.due == later + SHORTLY
    anew, _ = admit(FULL, later, HaConfig(), again=True)
    storm = anew.case(IncidentType.EVENT_STORM)
    assert storm is not None
    assert (storm.count, storm.last_seen) == (1, later), "one that was closed meanwhile"
