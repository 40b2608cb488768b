"""Numbers as libvirt writes them: scaled integers and sets of CPUs or cells.

Source: "scaled integer" and cpuset syntax of libvirt's formatdomain.html, virScaleInteger and
virBitmapParse.
"""

from __future__ import annotations

import re

_NUMBER = re.compile(r"\d{1,20}", re.ASCII)
_MAX_BYTES = 2**63 - 1
_POWERS = {letter: power for power, letter in enumerate("kmgtpe", start=1)}
_MAX_MEMBER = 16 * 1024  # VIR_DOMAIN_CPUMASK_LEN is the largest set that libvirt reads

MOST_NAMED = 64 * 1024
"""Members that one set may name, those that it names twice included."""


def number(text: str, maximum: int = _MAX_BYTES) -> int:
    """A decimal integer, not negative.

    Raises:
        ValueError: it is none, or is above `maximum`.
    """
    text = text.strip()
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(f"{text[:40]!r} is not a number")
    value = int(text)
    if value > maximum:
        raise ValueError(f"{value} is above {maximum}")
    return value


def factor(unit: str) -> int:
    """Bytes in a unit: `b`, `bytes`, `KB` = 1000, `k` = `KiB` = 1024 … `EiB`, in any case.

    Raises:
        ValueError: libvirt has no such unit.
    """
    lower = unit.lower()
    if lower in {"b", "byte", "bytes"}:
        return 1
    power, suffix = _POWERS.get(lower[:1]), lower[1:]
    if power is not None and suffix in {"", "ib"}:
        return int(1024**power)
    if power is not None and suffix == "b":
        return int(1000**power)
    raise ValueError(f"unknown memory unit {unit[:20]!r}")


def memory_bytes(text: str, unit: str | None) -> int:
    """An amount of memory in bytes; without a unit it is KiB.

    Raises:
        ValueError: the unit is unknown, or this is no number of at most 63 bits of bytes.
    """
    value = number(text) * factor(unit or "KiB")
    if value > _MAX_BYTES:
        raise ValueError(f"{text.strip()[:40]} {unit or 'KiB'} are more bytes than 63 bits count")
    return value


def members(text: str) -> frozenset[int]:
    """A set such as `0-2,^1,7`: ranges and numbers, `^` takes one out again.

    Raises:
        ValueError: it has another form, a member of 16384 or above, or names far more than there
            can be.
    """
    found: set[int] = set()
    named = 0
    for part in text.split(","):
        item = part.strip()
        if item.startswith("^"):
            found.discard(_member(item[1:]))
            continue
        first, dash, last = item.partition("-")
        low = _member(first)
        high = _member(last) if dash else low
        if high < low:
            raise ValueError(f"the range {item[:40]!r} is descending")
        named += high + 1 - low
        if named > MOST_NAMED:
            raise ValueError(f"it names more than {MOST_NAMED} members, most of them twice")
        found.update(range(low, high + 1))
    return frozenset(found)


def _member(text: str) -> int:
    return number(text, _MAX_MEMBER - 1)
