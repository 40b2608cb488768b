"""The Eviction of all instances of a host that has failed."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Final

from hypercobalt.api.eviction import (
    Eviction,
    EvictionMode,
    EvictionReason,
    EvictionSpec,
    Trigger,
    evicting,
    has_ended,
)
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta, owner_reference
from hypercobalt.operator.shared.evictions import PREFIX

_LONGEST: Final = 200  # characters of a host's name in that of the Eviction


def recovery(hypervisor: Hypervisor, mode: EvictionMode, since: datetime | None) -> Eviction:
    """Return the Eviction of one failure: the same failure has the same name.

    Owned by a Hypervisor that is deleted in the foreground, it would be deleted at once.

    Args:
        hypervisor: of the host.
        mode: evacuate for a host that is proven dead, live for one that lives.
        since: when the host became unhealthy.
    """
    host = hypervisor.metadata.name
    key = f"{host} {hypervisor.status.bootID} {since.isoformat() if since else ''} {mode}"
    digest = hashlib.sha256(key.encode()).hexdigest()[:8]
    going = hypervisor.metadata.deletionTimestamp is not None
    owners = () if going else (owner_reference(hypervisor, controller=True, blocks=True),)
    what = "is proven dead" if mode is EvictionMode.EVACUATE else "is not Ready, but alive"
    return Eviction(
        metadata=ObjectMeta(name=f"{PREFIX}{host[:_LONGEST]}-{digest}", ownerReferences=owners),
        spec=EvictionSpec(
            hypervisor=host,
            reason=f"High availability: the host {what}",
            trigger=Trigger.NODE_FAILURE,
            mode=mode,
        ),
    )


def succeeded(eviction: Eviction) -> bool:
    """Whether the Eviction has ended successfully."""
    condition = evicting(eviction.status)
    return condition is not None and condition.reason == EvictionReason.SUCCEEDED


def failed_before(eviction: Eviction, moment: datetime) -> bool:
    """Whether the Eviction has ended before a moment without success."""
    condition = evicting(eviction.status)
    ended = has_ended(eviction.status) and not succeeded(eviction)
    return ended and condition is not None and condition.lastTransitionTime <= moment


def was_made_by(eviction: Eviction, moment: datetime) -> bool:
    """Whether the Eviction was made at a moment or before it."""
    made = eviction.metadata.creationTimestamp
    return made is not None and made <= moment
