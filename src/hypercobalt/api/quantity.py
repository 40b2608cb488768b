"""Kubernetes quantities: an exact number with a suffix, such as `24560Mi` or `1500m`.

A quantity is an integer count of nanos and the notation it was written in. Text from the wire is
kept as it came and parsed only when the number is needed, because an informer holds many
thousand quantities and compares few of them. Beyond nano a value is rounded away from zero.

The canonical form is the documented one. Go keeps some texts that only look canonical (`+1`,
`4.798M`), reads a suffix without digits as zero, and up to Kubernetes 1.36 loses the exponent of
`1000E`; we do not.

Source: k8s.io/apimachinery, pkg/api/resource (quantity.go, suffix.go, amount.go).
"""

from __future__ import annotations

import re
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Final

from hypercobalt.errors import HypercobaltError

PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?"
    r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
"""The pattern in the schema of a quantity, as controller-gen writes it."""

_NANOS: Final = 10**9
_MOST: Final = 2**63 - 1
_MAX_BINARY: Final = _MOST * _NANOS
_MAX_DIGITS: Final = 1000  # a longer number or exponent is an attack, not an amount
_TEXT = re.compile(
    r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE])|[eE]([+-]?[0-9]{1,9}))?",
    re.ASCII,
)
_DECIMAL: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX: Final = {exponent: suffix for suffix, exponent in _BINARY.items()}


class QuantityError(HypercobaltError, ValueError):
    """Text that is no quantity."""


class Format(StrEnum):
    """The notation that the canonical form uses."""

    DECIMAL_SI = "DecimalSI"  # 12e6 is 12M
    BINARY_SI = "BinarySI"  # 12Mi
    DECIMAL_EXPONENT = "DecimalExponent"  # 12e6


class Quantity:
    """An exact amount. Immutable; equal and hashed by value, whatever the notation.

    `str()` gives the canonical form. A quantity decoded from the wire is written back as it was.
    """

    __slots__ = ("_format", "_nanos", "_wire")

    _wire: str | None
    _nanos: int | None
    _format: Format

    def __init__(self, value: str | int) -> None:
        """Read a quantity.

        Args:
            value: quantity text, or a whole number of units.

        Raises:
            QuantityError: the text is no quantity.
        """
        self._wire = None
        self._nanos, self._format = _parse(str(value))

    @classmethod
    def lazy(cls, wire: str) -> Quantity:
        """Hold text from the wire without looking at it; a fault in it shows on first use."""
        return cls.__new__(cls)._hold(wire, None, Format.DECIMAL_SI)  # noqa: SLF001 - own class

    @classmethod
    def of(cls, value: int | Fraction, format_: Format = Format.DECIMAL_SI) -> Quantity:
        """A quantity of `value` units in the given notation, rounded away from zero at nano."""
        return cls._exact(_round_up(Fraction(value) * _NANOS), format_)

    @classmethod
    def of_bytes(cls, count: int) -> Quantity:
        """A number of bytes, with a binary suffix where one fits."""
        return cls._exact(count * _NANOS, Format.BINARY_SI)

    @classmethod
    def _exact(cls, nanos: int, format_: Format) -> Quantity:
        return cls.__new__(cls)._hold(None, nanos, format_)  # noqa: SLF001 - own class

    def _hold(self, wire: str | None, nanos: int | None, format_: Format) -> Quantity:
        self._wire, self._nanos, self._format = wire, nanos, format_
        return self

    @property
    def nanos(self) -> int:
        """The exact value, in billionths of a unit.

        Raises:
            QuantityError: the text from the wire is no quantity.
        """
        if self._nanos is None:
            self._nanos, self._format = _parse(self._wire or "")
        return self._nanos

    @property
    def format(self) -> Format:
        """The notation, as read."""
        _ = self.nanos  # parses
        return self._format

    @property
    def value(self) -> int:
        """Whole units, rounded away from zero."""
        return _round_up(Fraction(self.nanos, _NANOS))

    @property
    def wire(self) -> str:
        """The text to write: as it was read, or canonical."""
        return str(self) if self._wire is None else self._wire

    def as_fraction(self) -> Fraction:
        return Fraction(self.nanos, _NANOS)

    def times_floor(self, ratio: float | Fraction) -> Quantity:
        """Whole units of this times `ratio`, rounded down, in the same notation.

        A float counts as the shortest decimal that it prints as: 1.1 is eleven tenths.
        """
        factor = Fraction(Decimal(repr(ratio))) if isinstance(ratio, float) else Fraction(ratio)
        units = Fraction(self.nanos, _NANOS) * factor
        return Quantity._exact(units.__floor__() * _NANOS, self.format)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity._exact(self.nanos + other.nanos, _common_format(self, other))

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity._exact(self.nanos - other.nanos, _common_format(self, other))

    def __neg__(self) -> Quantity:
        return Quantity._exact(-self.nanos, self.format)

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        if self._wire is not None and self._wire == other._wire:
            return True
        try:
            return self.nanos == other.nanos
        except QuantityError:  # comparing what a server holds must not fail on a bad object
            return False

    def __hash__(self) -> int:
        try:
            return hash(self.nanos)
        except QuantityError:
            return hash(self._wire)

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: Quantity) -> bool:
        return self.nanos <= other.nanos

    def __gt__(self, other: Quantity) -> bool:
        return self.nanos > other.nanos

    def __ge__(self, other: Quantity) -> bool:
        return self.nanos >= other.nanos

    def __str__(self) -> str:
        return _canonical(self.nanos, self.format)

    def __repr__(self) -> str:
        return f"Quantity({self.wire!r})"


