"""Whether high availability of one host is switched off, and by which setting. Pure.

`spec.highAvailability` belongs to people or the Node. A controller that used to switch the existing
HA service on and off writes an annotation instead; both must allow high availability.
"""

from __future__ import annotations

from typing import Final

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.truth import is_no

HA_ENABLED: Final = "kvm.cloud.sap/ha-enabled"
"""Annotation of a Hypervisor: a no is off; a yes, as anything else, leaves it to the spec."""


PAUSE: Final = "kvm.cloud.sap/pause-recovery"
"""Annotation of a Hypervisor: nothing automatic is done about it; the value is why, for people.

A no does not pause it: people who write `=false` end the pause.
"""


def recovery_off(hypervisor: Hypervisor) -> str:
    """Why the host is not recovered when it fails; "" while its recovery is on."""
    spec, notes = hypervisor.spec, hypervisor.metadata.annotations
    if is_paused(hypervisor):
        return f"recovery is paused by the annotation {PAUSE}: {notes[PAUSE] or 'no reason given'}"
    if not spec.highAvailability:
        return "spec.highAvailability is false"
    if why := switched_off(hypervisor):
        return why
    return "" if spec.lifecycleEnabled else "spec.lifecycleEnabled is false"


def is_paused(hypervisor: Hypervisor) -> bool:
    """Whether a person has paused its recovery."""
    text = hypervisor.metadata.annotations.get(PAUSE)
    return text is not None and not is_no(text)


def switched_off(hypervisor: Hypervisor) -> str:
    """Why high availability is off even if the spec enables it; "" when it is not."""
    if is_no(hypervisor.metadata.annotations.get(HA_ENABLED)):
        return f"the annotation {HA_ENABLED} is false"
    return ""
