"""Settings of a site for high availability."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from hypercobalt.ha.host_failure.fencing import AttemptPace
from hypercobalt.ha.host_failure.guard import GateLimits
from hypercobalt.ha.host_failure.node_failure import Waits
from hypercobalt.operator.shared.ha_mode import HaMode
from hypercobalt.operator.shared.node_facts import ZONE_LABEL

DOMAIN_LABELS: Final = (ZONE_LABEL, "kubernetes.metal.cloud.sap/bb")


@dataclass(frozen=True, slots=True)
class HaSettings:
    """Settings of the HA service; the flags of `cobalt operator` set them.

    Args:
        mode: see there.
        waits: how long signs must last.
        limits: of the gates.
        pace: of attempts to fence.
        domain_labels: labels of Hypervisors whose values are failure domains; aggregates are, too.
        poll: interval between two reads of a host that is unwell: most signs send no event.
        reboots: a host that was fenced wrongly, and is empty, is rebooted by its fence device.
        again: time from a failed Eviction of a host that is still unwell until another is made.
    """

    mode: HaMode = HaMode.EXTERNAL
    waits: Waits = field(default_factory=Waits)
    limits: GateLimits = field(default_factory=GateLimits)
    pace: AttemptPace = field(default_factory=AttemptPace)
    domain_labels: tuple[str, ...] = DOMAIN_LABELS
    poll: timedelta = timedelta(seconds=5)
    reboots: bool = True
    again: timedelta = timedelta(minutes=10)
