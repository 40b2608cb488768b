"""Times on the wire: RFC 3339 text, in UTC.

Kubernetes has two kinds. `metav1.Time` has whole seconds and is a plain aware `datetime` here;
the codec drops the fraction. `metav1.MicroTime` has exactly six digits, and the Go parser accepts
nothing else; it is the `MicroTime` class here, so that the codec can distinguish the two.

Source: k8s.io/apimachinery, meta/v1 time.go and micro_time.go.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from hypercobalt.errors import HypercobaltError

# A fraction may have any number of digits; datetime keeps six of them.
_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:[.,](\d{1,6})\d*)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


class TimeError(HypercobaltError, ValueError):
    """Text that is no RFC 3339 time, or a time that has no zone."""


class MicroTime(datetime):
    """An aware time that goes on the wire with six digits of fraction."""


def micro_time(at: datetime) -> MicroTime:
    """The same moment as a `MicroTime` in UTC.

    Raises:
        TimeError: `at` has no time zone.
    """
    utc = _utc(at)
    return MicroTime(
        utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second, utc.microsecond, UTC
    )


def parse_time(text: str) -> datetime:
    """Read RFC 3339 text, with or without a fraction and with any offset, as a time in UTC.

    Digits beyond the microsecond are dropped.

    Raises:
        TimeError: the text is no such time.
    """
    found = _RFC3339.fullmatch(text)
    try:
        if found:
            day, clock, fraction, zone = found.groups()
            zone = "+00:00" if zone in "Zz" else zone
            whole = f"{day}T{clock}.{(fraction or '').ljust(6, '0')}{zone}"
            return datetime.fromisoformat(whole).astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise TimeError(f"time {text[:64]!r}: {exc}") from exc
    raise TimeError(f"time {text[:64]!r}: must look like 2026-01-01T00:00:00Z")


def parse_micro_time(text: str) -> MicroTime:
    """Read RFC 3339 text as `parse_time` does, into a `MicroTime`."""
    return micro_time(parse_time(text))


def format_time(at: datetime) -> str:
    """`2026-01-01T00:00:00Z`: whole seconds, the fraction dropped.

    Raises:
        TimeError: `at` has no time zone.
    """
    return f"{_utc(at).replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def format_micro_time(at: datetime) -> str:
    """`2026-01-01T00:00:00.000000Z`: always six digits.

    Raises:
        TimeError: `at` has no time zone.
    """
    return f"{_utc(at).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _utc(at: datetime) -> datetime:
    if at.utcoffset() is None:
        raise TimeError(f"time {at.isoformat()}: has no time zone")
    try:
        return at.astimezone(UTC)
    except OverflowError as exc:
        raise TimeError(f"time {at.isoformat()}: out of range in UTC") from exc
