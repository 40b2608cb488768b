"""Reacts to incidents: creates Evictions, and resumes instances after I/O errors.

Each reaction needs a Hypervisor that was read just before. A reaction that is not allowed now is
held back, and judged again by libvirt's listing of that time.

The agent itself starts no instance.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from hypercobalt.adapters.libvirt.model import Domain
from hypercobalt.adapters.libvirt.port import Libvirt, LibvirtError
from hypercobalt.api.hypervisor import Hypervisor, is_shown_fenced
from hypercobalt.api.incident import IncidentType
from hypercobalt.errors import HypercobaltError, TerminalError
from hypercobalt.ha.incidents.cases import Case, Step
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.escalation import RecoveryRequest, postponed, recovering
from hypercobalt.ha.incidents.holding import LOOK_AGAIN, held, released, waiting, withdrawn
from hypercobalt.ha.incidents.probes import resumed
from hypercobalt.ha.incidents.restraint import FRESH, Restraint, restraint, returning
from hypercobalt.ha.incidents.shared_storage import fails_elsewhere, wait_for_storage
from hypercobalt.ha.incidents.signals import HOST
from hypercobalt.ha.incidents.storm import admit
from hypercobalt.ha.incidents.verdict import PROBE_AGAIN
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.incidents.metrics import IncidentMetrics
from hypercobalt.node_agent.incidents.recovery_evictions import (
    CreationOutcome,
    Evictions,
    other_name,
)
from hypercobalt.node_agent.incidents.store import Store
from hypercobalt.node_agent.incidents.translate import (
    is_as_remembered,
    is_paused_by_errors,
    state_of,
)
from hypercobalt.node_agent.settings import NodeAgentSettings
from hypercobalt.runtime import Clock, ForbiddenError, Kube

log = get_logger(__name__)

_GIVEN_BACK: Final = timedelta(seconds=10)
"""Time between looks whether the HA service has given the host back."""
_UNDER_WAY: Final = timedelta(seconds=5)
"""Time between looks at a migration or an Eviction that has to end first."""
_REFUSED: Final = timedelta(seconds=30)
"""Until a request that the API server refused is sent again: a right may be granted."""


@dataclass(frozen=True, slots=True)
class View:
    """What reactions are decided by, read just before.

    Args:
        hypervisor: the own one; None when there is none.
        domains: by UUID; None when libvirt does not answer.
        begun_at: when the reading began, by the monotonic clock.
    """

    hypervisor: Hypervisor | None
    domains: Mapping[str, Domain] | None
    begun_at: float


class Reactions:
    """The reactions of one host; see `Recoveries` for the arguments."""

    def __init__(
        self,
        kube: Kube,
        libvirt: Libvirt,
        store: Store,
        settings: NodeAgentSettings,
        metrics: IncidentMetrics,
        *,
        clock: Clock,
        config: Callable[[], HaConfig],
        withheld: Callable[[], Restraint | None],
    ) -> None:
        self._kube, self._libvirt, self._store = kube, libvirt, store
        self._settings, self._metrics, self._clock = settings, metrics, clock
        self._config, self._withheld = config, withheld
        self.evictions = Evictions(kube, store, settings, clock=clock, config=config)

    async def react(self, recoveries: Sequence[RecoveryRequest], now: datetime) -> None:
        """Make Evictions and resume, or hold back what the own Hypervisor forbids.

        Once that reading is too old, the reactions that are left stay due.

        Raises:
            HypercobaltError: the API is away; the reactions that are left stay due.
        """
        view = await self._look()
        for recovery in recoveries:
            if self._is_old(view):
                return
            await self._recover(recovery, view)
        for uuid, case in self._store.due(Step.RESUME, now):
            if self._is_old(view):
                return
            if self._may(uuid, case, view):
                await self._resume(uuid, case, view)
        for uuid, case in self._store.due(Step.HELD, now):
            if self._may(uuid, case, view):
                self._take_up(uuid, case, view)

    async def _look(self) -> View:
        # Before: the answer may lie in the socket of a host that is frozen, and fenced meanwhile.
        begun_at = self._clock.monotonic()
        fields = f"metadata.name={self._settings.node}"
        found = (await self._kube.list(Hypervisor, fields=fields)).items
        try:
            domains = {domain.uuid: domain for domain in await self._libvirt.domains()}
        except LibvirtError as error:
            log.warning("reactions_wait_for_libvirt", error=str(error))
            return View(next(iter(found), None), None, begun_at)
        return View(next(iter(found), None), domains, begun_at)

    def _is_old(self, view: View) -> bool:
        return self._clock.monotonic() - view.begun_at > FRESH.total_seconds()

    def _may(self, uuid: str, case: Case, view: View) -> bool:
        """Whether a single case may go on now; otherwise it is held back."""
        this_boot = case.type is not IncidentType.ENDED_BY_BOOT
        hindrance = restraint(view.hypervisor) or self._withheld()
        if view.hypervisor and (waits := returning(view.hypervisor, of_this_boot=this_boot)):
            hindrance = Restraint(waits, for_good=this_boot and is_shown_fenced(view.hypervisor))
        instance, now = self._store.get(uuid), self._clock.now()
        if hindrance:
            self._store.put(held(instance, case.id, hindrance, now))
        elif self._config().dry_run:
            self._store.put(waiting(instance, case.id, _would_do(case), now))
        return not hindrance and not self._config().dry_run

    async def _recover(self, recovery: RecoveryRequest, view: View) -> None:
        hypervisor, now = view.hypervisor, self._clock.now()
        this_boot = self._is_of_this_boot(recovery)
        if hypervisor and (waits := returning(hypervisor, of_this_boot=this_boot)):
            self._postpone(recovery, now + _GIVEN_BACK, waits)
        elif why := restraint(hypervisor) or self._withheld():
            self._hold(recovery, why)
        elif view.domains is None:
            self._postpone(recovery, now + _UNDER_WAY, "recovery waits for libvirt")
        elif hypervisor is not None and not self._waits_for_storage(recovery, hypervisor):
            self._set_aside(recovery, view.domains)
            try:
                await self._request(recovery, hypervisor)
            except (ForbiddenError, TerminalError) as error:  # others may be accepted
                self._refused(recovery, error)

    def _set_aside(self, recovery: RecoveryRequest, domains: Mapping[str, Domain]) -> None:
        """Leave out instances whose state in libvirt has changed: events about them follow."""
        for uuid, case in self._still(recovery):
            instance = self._store.get(uuid)
            if uuid != HOST and not is_as_remembered(domains.get(uuid), instance):
                log.info("recovery_out_of_date", server=uuid, incident=case.id)
                later = case.then(Step.RECOVER, self._clock.now() + _UNDER_WAY)
                self._store.put(instance.with_case(replace(later, eviction="")))

    async def _request(self, recovery: RecoveryRequest, hypervisor: Hypervisor) -> None:
        """Create an Eviction, unless in a dry run, or while another object has to end first."""
        if self._config().dry_run:
            self._only_record(recovery)
            return
        if first := await self.evictions.under_way(recovery):
            self._metrics.suppressed.labels(first.partition(" ")[0].lower()).inc()
            due, why = self._clock.now() + _UNDER_WAY, f"recovery waits for {first}"
            # That Eviction may have to know which instances ran, to leave none of them off.
            self._postpone(recovery, due, why, alone=True)
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
        made = await self.evictions.make(
            dataclasses.replace(recovery, instances=instances), hypervisor
        )
        self._metrics.recoveries.labels(recovery.mode, made).inc()
        if made is CreationOutcome.TAKEN:
            self._rename(recovery)
            return
        for uuid, case in self._still(recovery):
            self._store.put(recovering(self._store.get(uuid), case.id, self._clock.now()))
        if recovery.instances:  # an Eviction of the whole host stays: a person deletes it
            await self.evictions.remove_old(recovery.name)

    def _rename(self, recovery: RecoveryRequest) -> None:
        """Have the Eviction be made under another name, which is in its cases first."""
        name, now = other_name(recovery.name), self._clock.now()
        log.warning("eviction_name_taken", eviction=recovery.name, instead=name)
        for instance in tuple(self._store.known.values()):
            for case in instance.cases:
                if case.eviction == recovery.name:
                    due = now if case.step is Step.RECOVER else case.due
                    renamed = replace(case, eviction=name).then(case.step, due)
                    self._store.put(self._store.get(instance.uuid).with_case(renamed))

    def _only_record(self, recovery: RecoveryRequest) -> None:
        self._metrics.recoveries.labels(recovery.mode, "dry-run").inc()
        for uuid, case in self._still(recovery):
            after = waiting(self._store.get(uuid), case.id, _would_do(case), self._clock.now())
            self._store.put(after)
        text = f"dry run: an Eviction of mode {recovery.mode} would be created"
        self._store.put(withdrawn(self._store.host, recovery.name, text))

    def _hold(self, recovery: RecoveryRequest, why: Restraint) -> None:
        for uuid, case in self._still(recovery):
            log.info("recovery_held_back", server=uuid, incident=case.id, reason=why.why)
            self._metrics.suppressed.labels(why.why.partition(":")[0]).inc()
            self._store.put(held(self._store.get(uuid), case.id, why, self._clock.now()))
        self._store.put(withdrawn(self._store.host, recovery.name, f"held back: {why.why}"))

    def _refused(self, recovery: RecoveryRequest, error: HypercobaltError) -> None:
        log.warning("recovery_refused", eviction=recovery.name, error=str(error))
        due = self._clock.now() + _REFUSED
        self._postpone(recovery, due, f"API server refuses Eviction {recovery.name}: {error}")

    def _postpone(
        self, recovery: RecoveryRequest, due: datetime, why: str, *, alone: bool = False
    ) -> None:
        for uuid, case in self._still(recovery):
            self._store.put(postponed(self._store.get(uuid), case.id, due, why, alone=alone))

    def _is_of_this_boot(self, recovery: RecoveryRequest) -> bool:
        """Whether all its instances have run since the host booted."""
        types = {case.type for _, case in self._still(recovery)}
        return bool(recovery.instances) and IncidentType.ENDED_BY_BOOT not in types

    def _still(self, recovery: RecoveryRequest) -> list[tuple[str, Case]]:
        """The cases that the recovery is still due for: an instance may run again by now."""
        return [
            (uuid, case)
            for uuid, case_id in recovery.cases
            for case in self._store.get(uuid).cases
            if case.id == case_id and case.eviction == recovery.name
        ]

    def _waits_for_storage(self, recovery: RecoveryRequest, hypervisor: Hypervisor) -> bool:
        """Whether the recovery waits for a storage that fails on other hosts, too."""
        failing = hypervisor.status.failingStorage
        found = [
            (uuid, case, fails_elsewhere(case, failing)) for uuid, case in self._still(recovery)
        ]
        for uuid, case, why in found:
            if why:
                log.info("recovery_waits_for_storage", server=uuid, incident=case.id, reason=why)
                self._metrics.suppressed.labels("storage").inc()
                now, config = self._clock.now(), self._config()
                self._store.put(wait_for_storage(self._store.get(uuid), case, why, config, now)[0])
        return bool(found) and all(why for *_, why in found)

    async def _resume(self, uuid: str, case: Case, view: View) -> None:
        instance, now = self._store.get(uuid), self._clock.now()
        if case not in instance.cases:
            return
        if view.domains is None:
            again = case.then(Step.PROBE, now + PROBE_AGAIN)
            self._store.put(instance.with_case(again))
            return
        if not is_paused_by_errors(view.domains.get(uuid)):
            self._store.put(instance.without_case(case.id))
            return
        log.info("instance_resumed", server=uuid, incident=case.id)
        result = "resumed"
        self._store.put(resumed(instance, case, now))  # first: the event may precede the answer
        try:
            await self._libvirt.resume(uuid)
        except LibvirtError as error:
            result = "refused"
            log.warning("instance_not_resumed", server=uuid, error=str(error))
        self._metrics.recoveries.labels("resume", result).inc()

    def _take_up(self, uuid: str, case: Case, view: View) -> None:
        """Continue a case that was held back, if libvirt has answered and its turn has come."""
        instance, now = self._store.get(uuid), self._clock.now()
        if view.domains is None:
            self._store.put(postponed(instance, case.id, now + LOOK_AGAIN))
            return
        after = released(instance, case, state_of(view.domains.get(uuid)), self._config(), now)
        if any(one.id == case.id and one.step is Step.RECOVER for one in after.cases):
            host, has_turn = admit(self._store.host, now, self._config())
            if not has_turn:
                why = "recovery waits for its turn (limits.incidentsPerMinute)"
                later = postponed(instance, case.id, now + LOOK_AGAIN, why)
                self._store.put(later)
                return
            self._store.put(host)
        self._store.put(after)


def _would_do(case: Case) -> str:
    if case.step is Step.RESUME:
        return "dry run: the instance would be resumed"
    return f"dry run: an Eviction of mode {case.mode} would be created"
