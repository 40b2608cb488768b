"""Durations on the wire: the text of Go's time.Duration, such as `2.755s` or `1h0m0s`.

Go counts nanoseconds in a signed 64-bit integer; `timedelta` keeps microseconds. The functions on
nanoseconds are exact, those on `timedelta` drop what is finer than a microsecond.

Source: Go's time.ParseDuration and Duration.String; k8s.io/apimachinery, util/duration.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from hypercobalt.errors import HypercobaltError

_UNIT: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,  # micro sign
    "μs": 10**3,  # Greek mu, which Go reads too
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}  # fmt: skip
_PART = re.compile(r"(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_AGE_UNIT: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "y": 365 * 86400}
_AGE: Final = (  # below so many seconds: the unit, and the finer unit behind it
    (2 * 60, "s", ""),
    (10 * 60, "m", "s"),
    (3 * 3600, "m", ""),
    (8 * 3600, "h", "m"),
    (48 * 3600, "h", ""),
    (8 * 86400, "d", "h"),
    (2 * 365 * 86400, "d", ""),
    (8 * 365 * 86400, "y", "d"),
)
_MAX: Final = 2**63 - 1
_MAX_TEXT: Final = 256


class DurationError(HypercobaltError, ValueError):
    """Text that is no Go duration, or a duration that Go cannot hold."""


def parse_duration(text: str) -> timedelta:
    """Read Go duration text; what is finer than a microsecond is dropped, towards zero.

    Raises:
        DurationError: no Go duration, or beyond some 292 years.
    """
    nanoseconds = parse_nanoseconds(text)
    microseconds = abs(nanoseconds) // 1000
    return timedelta(microseconds=-microseconds if nanoseconds < 0 else microseconds)


def format_duration(duration: timedelta) -> str:
    """Write a duration as Go does: `1m2s`, `16ms`, `1h0m0s`, `0s`.

    Raises:
        DurationError: beyond some 292 years.
    """
    return format_nanoseconds(duration // timedelta(microseconds=1) * 1000)


def short_duration(duration: timedelta) -> str:
    """Write a duration as a person types it: `90s` is `1m30s`, and `10m0s` is `10m`."""
    text = format_duration(duration)
    for end in ("m0s", "h0m"):
        if text.endswith(end):
            text = text[:-2]
    return text


def parse_nanoseconds(text: str) -> int:
    """Read Go duration text as a number of nanoseconds, finer fractions dropped.

    Raises:
        DurationError: no Go duration, or beyond 64 bits.
    """
    body = text[1:] if text[:1] in ("+", "-") else text
    if body == "0":
        return 0
    total = position = 0
    while position < len(body) <= _MAX_TEXT:
        found = _PART.match(body, position)
        if found is None or not (found[1] or found[2]):
            break
        total += _part_nanoseconds(found[1], found[2] or "", _UNIT[found[3]])
        position = found.end()
    if not body or position != len(body):
        raise DurationError(f"duration {text[:64]!r}: must look like 1h2m3.5s")
    if total > _MAX + (text[0] == "-"):
        raise DurationError(f"duration {text[:64]!r}: beyond what Go can hold, about 292 years")
    return -total if text[0] == "-" else total


def format_nanoseconds(nanoseconds: int) -> str:
    """Write a number of nanoseconds as Go's Duration.String does.

    Raises:
        DurationError: beyond 64 bits.
    """
    if not -_MAX - 1 <= nanoseconds <= _MAX:
        raise DurationError(f"duration {nanoseconds} ns: beyond what Go can hold, about 292 years")
    sign, left = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if left == 0:
        return "0s"
    for unit, above in (("ns", "us"), ("µs", "ms"), ("ms", "s")):
        if left < _UNIT[above]:
            return f"{sign}{_decimal(left, _UNIT[unit])}{unit}"
    minutes, rest = divmod(left, _UNIT["m"])
    hours, minutes = divmod(minutes, 60)
    prefix = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{prefix}{_decimal(rest, _UNIT['s'])}s"


def human_duration(duration: timedelta) -> str:
    """A length of time as `kubectl get` shows an age: `45s`, `5m30s`, `3h`, `2d5h`, `400d`.

    Two digits of precision at most. Source: util/duration HumanDuration.
    """
    seconds = int(duration.total_seconds())
    if seconds < 0:
        return "<invalid>" if seconds < -1 else "0s"
    unit, finer = next(((u, f) for below, u, f in _AGE if seconds < below), ("y", ""))
    major, rest = divmod(seconds, _AGE_UNIT[unit])
    minor = rest // _AGE_UNIT[finer] if finer else 0
    return f"{major}{unit}{minor}{finer}" if minor else f"{major}{unit}"


def _part_nanoseconds(whole: str, fraction: str, unit: int) -> int:
    # Fraction first cut to what can matter, as a long one costs time and changes nothing.
    fraction = fraction[:18]
    scale: int = 10 ** len(fraction)
    return int(whole or "0") * unit + int(fraction or "0") * unit // scale


def _decimal(value: int, unit: int) -> str:
    """`value` in units of `unit`, a power of ten, without trailing zeros."""
    whole, rest = divmod(value, unit)
    if not rest:
        return str(whole)
    return f"{whole}.{str(rest).rjust(len(str(unit)) - 1, '0').rstrip('0')}"
