"""Incident: something that has happened to an instance or to its host, as the node agent saw it.

`Hypervisor.status.incidents` has those that are open.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

from msgspec.structs import force_setattr

from hypercobalt.api.meta import Struct
from hypercobalt.api.schema import Field, Limits

LABEL: Final = "kvm.cloud.sap/incident"
"""On an Eviction: `id` of the incident that it was made for."""

SINCE: Final = "kvm.cloud.sap/incident-since"
"""Annotation of such an Eviction: `firstSeen` of its incident, of which the status may lack it."""

SEEN: Final = "kvm.cloud.sap/incidents-seen"
"""Annotation of a Hypervisor: ids, with commas, of incidents that a person has seen; they close."""

MOST: Final = 20
"""Open incidents in a status."""


class IncidentType(StrEnum):
    """Values of `status.incidents[].type`."""

    CRASH = "Crash"
    REBOOTING = "Rebooting"
    REBOOT_FAILED = "RebootFailed"
    REBOOT_LOOP = "RebootLoop"
    WATCHDOG = "Watchdog"
    IO_ERROR = "IOError"
    CONTROL_ERROR = "ControlError"
    MONITOR_HUNG = "MonitorHung"
    MEMORY_FAILURE = "MemoryFailure"
    POSTCOPY_FAILED = "PostcopyFailed"
    PAUSED = "Paused"
    OUT_OF_BAND = "OutOfBand"
    RUNS_AFTER_BOOT = "RunsAfterBoot"
    ENDED_BY_BOOT = "EndedByBoot"
    HOST_OUT_OF_MEMORY = "HostOutOfMemory"
    STORAGE_DEGRADED = "StorageDegraded"
    MANY_CRASHES = "ManyCrashes"
    EVENT_STORM = "EventStorm"
    RECOVERY_EXHAUSTED = "RecoveryExhausted"


class Severity(StrEnum):
    """Values of `status.incidents[].severity`."""

    INFO = "Info"
    WARNING = "Warning"
    CRITICAL = "Critical"


class Reaction(StrEnum):
    """Values of `status.incidents[].reaction`."""

    REPORT = "Report"
    WAIT = "Wait"
    RESUME = "Resume"
    RESTART = "Restart"
    MOVE = "Move"
    EVACUATE = "Evacuate"


_NAME: Final = Limits(max_length=255)


class Incident(Struct, frozen=True):
    """One incident."""

    id: Annotated[str, Field("Name of the incident; the same one has the same name.", limits=_NAME)]
    type: Annotated[str, Field("What has happened.", limits=Limits(enum=tuple(IncidentType)))]
    severity: Annotated[str, Field("How grave it is.", limits=Limits(enum=tuple(Severity)))]
    instance: Annotated[
        str | None, Field("UUID of the instance; absent: it is about the host.", limits=_NAME)
    ] = None
    name: Annotated[str | None, Field("Name of its libvirt domain.", limits=_NAME)] = None
    reaction: Annotated[
        str | None,
        Field(
            "Report: no reaction. Wait: the incident may pass, or is held back. Resume: the "
            "node agent resumes the instance. Restart, Move, Evacuate: an Eviction was made for "
            "it.",
            limits=Limits(enum=tuple(Reaction)),
        ),
    ] = None
    eviction: Annotated[
        str | None, Field("Name of the Eviction that recovers it.", limits=_NAME)
    ] = None
    count: Annotated[
        int | None,
        Field("How often it was seen.", limits=Limits(minimum=1, format="int32")),
    ] = None
    firstSeen: Annotated[datetime | None, Field("When it was seen first.")] = None
    lastSeen: Annotated[datetime | None, Field("When it was seen last.")] = None
    storage: Annotated[
        str | None,
        Field(
            "The storage that fails: directory or pool of the disk. Absent: not known, or its name "
            "may mean another one on another host."
        ),
    ] = None
    evidence: Annotated[
        tuple[str, ...],
        Field(
            "What was seen, and what follows from it; the newest last.",
            limits=Limits(max_items=16),
            items=Limits(max_length=256),
        ),
    ] = ()


class PeerReport(Struct, frozen=True):
    """Whether another host answers, as seen from this one."""

    host: Annotated[str, Field("Name of the other Hypervisor.")]
    answers: Annotated[
        bool,
        Field("Whether a program there has answered; a kernel's answer does not count."),
    ]
    request: Annotated[
        str | None,
        Field("Name of the probe request, as in the annotation.", limits=Limits(max_length=128)),
    ] = None
    evidence: Annotated[str | None, Field("The probed program and its answer.")] = None
    checkedAt: Annotated[datetime | None, Field("When it was probed.")] = None
    asked: Annotated[
        str | None,
        Field(
            "Former name of `request`, for operators and agents that know only that.",
            limits=Limits(max_length=128),
        ),
    ] = None

    def __post_init__(self) -> None:
        name = self.request or self.asked
        force_setattr(self, "request", name)
        force_setattr(self, "asked", name)
