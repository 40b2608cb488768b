"""Fields that a step reads of a Hypervisor: their changes by others lead to a pass. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.hypervisor import Hypervisor

When = Callable[[Hypervisor], bool]
"""Whether a field of a host matters in its present state."""


@dataclass(frozen=True, slots=True)
class Reads:
    """All fields of a Hypervisor that a step may decide by.

    Its name, uid, owners and time of creation never change, and count as read.

    Args:
        conditions: types; a change of status or reason counts, one of the message does not.
        fields: as paths, `spec.maintenance`; an absent one counts as an empty one.
        labels: keys.
        annotations: keys.
        at_times: fields, or types of conditions, that matter in some states of a host only.
    """

    conditions: frozenset[str] = frozenset()
    fields: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    annotations: frozenset[str] = frozenset()
    at_times: Mapping[str, When] = field(default_factory=dict[str, When])


class Inputs:
    """Fields that all steps together read."""

    def __init__(self, reads: Iterable[Reads]) -> None:
        every = tuple(reads)
        names = {name for one in every for name in (*one.conditions, *one.fields)}
        self._labels = sorted({key for one in every for key in one.labels})
        self._annotations = sorted({key for one in every for key in one.annotations})
        self._always = [_getter(name) for name in sorted(names)]
        self._at_times = [
            (_getter(name), when) for one in every for name, when in one.at_times.items()
        ]

    def of(self, hypervisor: Hypervisor) -> tuple[object, ...]:
        """Return the values that the steps read of one host, in a fixed order."""
        labels, annotations = hypervisor.metadata.labels, hypervisor.metadata.annotations
        return (
            *(labels.get(key) for key in self._labels),
            *(annotations.get(key) for key in self._annotations),
            *(get(hypervisor) for get in self._always),
            *(get(hypervisor) if when(hypervisor) else None for get, when in self._at_times),
        )


def _getter(name: str) -> Callable[[Hypervisor], object]:
    """Return a getter for a field by its path, or a condition's status and reason by its type."""
    if "." in name:
        field_of = attrgetter(name)
        return lambda hypervisor: field_of(hypervisor) or None

    def state(hypervisor: Hypervisor) -> object:
        found = get_condition(hypervisor.conditions, name)
        return (found.status, found.reason) if found is not None else None

    return state


class LastPass:
    """Values that the steps read of one host, before and after the last pass over it.

    Args:
        found: before.
    """

    __slots__ = ("_found", "_left", "_meanwhile", "_version")

    def __init__(self, found: tuple[object, ...]) -> None:
        self._found, self._left = found, found
        self._version: int | None = None
        self._meanwhile: list[tuple[object, ...]] = []

    def is_news(self, inputs: tuple[object, ...], version: int) -> bool:
        """Whether a state of the object leads to another pass; during one, `end` gives that.

        A state that the pass's own write has replaced may have some things as found and others as
        left: what the pass wrote on its way, and what others wrote meanwhile.
        """
        if self._version is None:
            self._meanwhile.append(inputs)
            return False
        if version < self._version:
            return self._adds(inputs)
        if inputs != self._left:
            return True
        self._found = self._left = inputs  # equal, but of an object that is kept anyhow
        return False

    def leave(self, left: tuple[object, ...]) -> None:
        """Note what the pass is about to write."""
        self._left = left

    def end(self, version: int) -> bool:
        """Note the version that the pass has written, and return whether others wrote meanwhile."""
        self._version = version
        return any(self._adds(inputs) for inputs in self._meanwhile)

    def _adds(self, inputs: tuple[object, ...]) -> bool:
        known = zip(inputs, self._found, self._left, strict=True)
        return any(one not in (found, left) for one, found, left in known)
