"""What the HA agent remembers of every instance; the concerns of the room meet here.

Single-threaded, on the event loop. What is stored is immutable, so a change is seen by comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta

from hypercobalt.ha.incidents.cases import Case, InstanceRecord, Step
from hypercobalt.ha.incidents.clock import set_back
from hypercobalt.ha.incidents.signals import HOST
from hypercobalt.runtime.observable import Observable

Handler = Callable[[InstanceRecord, InstanceRecord], None]


class Store:
    """All of them by UUID, the host as `HOST`.

    Attributes:
        changes: a new object after every change.
    """

    def __init__(self) -> None:
        self._known: dict[str, InstanceRecord] = {HOST: InstanceRecord(uuid=HOST)}
        self._handlers: list[Handler] = []
        self.changes = Observable(object())

    @property
    def known(self) -> Mapping[str, InstanceRecord]:
        """Everything."""
        return self._known

    @property
    def host(self) -> InstanceRecord:
        """What is remembered of the host itself."""
        return self._known[HOST]

    def get(self, uuid: str) -> InstanceRecord:
        """One instance; of one that is new, nothing is known."""
        return self._known.get(uuid) or InstanceRecord(uuid=uuid)

    def on_change(self, handler: Handler) -> None:
        """Have a handler called with an instance before and after each change of it."""
        self._handlers.append(handler)

    def put(self, instance: InstanceRecord) -> None:
        """Remember an instance as it is now."""
        before = self.get(instance.uuid)
        if before != instance or instance.uuid not in self._known:
            self._known[instance.uuid] = instance
            self._changed(before, instance)

    def drop(self, uuid: str) -> None:
        """Forget an instance that is no longer here."""
        if before := self._known.pop(uuid, None):
            self._changed(before, InstanceRecord(uuid=uuid))

    def cases(self, *steps: Step) -> Iterator[tuple[InstanceRecord, Case]]:
        """The cases whose next step is one of these."""
        for instance in tuple(self._known.values()):
            for case in instance.cases:
                if case.step in steps:
                    yield instance, case

    def due(self, step: Step, now: datetime) -> list[tuple[str, Case]]:
        """The cases whose step is due, with the UUIDs of their instances, which go on changing."""
        return [
            (instance.uuid, case)
            for instance, case in self.cases(step)
            if case.due and case.due <= now
        ]

    def next_due(self, *steps: Step) -> datetime | None:
        """When the first of those steps is due."""
        return min((case.due for _, case in self.cases(*steps) if case.due), default=None)

    def set_back(self, by: timedelta, now: datetime) -> None:
        """Follow the host's clock, which was set back."""
        for instance in tuple(self._known.values()):
            self.put(set_back(instance, by, now))

    def _changed(self, before: InstanceRecord, after: InstanceRecord) -> None:
        for handler in self._handlers:
            handler(before, after)
        self.changes.set(object())
