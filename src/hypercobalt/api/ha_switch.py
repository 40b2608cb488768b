"""High availability of one host, switched by another controller: an annotation of its Hypervisor.

`spec.highAvailability` is a person's, or the Node's. A controller that used to switch the existing
HA service on and off keeps its wish apart from that, and both must allow high availability.
"""

from __future__ import annotations

from typing import Final

from hypercobalt.api.hypervisor import Hypervisor

HA_ENABLED: Final = "kvm.cloud.sap/ha-enabled"
"""Annotation of a Hypervisor: `false` is off; `true`, as anything else, leaves it to the spec."""


def switched_off(hypervisor: Hypervisor) -> str:
    """Why high availability is off though the spec may want it; "" when it is not."""
    if hypervisor.metadata.annotations.get(HA_ENABLED) == "false":
        return f"the annotation {HA_ENABLED} is false"
    return ""
