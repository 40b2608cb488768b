"""Record of one instance and its open cases: plain data that a journal can keep. Pure.

A case is an incident with its next step and the time of that step. Its name is its key: the
instance, the present start of the instance, and the type of incident. So the same incident has the
same name in every process, and so has its Eviction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from msgspec.structs import replace

from hypercobalt.api.eviction import EvictionMode, Trigger
from hypercobalt.api.incident import Incident, IncidentType, Reaction, Severity
from hypercobalt.api.meta import Struct
from hypercobalt.ha.incidents.pools import site_pool_of
from hypercobalt.ha.incidents.signals import HOST

MOST_EVIDENCE: Final = 8
MOST_TIMES: Final = 32
"""Moments of one sort that are remembered: more than any threshold for rare events counts."""
MOST_DISKS: Final = 16
MOST_EVICTIONS: Final = 64
_TEXT: Final = 256

TRIGGERS: Final = {
    IncidentType.CRASH: Trigger.INSTANCE_CRASH,
    IncidentType.HOST_OUT_OF_MEMORY: Trigger.INSTANCE_CRASH,
    IncidentType.ENDED_BY_BOOT: Trigger.INSTANCE_CRASH,
    IncidentType.MANY_CRASHES: Trigger.INSTANCE_CRASH,
    IncidentType.REBOOT_FAILED: Trigger.REBOOT_FAILED,
    IncidentType.WATCHDOG: Trigger.WATCHDOG,
    IncidentType.IO_ERROR: Trigger.IO_ERROR,
    IncidentType.CONTROL_ERROR: Trigger.CONTROL_ERROR,
    IncidentType.MONITOR_HUNG: Trigger.CONTROL_ERROR,
    IncidentType.MEMORY_FAILURE: Trigger.MEMORY_FAILURE,
}
"""`spec.trigger` of the Evictions that recover from each type of incident."""
OF_STORAGE: Final = frozenset({IncidentType.IO_ERROR, IncidentType.STORAGE_DEGRADED})
"""Types of incidents that are about a disk."""
CRASHES: Final = (IncidentType.CRASH, IncidentType.ENDED_BY_BOOT)
"""Types of unplanned ends."""


class State(StrEnum):
    """What an instance does here."""

    UNKNOWN = "unknown"
    INCOMING = "incoming"  # the far end of a migration
    RUNNING = "running"
    PAUSED = "paused"
    OFF = "off"


class Step(StrEnum):
    """The next step of a case."""

    NONE = "none"
    PROBE = "look"  # the value is in the journals of hosts
    RESUME = "resume"
    RECOVER = "recover"  # make an Eviction
    FOLLOW = "follow"  # see how the Eviction ends
    HELD = "held"  # see whether it may be recovered by now
    EXPIRE = "expire"  # close the case


class Case(Struct, frozen=True):
    """An open incident and its next step.

    Args:
        shown: the status lists it; a case that may yet pass by itself is not listed.
        eviction: name of its Eviction, made once the step is no longer RECOVER.
        due: time of the next step.
        mode: of the Eviction that recovers it.
        about: path of the disk.
    """

    id: str
    type: IncidentType
    severity: Severity
    start: str
    first_seen: datetime
    last_seen: datetime
    count: int = 1
    evidence: tuple[str, ...] = ()
    reaction: Reaction = Reaction.REPORT
    eviction: str = ""
    shown: bool = True
    step: Step = Step.NONE
    due: datetime | None = None
    mode: EvictionMode = EvictionMode.AUTO
    about: str = ""

    def with_evidence(self, *texts: str) -> Case:
        """Return the case with more evidence; a text that it already has is not repeated."""
        new = [text[:_TEXT] for text in texts if text and text[:_TEXT] not in self.evidence]
        kept = (*self.evidence, *new)
        if len(kept) > MOST_EVIDENCE:  # the first is what began it
            kept = (kept[0], *kept[-MOST_EVIDENCE + 1 :])
        return replace(self, evidence=kept)

    def then(self, step: Step, due: datetime | None = None) -> Case:
        """Return the case with another next step."""
        return replace(self, step=step, due=due)


def is_dump(case: Case) -> bool:
    """Whether the case is about a guest whose crash kernel saves its memory."""
    return case.type is IncidentType.CRASH and case.step is Step.PROBE


class DiskErrors(Struct, frozen=True):
    """Errors of one disk that QEMU reported to its guest.

    Args:
        path: of the disk.
        since: beginning of the span in which errors are counted.
        count: number of errors in that span.
        suspect: beginning of an earlier span with too many errors.
    """

    path: str
    since: datetime
    count: int = 1
    suspect: datetime | None = None


class MadeEviction(Struct, frozen=True):
    """An Eviction that was made, and when."""

    name: str
    at: datetime


class InstanceRecord(Struct, frozen=True):
    """Record of one instance; with `HOST` as UUID, of the host.

    Args:
        state: according to the last signal.
        domain_id: libvirt's number of its start.
        start: unique name of its present or last start.
        shutdown: who shut it down, before it stopped: `guest`, `host` or "".
        agent: its guest's agent is connected.
        agent_seen: its guest's agent was connected at least once in this start.
        memory_bytes: its memory.
        resumes: number of resumes after I/O errors, as long as it did not run well in between.
        resumed_at: time of the last of these resumes.
        paused_since: since when I/O errors pause it; moments after a resume do not end that.
        incidents: for the host only, times at which its incidents were shown.
        evictions: for the host only, Evictions that must still be removed.
    """

    uuid: str
    name: str = ""
    state: State = State.UNKNOWN
    domain_id: int = -1
    start: str = ""
    shutdown: str = ""
    agent: bool = False
    agent_seen: bool = False
    memory_bytes: int = 0
    resumes: int = 0
    resumed_at: datetime | None = None
    paused_since: datetime | None = None
    crashes: tuple[datetime, ...] = ()
    reboots: tuple[datetime, ...] = ()
    watchdogs: tuple[datetime, ...] = ()
    memory_failures: tuple[datetime, ...] = ()
    memory_warnings: tuple[datetime, ...] = ()
    recoveries: tuple[datetime, ...] = ()
    incidents: tuple[datetime, ...] = ()
    evictions: tuple[MadeEviction, ...] = ()
    disks: tuple[DiskErrors, ...] = ()
    cases: tuple[Case, ...] = ()

    @property
    def active(self) -> bool:
        """Whether the instance runs here, or is paused."""
        return self.state in {State.RUNNING, State.PAUSED}

    def case(self, *types: IncidentType) -> Case | None:
        """Return the open case of one of these types."""
        return next((case for case in self.cases if case.type in types), None)

    def with_case(self, case: Case) -> InstanceRecord:
        """Return the instance with a case added, or replaced by its newer form."""
        others = tuple(other for other in self.cases if other.id != case.id)
        return replace(self, cases=(*others, case))

    def without_case(self, case_id: str) -> InstanceRecord:
        """Return the instance without the case of that name."""
        return replace(self, cases=tuple(case for case in self.cases if case.id != case_id))

    def without(self, *types: IncidentType) -> InstanceRecord:
        """Return the instance without the cases of these types."""
        left = tuple(case for case in self.cases if case.type not in types)
        return replace(self, cases=left)


def key_of(instance: str, start: str, type_: IncidentType) -> str:
    """Return the name of the incident of this type in this start of an instance."""
    digest = hashlib.sha256(f"{instance}/{start}/{type_}".encode()).hexdigest()
    return f"{instance[:8] or 'host'}-{digest[:10]}"


def eviction_name(case_id: str, host: str) -> str:
    """Return the name of the Eviction for an incident of the instance, or of the whole host."""
    head, _, digest = case_id.partition("-")
    return f"ha-{host[:200] if head == 'host' else head}-{digest}"


def may_have(eviction: str, instances: Iterable[str], host: str) -> bool:
    """Whether an Eviction of that name may be about one of these: by its own name, or for many."""
    heads = (*(uuid[:8] for uuid in instances), host[:200])
    return eviction.startswith(tuple(f"ha-{head}-" for head in heads))


def reaction_of(mode: EvictionMode) -> Reaction:
    """Return what an Eviction of a mode does in its first step."""
    return Reaction.RESTART if mode is EvictionMode.AUTO else Reaction.MOVE


def recent(times: Iterable[datetime], now: datetime, within: timedelta) -> int:
    """Return how many of the moments lie within the last span of time."""
    return sum(1 for time in times if now - within < time <= now)


def with_time(times: tuple[datetime, ...], now: datetime) -> tuple[datetime, ...]:
    """Return the moments and one more; the oldest are dropped."""
    return (*times, now)[-MOST_TIMES:]


def incident_of(instance: InstanceRecord, case: Case) -> Incident:
    """Return the case in the form that the status has."""
    return Incident(
        id=case.id,
        type=case.type,
        severity=case.severity,
        instance=instance.uuid if instance.uuid != HOST else None,
        name=instance.name or None,
        reaction=case.reaction,
        eviction=(case.eviction or None) if case.step is not Step.RECOVER else None,
        count=min(case.count, 2**31 - 1),
        firstSeen=case.first_seen,
        lastSeen=case.last_seen,
        storage=(site_pool_of(case.about) or None) if case.type in OF_STORAGE else None,
        evidence=case.evidence,
    )
