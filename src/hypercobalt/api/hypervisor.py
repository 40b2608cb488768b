"""Hypervisor: one host that runs virtual machines (`kvm.cloud.sap/v1`, cluster-scoped).

The object's name is the name of the Kubernetes Node and of the Nova compute host. People, the
operator and the HA service write `spec`; the operator, the node agent and the HA service each
write their own part of `status`.

Source: openstack-hypervisor-operator, api/v1/hypervisor_types.go.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from hypercobalt.api.conditions import Condition, ConditionStatus, get_condition
from hypercobalt.api.fencing import Fencing, FencingPhase, proves_dead, recorded
from hypercobalt.api.hypervisor_conditions import (
    NETWORK_BROKEN,
    PORTS_UNBOUND,
    HypervisorConditionType,
    RegisteredReason,
    SyncReason,
)
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ResourceInfo, Struct
from hypercobalt.api.recovery import RecoveryPhase
from hypercobalt.api.schema import (
    Column,
    CustomObject,
    Definition,
    Field,
    Limits,
    Rule,
    condition_column,
)

CPU: Final = "cpu"
"""Resource name in allocation, capacity and overcommit: whole cores."""
MEMORY: Final = "memory"
"""Resource name in allocation, capacity and overcommit: bytes."""

MOST_NAMES: Final = 1024
"""Traits, or aggregates, of a host."""
LONGEST_NAME: Final = 255
"""Characters of the name of a trait or an aggregate, in Placement and Nova."""

UUID_PATTERN: Final = (
    r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
)


class Maintenance(StrEnum):
    """Values of `spec.maintenance`."""

    NONE = ""
    MANUAL = "manual"
    AUTO = "auto"
    HA = "ha"
    TERMINATION = "termination"


EMPTYING: Final = frozenset({Maintenance.MANUAL, Maintenance.AUTO, Maintenance.TERMINATION})
"""Modes in which the operator empties the host."""


class TraitGroup(Struct, frozen=True):
    """Membership in the group of hosts that carry a trait."""

    name: Annotated[str, Field("Name of the Placement trait.", limits=Limits(min_length=1))]


class AggregateGroup(Struct, frozen=True):
    """Membership in a Nova host aggregate."""

    name: Annotated[str, Field("Name of the aggregate.", limits=Limits(min_length=1))]
    uuid: Annotated[
        str,
        Field("UUID of the aggregate in Nova.", limits=Limits(pattern=UUID_PATTERN)),
    ]
    metadata: Annotated[dict[str, str], Field("Metadata of the aggregate, as Nova has it.")] = {}


class Group(Struct, frozen=True):
    """One membership; exactly one of the fields is set."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(has(self.trait) ? 1 : 0) + (has(self.aggregate) ? 1 : 0) == 1",
            "exactly one group type must be set",
        ),
    )

    trait: Annotated[
        TraitGroup | None, Field("The host belongs to the group of hosts with this trait.")
    ] = None
    aggregate: Annotated[
        AggregateGroup | None, Field("The host belongs to this host aggregate.")
    ] = None


