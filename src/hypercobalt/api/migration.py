"""Migration: one live migration of one instance, as libvirt sees it (`kvm.cloud.sap/v1alpha1`).

The name is the instance's UUID and the start; under upstream's names it is the UUID alone, and the
next migration of the instance overwrites the object. The node agent of the host that the instance
leaves writes it, that of the other host adds the destination. Finished ones are removed after a
while by the agent that made them.

Amounts are text, as upstream writes them: times as Go durations (`2.755s`, `api/duration.py`) and
sizes in IEC units (`10.4 MiB`, `api/iec.py`).

Source: kvm-node-agent, api/v1alpha1/migration_types.go; libvirt, virDomainGetJobStats.
"""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from hypercobalt.api.meta import ResourceInfo, Struct
from hypercobalt.api.schema import Column, CustomObject, Definition, Field, Limits, Writer
from hypercobalt.api.transitions import Transitions

SERVER: Final = "kvm.cloud.sap/server"
"""Label: UUID of the server."""
ORIGIN: Final = "kvm.cloud.sap/origin"
"""Label: the host whose agent made the object, see `label_value`."""

_LABEL: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)


def label_value(text: str) -> str:
    """`text` if it can be a label's value, else a digest of it."""
    if _LABEL.fullmatch(text):
        return text
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:40]


class MigrationType(StrEnum):
    """Values of `status.type`."""

    BOUNDED = "bounded"
    UNBOUNDED = "unbounded"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SUCCESS = "success"


_RUNNING: Final = (MigrationType.BOUNDED, MigrationType.UNBOUNDED)
_ENDS: Final = (
    MigrationType.COMPLETED,
    MigrationType.FAILED,
    MigrationType.CANCELLED,
    MigrationType.SUCCESS,
)
MIGRATION_TYPES: Final = Transitions(
    "status.type of a Migration",
    first=(*_RUNNING, *_ENDS),
    after={
        MigrationType.BOUNDED: (MigrationType.UNBOUNDED, *_ENDS),
        MigrationType.UNBOUNDED: (MigrationType.BOUNDED, *_ENDS),
        **dict.fromkeys(_ENDS, ()),
    },
)
"""Libvirt counts what is left (bounded) or not; whichever agent reports an end first, it stays."""


class MigrationOperation(StrEnum):
    """Values of `status.operation`."""

    UNKNOWN = "unknown"
    START = "start"
    SAVE = "save"
    RESTORE = "restore"
    MIGRATION_IN = "migration_in"
    MIGRATION_OUT = "migration_out"
    SNAPSHOT = "snapshot"
    SNAPSHOT_REVERT = "snapshot_revert"
    DUMP = "dump"
    BACKUP = "backup"
    SNAPSHOT_DELETE = "snapshot_delete"


class MigrationSpec(Struct, frozen=True):
    """Empty: a Migration only reports."""


_INT64 = Limits(format="int64")


class MigrationStatus(Struct, frozen=True):
    """Statistics of the libvirt job; the agents of both hosts write them."""

    writer: ClassVar[Writer] = Writer.NODE_AGENT

    origin: Annotated[str | None, Field("Name of the host that the instance leaves.")] = None
    destination: Annotated[str | None, Field("Name of the host that the instance goes to.")] = None
    type: Annotated[
        str | None,
        Field("State of the job: bounded, unbounded, completed, failed, cancelled or success."),
    ] = None
    operation: Annotated[
        str | None,
        Field("What the job does: migration_in or migration_out, or another libvirt job."),
    ] = None
    started: Annotated[
        datetime | None,
        Field("When the job was first seen, by the clock of the host.", required=True),
    ] = None
    errMsg: Annotated[
        str | None,
        Field("Why the job failed, in libvirt's words.", limits=Limits(max_length=32768)),
    ] = None
    timeElapsed: Annotated[str | None, Field("Time since the start of the job, as in `1m2s`.")] = (
        None
    )
    timeRemaining: Annotated[
        str | None, Field("Time that libvirt still expects, as in `35.078s`.")
    ] = None
    downtime: Annotated[str | None, Field("Time that the instance stood still, as in `16ms`.")] = (
        None
    )
    setupTime: Annotated[str | None, Field("Time to prepare the transfer, as in `2.755s`.")] = None
    dataTotal: Annotated[str | None, Field("Data to transfer, as in `4.0 GiB`.")] = None
    dataProcessed: Annotated[str | None, Field("Data transferred, as in `10.4 MiB`.")] = None
    dataRemaining: Annotated[str | None, Field("Data still to transfer, as in `0 B`.")] = None
    memTotal: Annotated[str | None, Field("Memory to transfer.")] = None
    memProcessed: Annotated[str | None, Field("Memory transferred.")] = None
    memRemaining: Annotated[str | None, Field("Memory still to transfer.")] = None
    memConstant: Annotated[
        int | None, Field("Pages that had one byte repeated, a count.", limits=_INT64)
    ] = None
    memNormal: Annotated[int | None, Field("Pages sent as they are, a count.", limits=_INT64)] = (
        None
    )
    memNormalBytes: Annotated[str | None, Field("Memory in the pages sent as they are.")] = None
    memBps: Annotated[str | None, Field("Rate of the transfer of memory, `10.4 MiB/s`.")] = None
    memDirtyRate: Annotated[
        str | None, Field("Pages that the instance writes per second, as in `1250/s`.")
    ] = None
    memIteration: Annotated[
        int | None, Field("How often memory has been gone through.", limits=_INT64)
    ] = None
    memPostcopyRequests: Annotated[
        int | None,
        Field("Pages requested by the destination in post-copy, a count.", limits=_INT64),
    ] = None
    memPageSize: Annotated[str | None, Field("Size of a page, as in `4.0 KiB`.")] = None
    diskTotal: Annotated[str | None, Field("Disk to transfer.")] = None
    diskProcessed: Annotated[str | None, Field("Disk transferred.")] = None
    diskRemaining: Annotated[str | None, Field("Disk still to transfer.")] = None
    diskBps: Annotated[str | None, Field("Rate of the transfer of disk, as in `0 B/s`.")] = None
    autoConvergeThrottle: Annotated[
        str | None, Field("How much the instance's CPUs are slowed down, as in `20%`.")
    ] = None


class Migration(CustomObject, frozen=True, kw_only=True):
    resource: ClassVar[ResourceInfo] = ResourceInfo(
        "kvm.cloud.sap", "v1alpha1", "Migration", "migrations", "Namespaced"
    )
    definition: ClassVar[Definition] = Definition(
        doc="Migration is one live migration of one instance; a label has the instance's UUID.",
        short_names=("mig",),
        root_required=("metadata", "spec"),
        columns=(
            Column("Origin", "string", ".status.origin"),
            Column("Destination", "string", ".status.destination"),
            Column("Type", "string", ".status.type"),
            Column("Operation", "string", ".status.operation"),
            Column("Started", "date", ".status.started"),
            Column("Elapsed", "string", ".status.timeElapsed"),
            Column("Data Total", "string", ".status.dataTotal"),
            Column("Data Processed", "string", ".status.dataProcessed"),
            Column("Data Remaining", "string", ".status.dataRemaining"),
            Column("Memory TX", "string", ".status.memBps"),
            Column("Memory Dirty Rate", "string", ".status.memDirtyRate"),
            Column("Memory Iteration", "string", ".status.memIteration"),
        ),
    )

    spec: Annotated[MigrationSpec, Field("Empty: a Migration only reports.")]
    status: Annotated[MigrationStatus, Field("Statistics of the libvirt job.")] = MigrationStatus()
