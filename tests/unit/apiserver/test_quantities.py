"""Quantities are written back in canonical form."""

from __future__ import annotations

import pytest

from hypercobalt.apiserver.kinds.quantities import canonical


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("1000m", "1"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("1000Mi", "1000Mi"),
        ("-1500m", "-1500m"),
        ("12345e2", "1234500"),
        ("1E6", "1e6"),
        ("0", "0"),
        ("many", "many"),
        ("1e999999999", "1e999999999"),
    ],
)
def test_quantity_is_stored_in_canonical_form(written: str, stored: str) -> None:
    assert canonical(written) == stored
