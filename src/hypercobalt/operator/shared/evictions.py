"""Evictions, for several controllers: the host of each, and the one that recovers a host."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from hypercobalt.api.eviction import Eviction, EvictionMode, Trigger, has_ended

PREFIX: Final = "ha-"
"""Beginning of the names of recovery Evictions."""

FINALIZER: Final = "kvm.cloud.sap/recovery"
"""Keeps the Hypervisor of a silent or dead host, whose Node was deleted, until its instances run
elsewhere: the boot to be fenced, the proof, the Eviction and the definitions of the instances would
go with it."""

BY_HYPERVISOR: Final = "hypervisor"
"""Index of Evictions."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def is_whole(eviction: Eviction) -> bool:
    """Whether all instances of its host have to leave, as far as they can in its mode."""
    return not eviction.spec.instances and eviction.spec.mode != EvictionMode.RESTART


def is_recovery(eviction: Eviction) -> bool:
    """Whether the HA service has made the Eviction for a host that has failed."""
    return (
        eviction.metadata.name.startswith(PREFIX)
        and eviction.spec.trigger == Trigger.NODE_FAILURE
        and is_whole(eviction)
    )


def present(evictions: Iterable[Eviction]) -> Eviction | None:
    """Return the one that recovers the host now: one that runs, else the newest; None for none.

    A host that failed again before it was given back has one for each failure.
    """

    def rank(one: Eviction) -> tuple[bool, datetime]:
        return not has_ended(one.status), one.metadata.creationTimestamp or _EPOCH

    ours = (one for one in evictions if is_recovery(one))
    return max((o for o in ours if o.metadata.deletionTimestamp is None), key=rank, default=None)


def hypervisor_of(eviction: Eviction) -> Iterable[str]:
    """Index function of `BY_HYPERVISOR`."""
    return (eviction.spec.hypervisor,)
