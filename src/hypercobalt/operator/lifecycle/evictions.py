"""The Evictions of the cluster, and the one for which a host takes no new servers.

Source: the concept's "Eviction reasons", about hosts that are enabled again after an Eviction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from hypercobalt.api.eviction import Eviction, Trigger, has_ended
from hypercobalt.operator.shared.evictions import is_whole
from hypercobalt.runtime.write_cache import WriteCache

REASON: Final = "openstack-hypervisor-operator maintenance"
"""Reason of the Evictions that a maintenance has made."""

_LASTING: Final = frozenset({Trigger.NODE_FAILURE, Trigger.MEMORY_FAILURE, Trigger.TERMINATION})
"""Triggers that outlast an Eviction: a failed host is repaired first, a leaving one stays away."""


@dataclass(frozen=True, slots=True)
class Evictions:
    """The Evictions of the cluster.

    Args:
        newest: by name.
        of: returns the Evictions of a Hypervisor, by its name.
    """

    newest: WriteCache[Eviction]
    of: Callable[[str], Iterable[Eviction]]


def keeps_disabled(evictions: Iterable[Eviction]) -> Eviction | None:
    """Return the Eviction for which the host takes no new servers, maintenance or not.

    This is an Eviction that empties the whole host, until it has ended or is deleted; until it is
    deleted if its cause is not over when the host is empty. An Eviction that only restarts
    instances in place does not count, nor does one that a maintenance has made: the maintenance
    disables the host.
    """
    return next(filter(_disables, evictions), None)


def _disables(eviction: Eviction) -> bool:
    spec, going = eviction.spec, eviction.metadata.deletionTimestamp is not None
    over = has_ended(eviction.status) and spec.trigger not in _LASTING
    return is_whole(eviction) and spec.reason != REASON and not (over or going)