class HypervisorSpec(Struct, frozen=True):
    """What the host should be."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(oldSelf.maintenance) || oldSelf.maintenance != 'termination' || "
            "self.maintenance == 'ha' || self == oldSelf",
            "spec is immutable when maintenance is 'termination'; "
            "can only change maintenance to 'ha'",
        ),
        Rule(
            "!has(self.maintenance) || self.maintenance != 'manual' || "
            "(has(self.maintenanceReason) && self.maintenanceReason.size() > 0)",
            "maintenanceReason must be non-empty when maintenance is 'manual'",
        ),
    )

    version: Annotated[
        str | None,
        Field(
            "Operating system version that the host should run; the node agent installs it. "
            "Absent or empty means no update, `latest` means the newest one there is."
        ),
    ] = None
    reboot: Annotated[
        bool | None,
        Field(
            "Whether the node agent reboots the host after it has installed an update.",
            default=False,
            required=True,
        ),
    ] = None
    evacuateOnReboot: Annotated[
        bool | None,
        Field(
            "Whether the node agent holds back a shutdown of the host until its instances have "
            "been moved away by an Eviction.",
            default=True,
            required=True,
        ),
    ] = None
    lifecycleEnabled: Annotated[
        bool | None,
        Field(
            "Whether the operator manages the host: onboarding, traits, aggregates, certificates "
            "and offboarding. When false, the operator only copies facts from the Node.",
            default=True,
            required=True,
        ),
    ] = None
    skipTests: Annotated[
        bool | None,
        Field(
            "Whether onboarding skips the smoke test, which boots one instance on the host.",
            default=False,
            required=True,
        ),
    ] = None
    customTraits: Annotated[
        tuple[str, ...],
        Field(
            "Placement traits that the host's resource provider should have on top of those that "
            "Nova reports. The operator copies them from an annotation of the Node.",
            default=(),
            required=True,
            limits=Limits(max_items=MOST_NAMES),
            items=Limits(max_length=LONGEST_NAME),
        ),
    ] = ()
    aggregates: Annotated[
        tuple[str, ...],
        Field(
            "Names of the Nova host aggregates that the host should be in. The operator copies "
            "them from an annotation of the Node and adds its zone.",
            default=(),
            required=True,
            limits=Limits(max_items=MOST_NAMES),
            items=Limits(max_length=LONGEST_NAME),
        ),
    ] = ()
    groups: Annotated[
        tuple[Group, ...],
        Field(
            "Memberships of the host, typed, for external schedulers. Duplicates are possible; "
            "readers have to cope with them."
        ),
    ] = ()
    allowedProjects: Annotated[
        tuple[str, ...],
        Field(
            "UUIDs of the projects whose instances may be scheduled here; empty means all.",
            default=(),
            required=True,
        ),
    ] = ()
    highAvailability: Annotated[
        bool | None,
        Field(
            "Whether instances are recovered when they, or the host, fail. When false, failures "
            "are still reported.",
            default=True,
            required=True,
        ),
    ] = None
    createCertManagerCertificate: Annotated[
        bool | None,
        Field(
            "Whether the existing node agent creates a cert-manager Certificate for the host. "
            "Without effect on hypercobalt's, which requests its certificate.",
            default=False,
            required=True,
        ),
    ] = None
    installCertificate: Annotated[
        bool | None,
        Field(
            "Whether the node agent installs the certificate of the host for libvirt.",
            default=True,
            required=True,
        ),
    ] = None
    maintenance: Annotated[
        str | None,
        Field(
            "Takes the host out of service. Empty: in service. `manual`: a person does, with the "
            "reason in maintenanceReason. `auto`: an automation does, for example a rolling "
            "update. `ha`: the HA service does, after a failure. `termination`: the host is "
            "going away for good; from then on the spec is frozen, except for a change to `ha`.",
            limits=Limits(enum=tuple(Maintenance)),
        ),
    ] = None
    maintenanceReason: Annotated[
        str | None,
        Field("Why the host is in maintenance, for people. Required when it is `manual`."),
    ] = None
    overcommit: Annotated[
        dict[str, float],
        Field(
            "How many times each resource (`cpu`, `memory`) may be promised; a missing one counts "
            "as 1.0. Effective capacity is capacity times ratio, rounded down.",
            rules=(Rule("self.all(k, self[k] >= 1.0)", "overcommit ratios must be >= 1.0"),),
        ),
    ] = {}


class Hypervisor(CustomObject, frozen=True):
    resource: ClassVar[ResourceInfo] = ResourceInfo(
        "kvm.cloud.sap", "v1", "Hypervisor", "hypervisors", "Cluster"
    )
    definition: ClassVar[Definition] = Definition(
        doc="Hypervisor is one host that runs virtual machines. It has the name of its Node.",
        short_names=("hv",),
        columns=(
            Column("Zone", "string", r".metadata.labels.topology\.kubernetes\.io/zone", 2),
            Column(
                "Building Block", "string", r".metadata.labels.kubernetes\.metal\.cloud\.sap/bb", 2
            ),
            Column("Group", "string", r".metadata.labels.worker\.garden\.sapcloud\.io/group", 2),
            condition_column("Ready", "Ready"),
            condition_column("State", "Ready", "reason"),
            condition_column("Taint", "Tainted", "message"),
            Column("Lifecycle", "boolean", ".spec.lifecycleEnabled"),
            Column("High Availability", "boolean", ".spec.highAvailability"),
            Column("Skip Tests", "boolean", ".spec.skipTests"),
            Column("Version", "string", ".status.operatingSystem.prettyVersion"),
            Column("IP", "string", ".status.internalIp"),
            Column("Instances", "integer", ".status.numInstances"),
            Column("Hardware", "string", ".status.operatingSystem.hardwareModel", 2),
            Column("Kernel", "string", ".status.operatingSystem.kernelRelease", 2),
            condition_column("Onboarding", "Onboarding", "reason", 3),
            Column("Service ID", "string", ".status.serviceId", 3),
            Column("Hypervisor ID", "string", ".status.hypervisorId", 3),
            Column("Age", "date", ".metadata.creationTimestamp"),
            Column("Booted", "date", ".status.bootedAt", 2),
            condition_column("Fenced", "Fenced", priority=2),
            condition_column("Operator", "OperatorReporting", "reason", 2),
        ),
    )

    spec: Annotated[
        HypervisorSpec, Field("What the host should be. Defaults apply only when it is present.")
    ] = HypervisorSpec()
    status: Annotated[HypervisorStatus, Field("What the host is.")] = HypervisorStatus()

    @property
    def conditions(self) -> tuple[Condition, ...]:
        return self.status.conditions

    @property
    def fencing(self) -> Fencing | None:
        """The operator's own record of the fencing; `status.fencing` is what it shows of that."""
        return recorded(self.metadata.annotations)


