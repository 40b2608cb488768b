"""Quantities, checked against exact fractions."""

from __future__ import annotations

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.api.quantity import PATTERN, Format, Quantity, QuantityError, from_wire, units

NANO = Fraction(1, 10**9)
DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

CANONICAL = [
    ("0", "0"),
    ("0Mi", "0"),
    ("-0.0k", "0"),
    ("1", "1"),
    ("+1", "1"),
    ("007", "7"),
    (".5", "500m"),
    ("5.", "5"),
    ("0.5", "500m"),
    ("1.5", "1500m"),
    ("1500m", "1500m"),
    ("1000m", "1"),
    ("100000m", "100"),
    ("1000", "1k"),
    ("1000k", "1M"),
    ("12345", "12345"),
    ("1234500", "1234500"),
    ("1n", "1n"),
    ("0.1n", "1n"),
    ("-0.1n", "-1n"),
    ("1.0000000001", "1000000001n"),
    ("1u", "1u"),
    ("1E", "1E"),
    ("1000E", "1e21"),
    ("1Ki", "1Ki"),
    ("1024Ki", "1Mi"),
    ("1.5Gi", "1536Mi"),
    ("0.5Ki", "512"),
    ("1000Ki", "1000Ki"),
    ("24560Mi", "24560Mi"),
    ("0.0001Ki", "102400u"),
    ("1.0001Ki", "1024102400u"),
    ("8Ei", str(2**63 - 1)),
    ("-1.5Gi", "-1536Mi"),
    ("1e3", "1e3"),
    ("1E3", "1e3"),
    ("1e+3", "1e3"),
    ("12e6", "12e6"),
    ("1.5e3", "1500"),
    ("1e-3", "1e-3"),
    ("1e4", "10e3"),
    ("1e0", "1"),
    ("100e-1", "10"),
]


@pytest.mark.parametrize(("text", "canonical"), CANONICAL)
def test_canonical_form_is_that_of_kubernetes(text: str, canonical: str) -> None:
    assert str(Quantity(text)) == canonical


@pytest.mark.parametrize(
    "text",
    ["", " ", "Mi", "1 Mi", "1mi", "1Kb", "1.2.3", "--1", "1e", "1E+", "1e1.5", "e3", ".", "1k1",
     "0x1", "\u0661", "1,5", "NaN", "Inf", "1_000", "1\n", "1e99999", "9" * 2000],
)  # fmt: skip
def test_text_that_is_no_quantity_is_refused_by_name(text: str) -> None:
    with pytest.raises(QuantityError, match=r"^quantity "):
        Quantity(text)


@pytest.mark.parametrize(
    ("text", "format_"),
    [
        ("1", Format.DECIMAL_SI),
        ("1k", Format.DECIMAL_SI),
        ("1Mi", Format.BINARY_SI),
        ("1e3", Format.DECIMAL_EXPONENT),
        ("0.0001Ki", Format.DECIMAL_SI),
    ],
)
def test_notation_is_kept(text: str, format_: Format) -> None:
    assert Quantity(text).format is format_


@pytest.mark.parametrize(
    ("left", "right", "total"),
    [
        ("1Gi", "512Mi", "1536Mi"),
        ("1", "500m", "1500m"),
        ("0", "1Gi", "1Gi"),
        ("1Gi", "1M", str(2**30 + 10**6)),
        ("1M", "1Ki", "1001024"),
        ("1e3", "1k", "2e3"),
    ],
)
def test_sum_has_the_notation_of_the_left_one_unless_that_is_zero(
    left: str, right: str, total: str
) -> None:
    assert str(Quantity(left) + Quantity(right)) == total


@pytest.mark.parametrize(
    ("amount", "ratio", "floored"),
    [
        ("10", 1.1, "11"),
        ("100", 1.15, "115"),
        ("7", 1.5, "10"),
        ("3", Fraction(1, 3), "1"),
        ("24560Mi", 1.0, "24560Mi"),
        ("24560Mi", 1.5, "36840Mi"),
        ("1500m", 1.0, "1"),
        ("-3", 0.5, "-2"),
    ],
)
def test_times_a_ratio_is_floored_to_whole_units(
    amount: str, ratio: float | Fraction, floored: str
) -> None:
    assert str(Quantity(amount).times_floor(ratio)) == floored


@pytest.mark.parametrize(
    ("text", "value"), [("1500m", 2), ("-1500m", -2), ("1Ki", 1024), ("1n", 1), ("0", 0)]
)
def test_whole_values_round_away_from_zero(text: str, value: int) -> None:
    assert Quantity(text).value == value


