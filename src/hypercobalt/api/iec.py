"""Sizes as people read them: `0 B`, `10.4 MiB`, `4.0 GiB`.

Writing rounds to one decimal, so reading back gives a value within half a tenth of the unit.

Source: the Migration objects of kvm-node-agent, which use go-humanize's IBytes with one decimal.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from hypercobalt.errors import HypercobaltError

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_STEP: Final = 1024
_TEXT = re.compile(r"(\d{1,20}(?:\.\d{1,20})?) ?(B|KiB|MiB|GiB|TiB|PiB|EiB)(/s)?", re.ASCII)


class SizeError(HypercobaltError, ValueError):
    """Text that is no IEC size, or a negative size."""


def format_iec(size_bytes: int) -> str:
    """Write a number of bytes: an integer below 1024, else one decimal and a binary unit.

    Raises:
        SizeError: the number is negative.
    """
    if size_bytes < 0:
        raise SizeError(f"size {size_bytes}: must not be negative")
    if size_bytes < _STEP:
        return f"{size_bytes} B"
    power = min((size_bytes.bit_length() - 1) // 10, len(_UNITS) - 1)
    tenths = _tenths(size_bytes, power)
    if tenths >= 10 * _STEP and power < len(_UNITS) - 1:  # 1023.96 KiB is 1.0 MiB, not 1024.0 KiB
        power += 1
        tenths = _tenths(size_bytes, power)
    return f"{tenths // 10}.{tenths % 10} {_UNITS[power]}"


def format_iec_rate(bytes_per_second: int) -> str:
    """Write a rate: the size with `/s` behind it."""
    return f"{format_iec(bytes_per_second)}/s"


def parse_iec(text: str) -> int:
    """Read what `format_iec` or `format_iec_rate` wrote, as the nearest whole number of bytes.

    Raises:
        SizeError: the text is no IEC size.
    """
    found = _TEXT.fullmatch(text)
    if found is None:
        raise SizeError(f"size {text[:64]!r}: must look like 10.4 MiB")
    return _nearest(Fraction(found[1]) * _STEP ** _UNITS.index(found[2]))


def _tenths(size_bytes: int, power: int) -> int:
    return _nearest(Fraction(10 * size_bytes, _STEP**power))


def _nearest(value: Fraction) -> int:
    """The nearest integer, a half rounded up."""
    return (value + Fraction(1, 2)).__floor__()
