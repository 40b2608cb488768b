"""The Evictions of the cluster, and for whose sake a host takes no new servers.

Source: the concept's "Eviction reasons", of what is enabled again after an Eviction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from hypercobalt.api.eviction import Eviction, Trigger, has_ended
from hypercobalt.operator.shared.evictions import is_whole
from hypercobalt.runtime.write_cache import WriteCache

REASON: Final = "openstack-hypervisor-operator maintenance"
"""Of the Evictions that a maintenance has made."""

_LASTING: Final = frozenset({Trigger.NODE_FAILURE, Trigger.MEMORY_FAILURE, Trigger.TERMINATION})
"""A host that failed is put right first, one that is to go does not come back."""


@dataclass(frozen=True, slots=True)
class Evictions:
    """The Evictions of the cluster.

    Args:
        newest: by name.
        of: those of a Hypervisor, by its name.
    """

    newest: WriteCache[Eviction]
    of: Callable[[str], Iterable[Eviction]]


def keeps_disabled(evictions: Iterable[Eviction]) -> Eviction | None:
    """The Eviction for whose sake the host takes no new servers, maintenance or not.

    That is one that empties the whole host, until it has ended or is deleted; until it is deleted
    if what led to it is not over when the host is empty. One that only restarts instances in place
    does not count, nor do those that a maintenance has made: the maintenance disables the host.
    """
    return next(filter(_disables, evictions), None)


def _disables(eviction: Eviction) -> bool:
    spec, going = eviction.spec, eviction.metadata.deletionTimestamp is not None
    over = has_ended(eviction.status) and spec.trigger not in _LASTING
    return is_whole(eviction) and spec.reason != REASON and not (over or going)
