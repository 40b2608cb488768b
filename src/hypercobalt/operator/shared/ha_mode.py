"""Who reacts to failures of hosts at a site."""

from __future__ import annotations

from enum import StrEnum


class HaMode(StrEnum):
    """Which component reacts to failures of hosts."""

    INTERNAL = "internal"
    """This operator: it sets maintenance `ha`, fences, evacuates and takes hosts back."""
    EXTERNAL = "external"
    """Another service sets maintenance `ha`; the operator does not act on such a host."""
    OFF = "off"
    """None: failures are reported only."""
