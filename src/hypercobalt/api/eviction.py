"""Eviction: move instances away from one host (`kvm.cloud.sap/v1`, cluster-scoped).

The operator creates one for maintenance, the node agent for a shutdown, the HA agent after a
failure, and people by hand. The operator works it off and writes `status`.

Source: openstack-hypervisor-operator, api/v1/eviction_types.go. `instances`, `mode`, `trigger`,
`parallelism`, `status.instances`, `status.progress`, `status.checks` and the reason `Cancelled` are
ours (docs/compatibility.md).
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from hypercobalt.api.conditions import Condition, cut, get_condition, is_false, is_true
from hypercobalt.api.meta import Object, ObjectMeta, OwnerReference, ResourceInfo, Struct
from hypercobalt.api.schema import (
    Column,
    CustomObject,
    Definition,
    Field,
    Limits,
    Rule,
    Writer,
    condition_column,
)
from hypercobalt.api.transitions import Transitions

FINALIZER: Final = "kvm.cloud.sap/eviction"
"""On an Eviction while it may have moves under way."""


MOST_GUESTS: Final = 1024
"""Most VirtualMachineInstances that the status of an Eviction names."""


class EvictionConditionType(StrEnum):
    """Types of the conditions on an Eviction."""

    EVICTING = "Evicting"
    PREFLIGHT_CHECKS_SUCCEEDED = "PreflightChecksSucceeded"
    MIGRATING_INSTANCE = "MigratingInstance"
    INSTANCE_CLAIMED = "InstanceClaimed"  # ours: another host has something of an instance


class EvictionReason(StrEnum):
    """Reasons of the conditions on an Eviction."""

    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"  # ours: the Eviction was deleted before its end


class ClaimedReason(StrEnum):
    """Reasons of `InstanceClaimed`."""

    CLAIMED = "Claimed"
    SETTLED = "Settled"


EVICTION_REASONS: Final = Transitions(
    "reason of Evicting on an Eviction",
    first=tuple(EvictionReason),
    after={
        EvictionReason.RUNNING: (
            EvictionReason.SUCCEEDED,
            EvictionReason.FAILED,
            EvictionReason.CANCELLED,
        ),
        EvictionReason.SUCCEEDED: (),
        EvictionReason.FAILED: (),
        EvictionReason.CANCELLED: (),
    },
)
"""An Eviction that is over is never opened again."""


class CheckResult(StrEnum):
    """Values of `status.checks[].result`."""

    PASSED = "Passed"
    WARNING = "Warning"
    PENDING = "Pending"
    FAILED = "Failed"


class Trigger(StrEnum):
    """Values of `spec.trigger`: what led to the Eviction."""

    MAINTENANCE = "Maintenance"
    TERMINATION = "Termination"
    NODE_FAILURE = "NodeFailure"
    INSTANCE_CRASH = "InstanceCrash"
    REBOOT_FAILED = "RebootFailed"
    WATCHDOG = "Watchdog"
    IO_ERROR = "IOError"
    CONTROL_ERROR = "ControlError"
    MEMORY_FAILURE = "MemoryFailure"
    HOST_SHUTDOWN = "HostShutdown"
    MANUAL = "Manual"


class EvictionMode(StrEnum):
    """Values of `spec.mode`: how instances are recovered or leave."""

    AUTO = "auto"
    RESTART = "restart"
    LIVE = "live"
    COLD = "cold"
    EVACUATE = "evacuate"


_TRIED: Final = tuple(mode for mode in EvictionMode if mode is not EvictionMode.AUTO)


class InstancePhase(StrEnum):
    """Values of `status.instances[].phase`."""

    PENDING = "Pending"
    MIGRATING = "Migrating"
    EVACUATING = "Evacuating"
    RESTARTING = "Restarting"
    CONFIRMING = "Confirming"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    SKIPPED = "Skipped"


UNDER_WAY: Final = (InstancePhase.MIGRATING, InstancePhase.EVACUATING, InstancePhase.RESTARTING)
"""Phases in which something is being done to an instance."""


class EvictionSpec(Struct, frozen=True):
    """What should leave which host, and why."""

    hypervisor: Annotated[
        str,
        Field(
            "Name of the Hypervisor to move instances away from. It cannot be changed.",
            limits=Limits(min_length=1, max_length=253),
            rules=(Rule("self == oldSelf", "Value is immutable"),),
        ),
    ]
    reason: Annotated[
        str, Field("Why, for people. It may be changed.", limits=Limits(min_length=1))
    ]
    instances: Annotated[
        tuple[str, ...],
        Field(
            "UUIDs of the only instances to move; empty means all on the host.",
            limits=Limits(max_items=1024),
            items=Limits(min_length=1, max_length=64),
        ),
    ] = ()
    trigger: Annotated[
        str | None,
        Field("What led to the Eviction, for programs.", limits=Limits(enum=tuple(Trigger))),
    ] = None
    mode: Annotated[
        str | None,
        Field(
            "auto, or absent: what fits. A crashed instance is restarted on its host, and moved "
            "if that fails; a running one is migrated live, a stopped one cold; what is on a host "
            "that is proven dead is evacuated. restart: restarted on its host only. live, cold: "
            "moved in this way only. evacuate: rebuilt elsewhere, once the host is proven dead "
            "(`status.fencing` of the Hypervisor).",
            limits=Limits(enum=tuple(EvictionMode)),
        ),
    ] = None
    parallelism: Annotated[
        int | None,
        Field(
            "How many instances are moved at the same time; absent leaves it to the operator.",
            limits=Limits(minimum=1, format="int32"),
        ),
    ] = None


class EvictionInstance(Struct, frozen=True):
    """How far the Eviction is with one instance."""

    id: Annotated[str, Field("UUID of the instance.")]
    name: Annotated[str | None, Field("Name of the instance, for people.")] = None
    phase: Annotated[
        str | None,
        Field(
            "Pending: not begun. Migrating: on its way, the host alive. Evacuating: being rebuilt "
            "elsewhere, the host dead. Restarting: being started again on its host. Confirming: a "
            "cold migration waits to be confirmed, or it is not seen to run on its new host yet. "
            "Succeeded: has left, or runs again. Failed: could not be moved, or does not run where "
            "it is, see message. Skipped: needs no move.",
            limits=Limits(enum=tuple(InstancePhase)),
        ),
    ] = None
    mode: Annotated[
        str | None,
        Field(
            "What was tried last: restart, live, cold or evacuate.",
            limits=Limits(enum=_TRIED),
        ),
    ] = None
    ran: Annotated[
        bool | None,
        Field(
            "Whether the instance ran when it was last seen on its host. An instance that has "
            "crashed since, or ended with its host, is started before it moves."
        ),
    ] = None
    target: Annotated[str | None, Field("Name of the host it goes or went to.")] = None
    attempts: Annotated[
        int | None,
        Field(
            "How often that was begun; live and cold count together.",
            limits=Limits(minimum=0, format="int32"),
        ),
    ] = None
    startedAt: Annotated[datetime | None, Field("When the first attempt began.")] = None
    finishedAt: Annotated[datetime | None, Field("When it succeeded, or was given up.")] = None
    message: Annotated[str | None, Field("Details for people.")] = None


class EvictionCheck(Struct, frozen=True):
    """What one of the checks before the first move has found."""

    name: Annotated[
        str,
        Field(
            "HostUp, HostFenced, HostDisabled, RecoveryOn, Instances, TargetCapacity, "
            "ServerGroups or ServerGroupsListed; a newer operator may have more."
        ),
    ]
    result: Annotated[
        str,
        Field(
            "Passed; Warning: some instance may not be moved; Pending: nothing is moved yet, it "
            "passes by itself; Failed: nothing is moved.",
            limits=Limits(enum=tuple(CheckResult)),
        ),
    ]
    message: Annotated[str | None, Field("What was found, and what to do about it.")] = None


class EvictionProgress(Struct, frozen=True):
    """How far the Eviction is as a whole."""

    total: Annotated[
        int | None,
        Field("How many instances are to be moved.", limits=Limits(minimum=0, format="int32")),
    ] = None
    done: Annotated[
        int | None,
        Field("How many have left the host.", limits=Limits(minimum=0, format="int32")),
    ] = None
    failed: Annotated[
        int | None,
        Field("How many could not be moved.", limits=Limits(minimum=0, format="int32")),
    ] = None
    percent: Annotated[
        int | None,
        Field(
            "Share of the instances that have left, in percent, rounded down.",
            limits=Limits(minimum=0, maximum=100, format="int32"),
        ),
    ] = None
    estimatedCompletion: Annotated[
        datetime | None,
        Field("When the last instance should have left, judging by the pace so far."),
    ] = None


class EvictionStatus(Struct, frozen=True):
    """What has been done."""

    writer: ClassVar[Writer] = Writer.OPERATOR

    hypervisorServiceId: Annotated[
        str | None,
        Field("UUID of the hypervisor in Nova, not of its service; the name is upstream's."),
    ] = None
    outstandingRamMb: Annotated[
        int | None,
        Field(
            "Memory of the instances still to be moved, in MiB.",
            default=0,
            limits=Limits(format="int64"),
        ),
    ] = None
    outstandingInstances: Annotated[
        tuple[str, ...],
        Field("UUIDs of the instances still to be moved; worked off from the end."),
    ] = ()
    instances: Annotated[
        tuple[EvictionInstance, ...],
        Field("How far each instance is.", keys=("id",)),
    ] = ()
    progress: Annotated[EvictionProgress | None, Field("How far all of it is.")] = None
    checks: Annotated[
        tuple[EvictionCheck, ...],
        Field("What was checked before the first move.", keys=("name",)),
    ] = ()
    virtualMachineInstances: Annotated[
        tuple[str, ...],
        Field(
            "VirtualMachineInstances on the host, as NAMESPACE/NAME, which do not move and are "
            f"waited for; {MOST_GUESTS} at most.",
            limits=Limits(max_items=MOST_GUESTS),
            items=Limits(max_length=317),
        ),
    ] = ()
    conditions: Annotated[
        tuple[Condition, ...], Field("State of each aspect of the Eviction.", keys=("type",))
    ] = ()


class Eviction(CustomObject, frozen=True, kw_only=True):
    resource: ClassVar[ResourceInfo] = ResourceInfo(
        "kvm.cloud.sap", "v1", "Eviction", "evictions", "Cluster"
    )
    definition: ClassVar[Definition] = Definition(
        doc="Eviction moves instances away from one Hypervisor.",
        short_names=("evi",),
        columns=(
            Column("Hypervisor", "string", ".spec.hypervisor"),
            Column("Reason", "string", ".spec.reason"),
            condition_column("State", "Evicting", "reason"),
            Column("Created", "date", ".metadata.creationTimestamp"),
            Column("Trigger", "string", ".spec.trigger", 1),
            Column("Total", "integer", ".status.progress.total", 1),
            Column("Done", "integer", ".status.progress.done", 1),
            Column("Failed", "integer", ".status.progress.failed", 1),
        ),
    )

    spec: Annotated[EvictionSpec, Field("What should leave which host, and why.", required=False)]
    status: Annotated[EvictionStatus, Field("What has been done.")] = EvictionStatus()


def evicting(status: EvictionStatus) -> Condition | None:
    """The condition that sums an Eviction up; None before the operator's first pass."""
    return get_condition(status.conditions, EvictionConditionType.EVICTING)