def is_evicted(hypervisor: Hypervisor) -> bool:
    """Whether the host is known to be empty: after a failed or cancelled eviction it is not."""
    found = get_condition(hypervisor.conditions, HypervisorConditionType.EVICTING)
    return (
        found is not None
        and found.status == ConditionStatus.FALSE
        and found.reason == SyncReason.SUCCEEDED
    )


def is_fenced(hypervisor: Hypervisor) -> bool:
    """Whether the last boot that the host has reported is proven dead: nothing of it runs.

    By the operator's own record; what the status shows may be the host's own word.
    """
    return proves_dead(hypervisor.fencing, hypervisor.status.bootID)


def is_shown_fenced(hypervisor: Hypervisor) -> bool:
    """Whether the status shows that the host is fenced: then its own agent starts no instance."""
    return proves_dead(hypervisor.status.fencing, hypervisor.status.bootID)


_EMPTIED: Final = frozenset(
    {RecoveryPhase.UNWELL, RecoveryPhase.RECOVERING, RecoveryPhase.RECOVERED}
)


def is_emptied_alive(hypervisor: Hypervisor) -> bool:
    """Whether the HA service of the operator moves the instances of a host that lives.

    It moves those that run: one that crashes meanwhile is recovered as anywhere.
    """
    recovery, records = hypervisor.status.recovery, (hypervisor.fencing, hypervisor.status.fencing)
    unfenced = all(one is None or one.phase == FencingPhase.RELEASED for one in records)
    has_host = hypervisor.spec.maintenance == Maintenance.HA
    return has_host and unfenced and recovery is not None and recovery.phase in _EMPTIED


def lists_all(hypervisor: Hypervisor) -> bool:
    """Whether `status.instances` has every instance, so that one that is missing is not there."""
    status = hypervisor.status
    return (status.numInstances or 0) <= len(status.instances)


def is_claimed(hypervisor: Hypervisor) -> bool:
    """Whether the host of its name belongs to another Hypervisor: what runs there is that one's."""
    found = get_condition(hypervisor.conditions, HypervisorConditionType.REGISTERED)
    return found is not None and found.reason == RegisteredReason.CLAIMED


def is_network_broken(hypervisor: Hypervisor) -> bool:
    """Whether the host's own switch is broken: nothing new may go there."""
    return _network_is(hypervisor, NETWORK_BROKEN)


def binds_no_ports(hypervisor: Hypervisor) -> bool:
    """Whether OVN cannot bind ports on the host, whose switch works otherwise."""
    return _network_is(hypervisor, PORTS_UNBOUND)


def _network_is(hypervisor: Hypervisor, reasons: Collection[str]) -> bool:
    found = get_condition(hypervisor.conditions, HypervisorConditionType.NETWORK_HEALTHY)
    return found is not None and found.status == ConditionStatus.FALSE and found.reason in reasons
