"""Limits a host's incidents within a minute: each takes a token, else it is a storm. Pure.

Source: the HA reference, section 5, "Escalation, dedup, storm protection".
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from hypercobalt.api.incident import IncidentType, Severity
from hypercobalt.ha.incidents.cases import Case, InstanceRecord, Step, key_of, recent
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.signals import HOST
from hypercobalt.ha.incidents.verdict import SHORTLY

_MINUTE: Final = timedelta(minutes=1)


def admit(
    host: InstanceRecord,
    now: datetime,
    config: HaConfig,
    *,
    minor: bool = False,
    again: bool = False,
) -> tuple[InstanceRecord, bool]:
    """Take a token for one more incident of the host; without one, count it as a storm.

    Args:
        host: its record.
        now: time of the incident.
        config: configuration with the limit.
        minor: no reaction follows. Guests can cause many minor incidents, for example by rebooting;
            these take half of the tokens at most, so that recoveries of others need not wait.
        again: the incident was refused before, and is not counted again.
    """
    limit = config.limits.incidents_per_minute
    taken = recent(host.incidents, now, _MINUTE)
    if taken < (max(1, limit // 2) if minor else limit):
        return replace(host, incidents=(*host.incidents, now)[-limit:]), True
    if minor:
        return host, False
    key = key_of(HOST, host.start, IncidentType.EVENT_STORM)
    old = next((case for case in host.cases if case.id == key), None)
    storm = Case(
        id=key,
        type=IncidentType.EVENT_STORM,
        severity=Severity.WARNING,
        start=host.start,
        first_seen=old.first_seen if old else now,
        last_seen=old.last_seen if old and again else now,
        count=old.count + (not again) if old else 1,
    ).with_evidence(
        f"more than {limit} incidents within a minute: further incidents are not shown, and wait"
    )
    return host.with_case(storm.then(Step.EXPIRE, now + SHORTLY)), False
