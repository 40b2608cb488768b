"""Stores what a pass has decided and done: the record of the fencing first, then the status."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace as with_fields

from hypercobalt.api.fencing import ASSERTED_DEAD, RECORD, Fencing, as_record
from hypercobalt.api.hypervisor import Hypervisor, is_fenced
from hypercobalt.compute.errors import ComputeError
from hypercobalt.errors import TransientError
from hypercobalt.logs import get_logger
from hypercobalt.operator.ha.model.facts import RecoveryFacts
from hypercobalt.operator.ha.model.plan import RecoveryPlan
from hypercobalt.operator.ha.observe import Sources
from hypercobalt.operator.ha.observing.fleet import CensusCache
from hypercobalt.operator.ha.recording import conditions
from hypercobalt.operator.ha.recording.attempts import Attempts, new_deadline
from hypercobalt.operator.ha.recording.departed import departed, without
from hypercobalt.operator.shared.status_writer import Part, StatusWriter
from hypercobalt.runtime import Clock, Kube, Recorder
from hypercobalt.runtime.client.errors import ConflictError

log = get_logger(__name__)

_TRIES: Final = 4
"""Writes of a status that others change at the same time."""


class RecoveryStore:
    """Writer of Hypervisors after a pass.

    Args:
        sources: see there.
        kube: writes as the HA service.
        statuses: writes the status.
        fleet: counts a host as recovering before the write that shows it.
        attempts: an attempt is noted before its write.
        clock: times the writes.
        events: for people.
    """

    def __init__(
        self,
        sources: Sources,
        kube: Kube,
        statuses: StatusWriter,
        fleet: CensusCache,
        attempts: Attempts,
        *,
        clock: Clock,
        events: Recorder,
    ) -> None:
        self._sources, self._kube, self._statuses = sources, kube, statuses
        self._fleet, self._attempts = fleet, attempts
        self._clock, self._events = clock, events

    async def write(self, facts: RecoveryFacts, plan: RecoveryPlan) -> None:
        """Write what a pass has decided: the record, the status, Events for what has changed."""
        hypervisor, name = facts.hypervisor, facts.hypervisor.metadata.name
        part = conditions.part(hypervisor, plan, self._clock.now())
        deadline = new_deadline(hypervisor.fencing, plan.fencing)
        if deadline is not None:
            # Noted before: of a write that fails it is not known whether it was stored.
            self._attempts[name] = deadline
            # A host whose last attempt has failed is not counted until this one is stored.
            self._fleet.begin(hypervisor)
        try:
            if plan.removes_assertion:
                await self._remove_assertion(hypervisor)
            written = await self._record(hypervisor, plan.fencing)
            part = await self._put(written, plan, part)
        finally:
            if deadline is not None:
                self._fleet.written(name)
        for note in conditions.notes(hypervisor, part):
            self._events.record(
                hypervisor, note.type, note.reason, note.text, action="RecoveringHost"
            )

    async def _remove_assertion(self, hypervisor: Hypervisor) -> None:
        """Remove the annotation of a disproved assertion, which would count in the next silence."""
        meta = hypervisor.metadata
        if (boot := meta.annotations.get(ASSERTED_DEAD)) is None:
            return

        def without(present: Hypervisor) -> Hypervisor:
            """Keep an annotation that a person has set to another boot meanwhile."""
            kept = present.metadata.annotations.items() - {(ASSERTED_DEAD, boot)}
            notes = dict(sorted(kept))
            return with_fields(present, metadata=with_fields(present.metadata, annotations=notes))

        log.warning("fencing_assertion_removed", hypervisor=meta.name, boot=boot)
        async with self._sources.hypervisors.turn(meta.name):
            if (written := await self._kube.modify(Hypervisor, meta.name, without)) is None:
                return
            self._sources.hypervisors.wrote(written)
        text = (
            f"Removed the annotation {ASSERTED_DEAD}={boot}: the host has reported since it was "
            "set; set it again when the host is dead"
        )
        self._events.record(
            hypervisor, "Warning", "FencingAssertionRemoved", text, action="RecoveringHost"
        )

    async def _record(self, hypervisor: Hypervisor, record: Fencing | None) -> Hypervisor:
        """Store the record of the fencing, before the status shows it.

        What a device has answered must not be lost to a write of another controller.
        """
        if record is None or record == hypervisor.fencing:
            return hypervisor

        def changed(present: Hypervisor) -> Hypervisor:
            """Leave alone a record that another process has changed meanwhile."""
            if present.fencing != hypervisor.fencing:
                return present
            notes = {**present.metadata.annotations, RECORD: as_record(record)}
            return with_fields(present, metadata=with_fields(present.metadata, annotations=notes))

        name = hypervisor.metadata.name
        async with self._sources.hypervisors.turn(name):
            written = await self._kube.modify(Hypervisor, name, changed)
            if written is None or written.fencing != record:
                text = f"Hypervisor {name}: its fencing was recorded by another process"
                raise TransientError(text)
            return self._sources.hypervisors.wrote(written)

    async def _put(self, hypervisor: Hypervisor, plan: RecoveryPlan, part: Part) -> Part:
        """Write the status, also over a newer one of a host whose record is as it was stored."""
        name, known = hypervisor.metadata.name, hypervisor
        for _ in range(_TRIES):
            try:
                await self._statuses.put(known, part)
            except ConflictError:
                newest = await self._kube.get(Hypervisor, name)
                if newest is None or newest.fencing != plan.fencing:
                    raise
                known = self._sources.hypervisors.wrote(newest)
                part = conditions.part(known, plan, self._clock.now())
            else:
                return part
        await self._statuses.put(known, part)
        return part

    async def take_out_departed(self, facts: RecoveryFacts) -> None:
        """Have the status of a dead host list no instances that run elsewhere now."""
        gone, host = departed(facts), facts.host
        if not gone or host is None:
            return
        name, boot = facts.hypervisor.metadata.name, facts.hypervisor.status.bootID
        try:
            left = await self._sources.compute.moves.servers(host.name) if host.servers else ()
        except ComputeError:
            return  # it is read again in the next pass

        def taken_out(present: Hypervisor) -> Hypervisor:
            """Leave alone the status that an agent which is back has written."""
            if present.status.bootID != boot or not is_fenced(present):
                return present
            return with_fields(present, status=without(present.status, gone, left))

        async with self._sources.hypervisors.turn(name):
            written = await self._kube.modify(Hypervisor, name, taken_out, subresource="status")
            if written is not None:
                log.info("departed_instances_taken_out", hypervisor=name, count=len(gone))
                self._sources.hypervisors.wrote(written)
