"""Shows the open incidents: on the board, as Events, in metrics.

The board changes at most once in five seconds for incidents, however often they are seen.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Final

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.incident import MOST, Incident, IncidentType, Severity
from hypercobalt.ha.incidents.cases import Case, InstanceRecord, Step, incident_of
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.signals import HOST, EventType
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.incidents.metrics import IncidentMetrics
from hypercobalt.node_agent.incidents.store import Store
from hypercobalt.node_agent.status.parts import Board
from hypercobalt.runtime import Clock, Recorder
from hypercobalt.runtime.write_cache import Latest

log = get_logger(__name__)

EVERY: Final = timedelta(seconds=5)
_ORDER: Final = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)
_EVENT_TYPES: Final = {
    IncidentType.REBOOTING: EventType.REBOOT,
    IncidentType.REBOOT_FAILED: EventType.REBOOT,
    IncidentType.REBOOT_LOOP: EventType.REBOOT,
    IncidentType.WATCHDOG: EventType.WATCHDOG,
    IncidentType.IO_ERROR: EventType.IO_ERROR,
    IncidentType.STORAGE_DEGRADED: EventType.IO_ERROR,
    IncidentType.CONTROL_ERROR: EventType.CONTROL_ERROR,
    IncidentType.MONITOR_HUNG: EventType.CONTROL_ERROR,
    IncidentType.MEMORY_FAILURE: EventType.MEMORY_FAILURE,
}


class Reports:
    """Follows the store.

    Args:
        hypervisor: the own one, which the Events are about.
        every: at most so often the board changes.
    """

    def __init__(
        self,
        store: Store,
        board: Board,
        recorder: Recorder,
        hypervisor: Latest[Hypervisor],
        metrics: IncidentMetrics,
        *,
        clock: Clock,
        config: Callable[[], HaConfig],
        every: timedelta = EVERY,
    ) -> None:
        self._store, self._board, self._recorder = store, board, recorder
        self._hypervisor, self._metrics, self._clock = hypervisor, metrics, clock
        self._config, self._every = config, every
        store.on_change(self._compare)

    async def run(self) -> None:
        """Keep the board current until cancelled."""
        self._put(shown(self._store, self._config()))
        while True:
            state = self._store.changes.value
            found = shown(self._store, self._config())
            if found != self._board.parts.incidents:
                self._put(found)
                await asyncio.sleep(self._every.total_seconds())
            else:
                await self._store.changes.changed(state)

    def _put(self, incidents: tuple[Incident, ...]) -> None:
        self._board.put(replace(self._board.parts, incidents=incidents))

    def _compare(self, before: InstanceRecord, after: InstanceRecord) -> None:
        old = {case.id: case for case in before.cases}
        new = {case.id: case for case in after.cases}
        for id_, case in new.items():
            was = old.get(id_)
            if case.shown and (was is None or not was.shown):
                self._opened(after, case)
            elif was is not None and was.type != case.type:
                self._event(after, case, "Warning")
            if case.step is Step.FOLLOW and (was is None or was.step is not Step.FOLLOW):
                self._event(after, case, "Normal", f"Recovery{case.reaction}")
        for id_, case in old.items():
            if id_ not in new:
                self._closed(before, case)
        self._count()

    def _opened(self, instance: InstanceRecord, case: Case) -> None:
        log.info(
            "incident_opened",
            incident=case.id,
            type=case.type.value,
            server=instance.uuid,
            evidence="; ".join(case.evidence),
        )
        grave = case.severity != Severity.INFO
        self._event(instance, case, "Warning" if grave else "Normal")

    def _closed(self, instance: InstanceRecord, case: Case) -> None:
        log.info("incident_closed", incident=case.id, type=case.type.value, server=instance.uuid)
        if case.step is Step.FOLLOW:
            took = self._clock.now() - case.first_seen
            self._metrics.recovery_seconds.observe(max(0.0, took.total_seconds()))

    def _event(
        self, instance: InstanceRecord, case: Case, type_: str, reason: str | None = None
    ) -> None:
        hypervisor = self._hypervisor.value
        if hypervisor is None or not _is_reported(case, self._config()):
            return
        who = "the host" if instance.uuid == HOST else f"instance {instance.uuid} ({instance.name})"
        self._recorder.record(
            hypervisor,
            "Warning" if type_ == "Warning" else "Normal",
            reason or case.type.value,
            f"{who}: {'; '.join(case.evidence)}",
            action="Watching",
        )

    def _count(self) -> None:
        counts = Counter(
            case.type for one in self._store.known.values() for case in one.cases if case.shown
        )
        for type_ in IncidentType:
            self._metrics.open.labels(type_.value).set(counts.get(type_, 0))


def shown(store: Store, config: HaConfig) -> tuple[Incident, ...]:
    """The incidents for the status: the gravest first, then the oldest."""
    found = [
        (instance, case)
        for instance in store.known.values()
        for case in instance.cases
        if case.shown and _is_reported(case, config)
    ]
    found.sort(key=lambda one: (_ORDER.index(one[1].severity), one[1].first_seen, one[1].id))
    return tuple(incident_of(instance, case) for instance, case in found[:MOST])


def _is_reported(case: Case, config: HaConfig) -> bool:
    return config.event(_EVENT_TYPES.get(case.type, EventType.LIFECYCLE)).reported