def test_constructors_choose_the_notation() -> None:
    assert str(Quantity.of_bytes(2**30)) == "1Gi"
    assert str(Quantity(2**30)) == "1073741824"
    assert str(Quantity.of(Fraction(1, 3))) == "333333334n"
    assert str(Quantity.of(1000, Format.DECIMAL_EXPONENT)) == "1e3"


def test_equal_amounts_are_equal_in_any_notation() -> None:
    same = {Quantity("1Ki"), Quantity("1024"), Quantity("1.024k"), from_wire("1024")}
    assert len(same) == 1
    assert Quantity("1") != Quantity("2")
    assert Quantity("1") != "1"


def test_wire_text_is_kept_until_a_calculation() -> None:
    held = from_wire("1.5Gi")
    assert held.wire == "1.5Gi"
    assert str(held) == "1536Mi"
    assert (held + Quantity("0")).wire == "1536Mi"
    assert from_wire(8).wire == "8"


def test_a_bad_quantity_on_the_wire_fails_only_when_it_is_read() -> None:
    held = Quantity.lazy("rubbish")
    assert held == Quantity.lazy("rubbish")
    assert held != Quantity("1")
    assert held in {held}
    assert held.wire == "rubbish"
    with pytest.raises(QuantityError, match="rubbish"):
        _ = held.value


decimals = st.decimals(
    min_value=-(10**12), max_value=10**12, places=9, allow_nan=False, allow_infinity=False
)
suffixes = st.sampled_from(sorted({**DECIMAL, **BINARY}))


def oracle(number: Fraction, suffix: str) -> Fraction:
    """The value, rounded to nano away from zero and capped as binary values are."""
    scale = Fraction(2) ** BINARY[suffix] if suffix in BINARY else Fraction(10) ** DECIMAL[suffix]
    nanos = abs(number * scale) / NANO
    magnitude = nanos.__ceil__() * NANO
    if suffix in BINARY:
        magnitude = min(magnitude, Fraction(2**63 - 1))
    return magnitude if number >= 0 else -magnitude


@given(decimals, suffixes)
def test_any_number_with_any_suffix_has_its_exact_value(number: object, suffix: str) -> None:
    text = f"{number:f}{suffix}"
    assert Quantity(text).as_fraction() == oracle(Fraction(str(number)), suffix)


@given(decimals, suffixes)
def test_canonical_form_reads_back_to_the_same_value(number: object, suffix: str) -> None:
    quantity = Quantity(f"{number:f}{suffix}")
    again = Quantity(str(quantity))
    assert again == quantity
    assert hash(again) == hash(quantity)
    assert str(again) == str(quantity)
    assert "." not in str(quantity)


@given(decimals, st.integers(-20, 20))
def test_exponents_have_their_exact_value(number: object, exponent: int) -> None:
    quantity = Quantity(f"{number:f}e{exponent}")
    nanos = abs(Fraction(str(number)) * Fraction(10) ** exponent) / NANO
    assert abs(quantity.as_fraction()) == nanos.__ceil__() * NANO
    assert Quantity(str(quantity)) == quantity


@given(decimals, suffixes, decimals, suffixes)
def test_arithmetic_and_order_are_those_of_fractions(
    left: object, left_suffix: str, right: object, right_suffix: str
) -> None:
    a, b = Quantity(f"{left:f}{left_suffix}"), Quantity(f"{right:f}{right_suffix}")
    x, y = a.as_fraction(), b.as_fraction()
    assert (a + b).as_fraction() == x + y
    assert (a - b).as_fraction() == x - y
    assert (-a).as_fraction() == -x
    assert (a < b, a <= b, a > b, a >= b, a == b) == (x < y, x <= y, x > y, x >= y, x == y)
    assert bool(a) == bool(x)


@given(decimals, suffixes, st.fractions(min_value=1, max_value=100, max_denominator=1000))
def test_floored_product_is_within_one_unit_below(
    number: object, suffix: str, ratio: Fraction
) -> None:
    quantity = Quantity(f"{number:f}{suffix}")
    product = quantity.times_floor(ratio).as_fraction()
    assert product.denominator == 1
    assert product <= quantity.as_fraction() * ratio < product + 1


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(QuantityError):
        Quantity(text)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("16Gi", 16 * 2**30),
        ("1500m", Fraction(3, 2)),
        ("-5", 0),
        ("1e999999999", 0),
        ("1e1.5", 0),
        ("9" * 2000, 0),
        ("1e400", 2**63 - 1),
    ],
)
def test_amount_of_a_host_is_between_zero_and_the_largest_number(
    text: str, amount: Fraction
) -> None:
    assert units(Quantity.lazy(text)) == amount
    assert units(None) == 0


@given(st.from_regex(PATTERN, fullmatch=True))
def test_any_amount_that_a_schema_lets_pass_can_be_counted_with(text: str) -> None:
    assert 0 <= float(units(Quantity.lazy(text))) <= 2**63
