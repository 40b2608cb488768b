"""What a step reads of a Hypervisor: it decides which changes of others lead to a pass. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.hypervisor import Hypervisor

When = Callable[[Hypervisor], bool]
"""Whether a field matters of a host in its present state."""


@dataclass(frozen=True, slots=True)
class Reads:
    """Everything of a Hypervisor that a step may decide by.

    Its name, uid, owners and time of creation never change, and count as read.

    Args:
        conditions: types; a change of status or reason counts, one of the message does not.
        fields: as paths, `spec.maintenance`; an absent one counts as an empty one.
        labels: keys.
        at_times: fields that matter in some states of a host only, and else change too often.
    """

    conditions: frozenset[str] = frozenset()
    fields: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    at_times: Mapping[str, When] = field(default_factory=dict[str, When])


class Inputs:
    """What all steps together read."""

    def __init__(self, reads: Iterable[Reads]) -> None:
        every = tuple(reads)
        self._conditions = sorted({type_ for one in every for type_ in one.conditions})
        self._labels = sorted({key for one in every for key in one.labels})
        self._fields = [attrgetter(path) for path in sorted({p for r in every for p in r.fields})]
        self._at_times = [
            (attrgetter(path), when) for one in every for path, when in one.at_times.items()
        ]

    def of(self, hypervisor: Hypervisor) -> tuple[object, ...]:
        """What the steps read of a host: while it is equal, a pass would do nothing new."""
        found = [get_condition(hypervisor.conditions, type_) for type_ in self._conditions]
        labels = hypervisor.metadata.labels
        return (
            *((one.type, one.status, one.reason) for one in found if one is not None),
            *(labels.get(key) for key in self._labels),
            *(get(hypervisor) or None for get in self._fields),
            *(when(hypervisor) and (get(hypervisor) or None) for get, when in self._at_times),
        )