@lru_cache(maxsize=4096)
def from_wire(value: str | int | float) -> Quantity:
    """The quantity for a JSON string or number; equal texts share one object and one parse."""
    return Quantity.lazy(str(value))


def units(given: Quantity | None) -> Fraction:
    """The units of an amount that a host has written, from 0 to 2**63 - 1.

    An amount that is absent, below zero or cannot be read is 0: a schema's pattern lets pass what
    is beyond every number, and one host's text must not end a look at all hosts.
    """
    try:
        found = Fraction(0) if given is None else given.as_fraction()
    except QuantityError:
        return Fraction(0)
    return min(max(found, Fraction(0)), Fraction(_MOST))


def _parse(text: str) -> tuple[int, Format]:
    """Read quantity text into nanos and notation."""
    found = _TEXT.fullmatch(text)
    if found is None or len(text) > _MAX_DIGITS:
        raise QuantityError(
            f"quantity {text[:64]!r}: must be a number, with a suffix such as m, k, Mi or e3 if any"
        )
    sign, whole, fraction, suffix, exponent = found.groups()
    fraction = fraction or ""
    if not whole and not fraction:
        raise QuantityError(f"quantity {text[:64]!r}: has no digits")
    if exponent is not None and abs(int(exponent)) > _MAX_DIGITS:
        raise QuantityError(f"quantity {text!r}: exponent beyond {_MAX_DIGITS}")
    digits = int(whole + fraction)
    if suffix in _BINARY:
        nanos, format_ = _binary(Fraction(digits << _BINARY[suffix], 10 ** len(fraction)))
    else:
        power = _DECIMAL[suffix or ""] if exponent is None else int(exponent)
        nanos = _round_up(digits * Fraction(10) ** (power - len(fraction) + 9))
        format_ = Format.DECIMAL_SI if exponent is None else Format.DECIMAL_EXPONENT
    return (-nanos if sign == "-" else nanos), format_


def _binary(units: Fraction) -> tuple[int, Format]:
    nanos = min(_round_up(units * _NANOS), _MAX_BINARY)
    # Kubernetes does not show a fraction of one byte in a binary notation.
    return nanos, Format.DECIMAL_SI if 0 < nanos < _NANOS else Format.BINARY_SI


def _canonical(nanos: int, format_: Format) -> str:
    """The shortest exact text with no fraction and the largest fitting suffix."""
    if nanos == 0:
        return "0"
    if format_ is Format.BINARY_SI and abs(nanos) >= 1024 * _NANOS and nanos % _NANOS == 0:
        number, power = _strip(nanos // _NANOS, 1024, limit=6)
        return f"{number}{_BINARY_SUFFIX.get(10 * power, '')}"
    number, power = _strip(nanos, 10, limit=None)
    exponent = power - 9
    number, exponent = number * 10 ** (exponent % 3), exponent - exponent % 3
    if format_ is Format.DECIMAL_EXPONENT or exponent not in _DECIMAL_SUFFIX:
        return f"{number}e{exponent}" if exponent else str(number)
    return f"{number}{_DECIMAL_SUFFIX[exponent]}"


def _strip(number: int, factor: int, *, limit: int | None) -> tuple[int, int]:
    """Divide by `factor` as often as it goes, at most `limit` times: (what is left, how often)."""
    power = 0
    while number % factor == 0 and power != limit:
        number //= factor
        power += 1
    return number, power


def _round_up(value: Fraction) -> int:
    """The integer at or next to `value`, away from zero."""
    return value.__ceil__() if value >= 0 else value.__floor__()


def _common_format(left: Quantity, right: Quantity) -> Format:
    """The left one's notation, as in Kubernetes, unless it is zero and so has none."""
    return left.format if left else right.format