def has_begun(status: EvictionStatus) -> bool:
    """Whether the checks have passed once, so that moves may be under way."""
    return is_true(status.conditions, EvictionConditionType.PREFLIGHT_CHECKS_SUCCEEDED)


def has_ended(status: EvictionStatus) -> bool:
    """Whether the Eviction is over: it is never opened again."""
    return is_false(status.conditions, EvictionConditionType.EVICTING)


_STAY: Final = frozenset({EvictionMode.RESTART, EvictionMode.LIVE})
"""Modes in which some instances, or all, stay on the host."""


def empties(eviction: Eviction, host: str) -> bool:
    """Whether all instances of a host leave by an Eviction; its own name does not matter."""
    spec = eviction.spec
    return spec.hypervisor == host and not spec.instances and spec.mode not in _STAY


def ends_empty(spec: EvictionSpec) -> bool:
    """Whether nothing may run on the host when the Eviction has succeeded.

    So it is for the whole host, unless instances are restarted there.
    """
    return not spec.instances and spec.mode != EvictionMode.RESTART


_ALIVE: Final = frozenset({EvictionMode.RESTART, EvictionMode.LIVE, EvictionMode.COLD})
"""Modes that need a host which is alive."""


def evacuates(spec: EvictionSpec) -> bool:
    """Whether its instances are started elsewhere once their host is proven dead.

    In the other modes they wait for the host, for as long as it takes.
    """
    return spec.mode not in _ALIVE


def whole_host(
    hypervisor: Object,
    reason: str,
    trigger: Trigger,
    *,
    owner: OwnerReference | None,
    labels: dict[str, str] | None = None,
    parallelism: int | None = None,
) -> Eviction:
    """An Eviction of all instances of a host. It has the host's name, so there is one at a time.

    Args:
        hypervisor: of the host.
        reason: for people.
        trigger: for programs.
        owner: with which the Eviction is deleted; None for none.
        labels: of the Eviction.
        parallelism: instances moved at the same time; None leaves it to the operator.
    """
    name = hypervisor.metadata.name
    return Eviction(
        metadata=ObjectMeta(
            name=name, labels=labels or {}, ownerReferences=(owner,) if owner else ()
        ),
        spec=EvictionSpec(
            hypervisor=name, reason=cut(reason), trigger=trigger, parallelism=parallelism
        ),
    )
