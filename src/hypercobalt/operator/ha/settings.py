"""Settings of a site for high availability."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Final

from hypercobalt.ha.fencing import Pace
from hypercobalt.ha.guard import Limits
from hypercobalt.ha.node_failure import Waits
from hypercobalt.operator.node_facts import ZONE_LABEL

DOMAIN_LABELS: Final = (ZONE_LABEL, "kubernetes.metal.cloud.sap/bb")


class HaMode(StrEnum):
    """Which component reacts to failures of hosts."""

    INTERNAL = "internal"
    """This operator: it sets maintenance `ha`, fences, evacuates and takes hosts back."""
    EXTERNAL = "external"
    """Another service sets maintenance `ha`; the operator does not act on such a host."""
    OFF = "off"
    """None: failures are reported only."""


@dataclass(frozen=True, slots=True)
class HaSettings:
    """Settings of the HA service; the flags of `cobalt operator` set them.

    Args:
        mode: see there.
        waits: how long signs must last.
        limits: of the gates.
        pace: of attempts to fence.
        domain_labels: labels of Hypervisors whose values are failure domains; aggregates are, too.
        poll: between two looks at a host that is unwell: most signs send no event.
        reboots: a host that was fenced wrongly, and is empty, is rebooted by its fence device.
        again: after an Eviction of a host that is still unwell has failed, until another is made.
    """

    mode: HaMode = HaMode.EXTERNAL
    waits: Waits = field(default_factory=Waits)
    limits: Limits = field(default_factory=Limits)
    pace: Pace = field(default_factory=Pace)
    domain_labels: tuple[str, ...] = DOMAIN_LABELS
    poll: timedelta = timedelta(seconds=5)
    reboots: bool = True
    again: timedelta = timedelta(minutes=10)
