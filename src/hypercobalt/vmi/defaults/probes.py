"""Defaults of probes."""

from __future__ import annotations

from typing import Final

from hypercobalt.vmi.defaults.members import given
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import JsonObject

_VALUES: Final = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}


def apply(spec: JsonObject) -> None:
    """Fill in times and thresholds of the probes that are there."""
    for name in ("livenessProbe", "readinessProbe"):
        probe = given(spec, name)
        if probe is not None:
            for field, value in _VALUES.items():
                if At(probe)[field].number <= 0:
                    probe[field] = value
