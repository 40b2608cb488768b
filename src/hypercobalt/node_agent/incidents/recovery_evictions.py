"""Creates Evictions for recoveries, removes old ones, and finds moves of the same instances.

The name of an Eviction is in its case before the Eviction is created, and is the same in every
process: two creations give one. Other agents may create Evictions of that form, each about its own
host: an Eviction belongs to this host by its spec, never by its name.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from msgspec.structs import replace

from hypercobalt.api.bounds import within
from hypercobalt.api.eviction import Eviction, EvictionSpec, evicting, has_ended
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.incident import LABEL, SINCE
from hypercobalt.api.meta import ObjectMeta, owner_reference
from hypercobalt.api.migration import MIGRATION_TYPES, ORIGIN, SERVER, Migration, label_value
from hypercobalt.api.times import format_time
from hypercobalt.ha.incidents.cases import MOST_EVICTIONS, MadeEviction, Step, may_have
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.escalation import RecoveryRequest
from hypercobalt.node_agent.incidents.store import Store
from hypercobalt.node_agent.settings import NodeAgentSettings
from hypercobalt.runtime import AlreadyExistsError, Clock, Kube

KEPT: Final = timedelta(days=1)
"""How long an Eviction stays for people to read; older ones go when the next is made, as do the
oldest of very many."""
_LONGEST_WAIT: Final = timedelta(minutes=10)
"""Longest wait for an object, since one that never ends must not keep an instance off."""


class CreationOutcome(StrEnum):
    """Result of a creation."""

    REQUESTED = "requested"
    EXISTS = "exists"
    """The same Eviction is there already."""
    TAKEN = "taken"
    """An Eviction of another host, or of other instances, has the name."""


class Evictions:
    """Evictions of one host."""

    def __init__(
        self,
        kube: Kube,
        store: Store,
        settings: NodeAgentSettings,
        *,
        clock: Clock,
        config: Callable[[], HaConfig],
    ) -> None:
        self._kube, self._store, self._settings = kube, store, settings
        self._clock, self._config = clock, config
        self._waiting: dict[tuple[str, datetime], float] = {}  # cases, as last seen, by first look

    async def get(self, name: str) -> Eviction | None:
        """The Eviction of this host of that name; None when another host has the name."""
        found = await self._kube.get(Eviction, name)
        return found if found is not None and self._is_own(found) else None

    def _is_own(self, eviction: Eviction) -> bool:
        return eviction.spec.hypervisor == self._settings.node

    async def remove_old(self, made: str) -> None:
        """Remember the Eviction that was made, and remove those that ended long ago."""
        now, left = self._clock.now(), list[MadeEviction]()
        known = self._store.host.evictions
        for number, old in enumerate(known):
            is_one_too_many = len(known) - number >= MOST_EVICTIONS
            if now - old.at < KEPT and not is_one_too_many:
                left.append(old)
            elif (found := await self.get(old.name)) is not None:
                if has_ended(found.status):
                    await self._kube.delete(Eviction, old.name, uid=found.metadata.uid)
                else:
                    left.append(old)
        others = [one for one in left if one.name != made]
        kept = (*others, MadeEviction(name=made, at=now))[-MOST_EVICTIONS:]
        self._store.put(replace(self._store.host, evictions=kept))

    async def under_way(self, recovery: RecoveryRequest) -> str:
        """What has these instances under way; "" when nothing has, or for too long already."""
        if self._waited(recovery) > _LONGEST_WAIT:
            return ""
        now = self._clock.now()
        for name in (self._settings.node, *sorted(self._others(recovery, now))):
            eviction = await self.get(name)
            if eviction is not None and not has_ended(eviction.status):
                wanted = eviction.spec.instances
                if not wanted or set(wanted) & set(recovery.instances):
                    return f"Eviction {name}"
        origin = label_value(self._settings.label)  # another host's name any instance of this one
        for uuid in recovery.instances:
            labels = f"{SERVER}={label_value(uuid)},{ORIGIN}={origin}"
            found = await self._kube.list(Migration, self._settings.namespace, labels=labels)
            for one in found.items:
                if one.status.type not in MIGRATION_TYPES.ends:
                    return f"Migration {one.metadata.name}"
            for key in found.unreadable:
                return f"Migration {key}, which cannot be read"
        return ""

    def _waited(self, recovery: RecoveryRequest) -> timedelta:
        """How long ago the first of its cases was first looked at, since it was last seen.

        An incident may be old by its first look: the agent was away, or something held it back.
        """
        now, looked = self._clock.monotonic(), self._waiting
        cases = {
            (one.id, one.last_seen) for known in self._store.known.values() for one in known.cases
        }
        self._waiting = {case: at for case, at in looked.items() if case in cases}
        wanted = {case_id for _, case_id in recovery.cases}
        for case in cases:
            if case[0] in wanted:
                self._waiting.setdefault(case, now)
        first = min((at for case, at in self._waiting.items() if case[0] in wanted), default=now)
        return timedelta(seconds=now - first)

    def _others(self, recovery: RecoveryRequest, now: datetime) -> set[str]:
        """Evictions of the same instances that may not have ended: followed, or made lately.

        The case of an instance that runs again is closed before the operator sees that. If the
        instance crashed again meanwhile, two Evictions would restart it, the second while it runs.
        """
        followed = {
            case.eviction
            for uuid in recovery.instances
            for case in self._store.get(uuid).cases
            if case.step is Step.FOLLOW
        }
        made = {
            one.name
            for one in self._store.host.evictions
            if now - one.at < _LONGEST_WAIT
            and may_have(one.name, recovery.instances, self._settings.node)
        }
        return (followed | made) - {recovery.name}

    async def make(self, recovery: RecoveryRequest, hypervisor: Hypervisor) -> CreationOutcome:
        """Create the Eviction.

        The same one that has ended long ago makes way: the incident has come again.
        """
        wanted = eviction_of(recovery, hypervisor)
        while True:
            try:
                await self._kube.create(wanted)
            except AlreadyExistsError:
                present = await self._kube.get(Eviction, recovery.name)
                if present is None:
                    continue
                if not (self._is_own(present) and _is_about(present, recovery)):
                    return CreationOutcome.TAKEN
                if not self._is_cold(present):
                    return CreationOutcome.EXISTS
                uid = present.metadata.uid
                await self._kube.delete(Eviction, recovery.name, uid=uid)
            else:
                return CreationOutcome.REQUESTED

    def _is_cold(self, eviction: Eviction) -> bool:
        ended = evicting(eviction.status)
        if ended is None or not has_ended(eviction.status):
            return False
        cool_down = self._config().limits.cool_down
        return self._clock.now() - ended.lastTransitionTime > cool_down


def _is_about(eviction: Eviction, recovery: RecoveryRequest) -> bool:
    """Whether it is about some of the same instances, or both are about all of the host.

    Instances that have changed meanwhile were left out of one of the two.
    """
    there, wanted = set(eviction.spec.instances), set(recovery.instances)
    return bool(there & wanted) if there and wanted else there == wanted


def other_name(taken: str) -> str:
    """Another name of the form that an agent may give, which cannot be predicted."""
    return f"{taken.rpartition('-')[0]}-{secrets.token_hex(5)}"


def eviction_of(recovery: RecoveryRequest, hypervisor: Hypervisor) -> Eviction:
    """The Eviction of a recovery; it goes with the Hypervisor."""
    return Eviction(
        metadata=ObjectMeta(
            name=recovery.name,
            labels={LABEL: recovery.incident},
            annotations={SINCE: format_time(recovery.since)},
            ownerReferences=(owner_reference(hypervisor),),
        ),
        spec=within(
            EvictionSpec(
                hypervisor=hypervisor.metadata.name,
                reason=recovery.reason,
                instances=recovery.instances,
                trigger=recovery.trigger,
                mode=recovery.mode,
            )
        ),
    )
