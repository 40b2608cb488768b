"""Does what is due about incidents: makes their Evictions, resumes after I/O errors.

Nothing is done without a Hypervisor that was read in this moment; while the API is away everything
waits, and is done in order once it is back. The name of an Eviction stands in its case before it is
made, and is the same in every process: two creations give one.

The agent itself starts nothing.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from hypercobalt.adapters.libvirt.port import Libvirt, LibvirtError
from hypercobalt.api.eviction import Eviction, EvictionReason, EvictionSpec, evicting, has_ended
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.incident import LABEL, IncidentType, Reaction
from hypercobalt.api.meta import ObjectMeta, owner_reference
from hypercobalt.api.migration import MIGRATION_TYPES, SERVER, Migration, label_value
from hypercobalt.errors import HypercobaltError
from hypercobalt.ha.cases import MOST_EVICTIONS, Case, Made, Step
from hypercobalt.ha.config import HaConfig
from hypercobalt.ha.escalation import (
    FOLLOW,
    Memory,
    Recovery,
    exhausted,
    failed,
    held,
    plan,
    postponed,
    recovering,
)
from hypercobalt.ha.probes import resumed
from hypercobalt.ha.restraint import FRESH, restraint, returning
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.incidents.metrics import IncidentMetrics
from hypercobalt.node_agent.incidents.store import Store
from hypercobalt.node_agent.settings import Settings
from hypercobalt.runtime import AlreadyExistsError, Backoff, Clock, Kube

log = get_logger(__name__)

_API_AWAY: Final = Backoff(base=timedelta(seconds=1), cap=timedelta(seconds=10))
_GIVEN_BACK: Final = timedelta(seconds=10)
"""Between looks whether the HA service has given the host back."""
_UNDER_WAY: Final = timedelta(seconds=5)
"""Between looks at a migration or an Eviction that has to end first."""
_CLOCK: Final = timedelta(seconds=30)
"""Between looks whether the clock was set."""
_SET_BACK: Final = timedelta(seconds=1)
"""A clock that is slowed down for a while is not set."""
_LONGEST_WAIT: Final = timedelta(minutes=10)
"""For one: an object that never ends must not keep an instance off."""
KEPT: Final = timedelta(days=1)
"""How long an Eviction stays for people to read; older ones go when the next is made, as do the
oldest of very many."""
_STEPS: Final = (Step.RECOVER, Step.RESUME, Step.FOLLOW)


class Recoveries:
    """All of one host.

    Args:
        memory: reads the host's memory.
    """

    def __init__(
        self,
        kube: Kube,
        libvirt: Libvirt,
        store: Store,
        settings: Settings,
        metrics: IncidentMetrics,
        *,
        clock: Clock,
        config: Callable[[], HaConfig],
        memory: Callable[[], Memory],
    ) -> None:
        self._kube, self._libvirt, self._store = kube, libvirt, store
        self._settings, self._metrics, self._clock = settings, metrics, clock
        self._config, self._memory = config, memory
        self._offset = self._clock_offset()

    async def run(self) -> None:
        """Recover until cancelled."""
        failures = 0
        while True:
            self._follow_clock()
            state, now = self._store.changes.value, self._clock.now()
            due = self._store.next_due(*_STEPS)
            if due is None or due > now:
                wait = min(due - now, _CLOCK) if due else _CLOCK
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait.total_seconds()):
                        await self._store.changes.changed(state)
                continue
            try:
                await self._act(now)
                failures = 0
            except HypercobaltError as error:
                log.warning("recovery_waits", error=str(error))
                await asyncio.sleep(_API_AWAY.wait(failures))
                failures += 1

    def _clock_offset(self) -> datetime:
        return self._clock.now() - timedelta(seconds=self._clock.monotonic())

    def _follow_clock(self) -> None:
        """Bring forward what is due by a clock that was set back since: it would wait so long."""
        offset = self._clock_offset()
        back, self._offset = self._offset - offset, offset
        if back > _SET_BACK:
            log.warning("clock_set_back", seconds=round(back.total_seconds()))
            self._store.bring_forward(back)

    async def _act(self, now: datetime) -> None:
        """Do everything that is due.

        Raises:
            HypercobaltError: the API is away; what was not done stays due.
        """
        planned = plan(self._store.known, self._settings.node, self._config(), now, self._memory())
        for instance in planned.instances.values():
            self._store.put(instance)
        if planned.recoveries or self._due(Step.RESUME, now):
            await self._react(planned.recoveries, now)
        for uuid, case in self._due(Step.FOLLOW, now):
            await self._follow(uuid, case)

    async def _react(self, recoveries: Sequence[Recovery], now: datetime) -> None:
        """Make Evictions and resume, or hold back what the own Hypervisor forbids.

        What is left when that was read too long ago stays due.
        """
        # Before: the answer may lie in the socket of a host that is frozen, and fenced meanwhile.
        asked_at = self._clock.monotonic()
        hypervisor = await self._hypervisor()

        def is_old() -> bool:
            return self._clock.monotonic() - asked_at > FRESH.total_seconds()

        why = restraint(hypervisor) if hypervisor else "the host has no Hypervisor"
        for recovery in recoveries:
            if is_old():
                return
            this_boot = self._is_of_this_boot(recovery)
            waits = returning(hypervisor, of_this_boot=this_boot) if hypervisor else ""
            if waits:
                self._postpone(recovery, self._clock.now() + _GIVEN_BACK, waits)
            elif why:
                self._hold(recovery, why)
            elif hypervisor is not None:
                await self._recover(recovery, hypervisor)
        waits = returning(hypervisor, of_this_boot=True) if hypervisor else ""
        for uuid, case in self._due(Step.RESUME, now):
            if is_old():
                return
            if waits or why or self._config().dry_run:
                text = waits or why or "dry run: it would be resumed"
                self._store.put(held(self._store.get(uuid), case.id, text))
            else:
                await self._resume(uuid, case.id)

    def _due(self, step: Step, now: datetime) -> list[tuple[str, Case]]:
        """The cases whose step is due, with the UUIDs of their instances, which go on changing."""
        return [
            (instance.uuid, case)
            for instance, case in self._store.cases(step)
            if case.due and case.due <= now
        ]

    async def _hypervisor(self) -> Hypervisor | None:
        """The own one, as the API server has it now."""
        fields = f"metadata.name={self._settings.node}"
        return next(iter((await self._kube.list(Hypervisor, fields=fields)).items), None)

    def _hold(self, recovery: Recovery, why: str) -> None:
        for uuid, case_id in self._still(recovery):
            log.info("recovery_held_back", server=uuid, incident=case_id, reason=why)
            self._metrics.suppressed.labels(why.partition(":")[0]).inc()
            self._store.put(held(self._store.get(uuid), case_id, f"held back: {why}"))

    def _postpone(self, recovery: Recovery, due: datetime, why: str) -> None:
        for uuid, case_id in self._still(recovery):
            self._store.put(postponed(self._store.get(uuid), case_id, due, why))

    def _is_of_this_boot(self, recovery: Recovery) -> bool:
        """Whether it is about instances alone that ran since the host booted."""
        types = {
            case.type
            for uuid, case_id in recovery.cases
            for case in self._store.get(uuid).cases
            if case.id == case_id
        }
        return bool(recovery.instances) and IncidentType.ENDED_BY_BOOT not in types

    def _still(self, recovery: Recovery) -> list[tuple[str, str]]:
        """Those of its cases that are open still: an instance may run again by now."""
        return [
            (uuid, case_id)
            for uuid, case_id in recovery.cases
            if any(case.id == case_id for case in self._store.get(uuid).cases)
        ]

    async def _recover(self, recovery: Recovery, hypervisor: Hypervisor) -> None:
        if self._config().dry_run:
            self._metrics.recoveries.labels(recovery.mode, "dry-run").inc()
            text = f"dry run: Eviction {recovery.name} would be made, mode {recovery.mode}"
            for uuid, case_id in self._still(recovery):
                self._store.put(held(self._store.get(uuid), case_id, text))
            return
        if first := await self._what_goes_first(recovery):
            self._metrics.suppressed.labels(first.partition(" ")[0].lower()).inc()
            self._postpone(recovery, self._clock.now() + _UNDER_WAY, f"waits for {first}")
            return
        cases = self._still(recovery)
        if not cases:
            return
        instances = tuple(uuid for uuid in recovery.instances if any(uuid == u for u, _ in cases))
        log.info(
            "recovery_requested",
            eviction=recovery.name,
            mode=recovery.mode.value,
            trigger=recovery.trigger.value,
            servers=",".join(instances),
        )
        made = await self._make(dataclasses.replace(recovery, instances=instances), hypervisor)
        self._metrics.recoveries.labels(recovery.mode, "requested" if made else "exists").inc()
        for uuid, case_id in self._still(recovery):
            self._store.put(recovering(self._store.get(uuid), case_id, self._clock.now()))
        await self._remove_old(recovery.name)

    async def _remove_old(self, made: str) -> None:
        """Remember the Eviction that was made, and remove those that ended long ago."""
        now, left = self._clock.now(), list[Made]()
        known = self._store.host.evictions
        for number, old in enumerate(known):
            is_one_too_many = len(known) - number >= MOST_EVICTIONS
            if now - old.at < KEPT and not is_one_too_many:
                left.append(old)
            elif (found := await self._kube.get(Eviction, old.name)) is not None:
                if has_ended(found.status):
                    await self._kube.delete(Eviction, old.name, uid=found.metadata.uid)
                else:
                    left.append(old)
        others = [one for one in left if one.name != made]
        kept = (*others, Made(name=made, at=now))[-MOST_EVICTIONS:]
        self._store.put(replace(self._store.host, evictions=kept))

    async def _what_goes_first(self, recovery: Recovery) -> str:
        """What has these instances under way; "" when nothing has, or for too long already."""
        now = self._clock.now()
        waited = max(
            (
                now - case.last_seen
                for uuid, case_id in recovery.cases
                for case in self._store.get(uuid).cases
                if case.id == case_id
            ),
            default=timedelta(0),
        )
        if waited > _LONGEST_WAIT:
            return ""
        others = {
            case.eviction
            for uuid in recovery.instances
            for case in self._store.get(uuid).cases
            if case.step is Step.FOLLOW and case.eviction != recovery.name
        }
        for name in (self._settings.node, *sorted(others)):
            eviction = await self._kube.get(Eviction, name)
            if eviction is not None and not has_ended(eviction.status):
                wanted = eviction.spec.instances
                if not wanted or set(wanted) & set(recovery.instances):
                    return f"Eviction {name}"
        for uuid in recovery.instances:
            labels = f"{SERVER}={label_value(uuid)}"
            found = await self._kube.list(Migration, self._settings.namespace, labels=labels)
            for one in found.items:
                if one.status.type not in MIGRATION_TYPES.ends:
                    return f"Migration {one.metadata.name}"
        return ""

    async def _make(self, recovery: Recovery, hypervisor: Hypervisor) -> bool:
        """Create the Eviction; False if the same one is there already.

        One that has ended long ago makes way: the incident has come again.
        """
        wanted = eviction_of(recovery, hypervisor)
        while True:
            try:
                await self._kube.create(wanted)
            except AlreadyExistsError:
                present = await self._kube.get(Eviction, recovery.name)
                if present is None:
                    continue
                if not self._is_cold(present):
                    return False
                uid = present.metadata.uid
                await self._kube.delete(Eviction, recovery.name, uid=uid)
            else:
                return True

    def _is_cold(self, eviction: Eviction) -> bool:
        ended = evicting(eviction.status)
        if ended is None or not has_ended(eviction.status):
            return False
        cool_down = self._config().limits.cool_down
        return self._clock.now() - ended.lastTransitionTime > cool_down

    async def _resume(self, uuid: str, case_id: str) -> None:
        log.info("instance_resumed", server=uuid, incident=case_id)
        result, instance = "resumed", self._store.get(uuid)
        for case in instance.cases:
            if case.id == case_id:  # noted before: that it runs again may be seen first
                self._store.put(resumed(instance, case, self._clock.now()))
        try:
            await self._libvirt.resume(uuid)
        except LibvirtError as error:
            result = "refused"
            log.warning("instance_not_resumed", server=uuid, error=str(error))
        self._metrics.recoveries.labels("resume", result).inc()

    async def _follow(self, uuid: str, case: Case) -> None:
        """See how an Eviction ends; that the instance runs again is seen in libvirt first."""
        eviction = await self._kube.get(Eviction, case.eviction)
        instance, now = self._store.get(uuid), self._clock.now()
        if not any(one.id == case.id for one in instance.cases):
            return
        if eviction is not None and not has_ended(eviction.status):
            self._store.put(postponed(instance, case.id, now + FOLLOW))
            return
        ended = evicting(eviction.status) if eviction else None
        if ended is not None and ended.reason == EvictionReason.SUCCEEDED:
            self._store.put(instance.without_case(case.id))
            return
        text = f"Eviction {case.eviction} " + (
            f"{ended.reason}: {ended.message}" if ended else "was deleted"
        )
        log.warning("recovery_failed", server=uuid, incident=case.id, reason=text)
        if ended is not None and ended.reason == EvictionReason.FAILED:
            self._store.put(failed(instance, case, self._config(), now, text))
            return
        given_up = replace(exhausted(case), reaction=Reaction.REPORT).with_evidence(text)
        self._store.put(instance.with_case(given_up.then(Step.NONE)))


def eviction_of(recovery: Recovery, hypervisor: Hypervisor) -> Eviction:
    """The Eviction of a recovery; it goes with the Hypervisor."""
    return Eviction(
        metadata=ObjectMeta(
            name=recovery.name,
            labels={LABEL: recovery.incident},
            ownerReferences=(owner_reference(hypervisor),),
        ),
        spec=EvictionSpec(
            hypervisor=hypervisor.metadata.name,
            reason=recovery.reason,
            instances=recovery.instances,
            trigger=recovery.trigger,
            mode=recovery.mode,
        ),
    )
