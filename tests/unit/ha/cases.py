"""Open cases for tests of the rules."""

from __future__ import annotations

from datetime import datetime

from tests.unit.ha.signs import NOON, U1

from hypercobalt.api.incident import IncidentType, Severity
from hypercobalt.ha.incidents.cases import Case, key_of


def open_case(
    type_: IncidentType = IncidentType.CRASH,
    who: str = U1,
    start: str = "s",
    at: datetime = NOON,
    /,
    **fields: object,
) -> Case:
    """A critical case without a next step.

    Args:
        type_: of the incident.
        who: the instance, or the host.
        start: of the instance, in which it was opened.
        at: when it was seen, once.
        fields: those of the case that are otherwise.
    """
    wanted: dict[str, object] = {
        "id": key_of(who, start, type_),
        "severity": Severity.CRITICAL,
        "first_seen": at,
        "last_seen": at,
        **fields,
    }
    return Case(type=type_, start=start, **wanted)  # type: ignore[arg-type]
