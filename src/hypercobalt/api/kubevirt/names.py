"""Names that KubeVirt's actors and clients know: labels, annotations, phases, conditions, reasons.

Source: kubevirt.io/api, core/v1/types.go; docs of each at its writer.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

# Labels of a VirtualMachineInstance, of its pods and of Nodes.
NODE_NAME: Final = "kubevirt.io/nodeName"
"""Label of a VirtualMachineInstance: the node whose handler owns it."""
CREATED_BY: Final = "kubevirt.io/created-by"
"""Label of a launcher pod: the UID of its VirtualMachineInstance."""
APP: Final = "kubevirt.io"
"""Label of a launcher pod, with the value `LAUNCHER`."""
LAUNCHER: Final = "virt-launcher"
LAUNCHER_MODULE: Final = "hypercobalt.virt.launcher"
"""Module that the first process of a launcher pod runs; its argument names the VMI."""
VM_NAME: Final = "vm.kubevirt.io/name"
"""Label of a launcher pod: the hostname of the guest."""
VMI_ID: Final = "vmi.kubevirt.io/id"
"""Label of a launcher pod: the name of its VMI, shortened beyond 63 characters."""
SCHEDULABLE: Final = "kubevirt.io/schedulable"
"""Label of a Node: `true` while its handler reports."""
CPU_MANAGER: Final = "kubevirt.io/cpumanager"
MIGRATION_JOB_UID: Final = "kubevirt.io/migrationJobUID"
MIGRATION_TARGET_NODE: Final = "kubevirt.io/migrationTargetNodeName"
INSTALL_STRATEGY: Final = "kubevirt.io/install-strategy"
OUTDATED_LAUNCHER_IMAGE: Final = "kubevirt.io/outdatedLauncherImage"
MACHINE_TYPE_PREFIX: Final = "machine-type.node.kubevirt.io/"
CPU_MODEL_PREFIX: Final = "cpu-model.node.kubevirt.io/"
CPU_FEATURE_PREFIX: Final = "cpu-feature.node.kubevirt.io/"

RESERVED_LABELS: Final = frozenset(
    {
        CREATED_BY,
        MIGRATION_JOB_UID,
        NODE_NAME,
        MIGRATION_TARGET_NODE,
        SCHEDULABLE,
        INSTALL_STRATEGY,
    }
)
"""Labels that only KubeVirt's own accounts may write."""

# Annotations.
PCI_TOPOLOGY_VERSION: Final = "kubevirt.io/pci-topology-version"
DOMAIN: Final = "kubevirt.io/domain"
MIGRATION_TRANSPORT_UNIX: Final = "kubevirt.io/migrationTransportUnix"
LATEST_OBSERVED_API_VERSION: Final = "kubevirt.io/latest-observed-api-version"
STORAGE_OBSERVED_API_VERSION: Final = "kubevirt.io/storage-observed-api-version"
KEEP_LAUNCHER_AFTER_FAILURE: Final = "kubevirt.io/keep-launcher-alive-after-failure"
HEARTBEAT: Final = "kubevirt.io/heartbeat"
"""Annotation of a Node: when its handler last reported."""
MEMORY_OVERHEAD_BYTES: Final = "kubevirt.io/memory-overhead-bytes"
HOOK_SIDECARS: Final = "hooks.kubevirt.io/hookSidecars"
IGNITION: Final = "kubevirt.io/ignitiondata"
DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"

# Finalizers.
FOREGROUND_FINALIZER: Final = "kubevirt.io/foregroundDeleteVirtualMachine"
OLD_FOREGROUND_FINALIZER: Final = "foregroundDeleteVirtualMachine"
"""The same in its old spelling, which admission converts."""
VM_CONTROLLER_FINALIZER: Final = "kubevirt.io/virtualMachineControllerFinalize"

# The launcher pod.
COMPUTE_CONTAINER: Final = "compute"
UNPAUSED_GATE: Final = "kubevirt.io/virtual-machine-unpaused"
KVM_DEVICE: Final = "devices.kubevirt.io/kvm"
TUN_DEVICE: Final = "devices.kubevirt.io/tun"
VHOST_NET_DEVICE: Final = "devices.kubevirt.io/vhost-net"
LAUNCHER_USER: Final = 107
"""UID and GID of every process of a launcher pod; `status.runtimeUser`."""
DEFAULT_GRACE_SECONDS: Final = 30
"""Grace period of a guest whose spec names none."""


class VMIPhase(StrEnum):
    """Values of `status.phase`."""

    UNSET = ""
    PENDING = "Pending"
    SCHEDULING = "Scheduling"
    SCHEDULED = "Scheduled"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    WAITING_FOR_SYNC = "WaitingForSync"
    UNKNOWN = "Unknown"


FINAL_PHASES: Final = frozenset({VMIPhase.SUCCEEDED, VMIPhase.FAILED})
CONTROLLER_PHASES: Final = frozenset({VMIPhase.UNSET, VMIPhase.PENDING, VMIPhase.SCHEDULING})
"""Phases in which the controller owns the object."""
HANDLER_PHASES: Final = frozenset({VMIPhase.SCHEDULED, VMIPhase.RUNNING})
"""Phases in which the handler of its node owns the object."""


class VMIConditionType(StrEnum):
    """Types of `status.conditions`."""

    READY = "Ready"
    POD_SCHEDULED = "PodScheduled"
    SYNCHRONIZED = "Synchronized"
    PROVISIONING = "Provisioning"
    DATA_VOLUMES_READY = "DataVolumesReady"
    LIVE_MIGRATABLE = "LiveMigratable"
    STORAGE_LIVE_MIGRATABLE = "StorageLiveMigratable"
    PAUSED = "Paused"
    AGENT_CONNECTED = "AgentConnected"
    AGENT_VERSION_NOT_SUPPORTED = "AgentVersionNotSupported"
    ACCESS_CREDENTIALS_SYNCHRONIZED = "AccessCredentialsSynchronized"
    EVICTION_REQUESTED = "EvictionRequested"
    MIGRATION_REQUIRED = "MigrationRequired"
    HOT_VCPU_CHANGE = "HotVCPUChange"
    HOT_MEMORY_CHANGE = "HotMemoryChange"
    VOLUMES_CHANGE = "VolumesChange"
    SOFTWARE_EMULATION = "SoftwareEmulation"


class VMIConditionReason(StrEnum):
    """Reasons of those conditions."""

    POD_NOT_EXISTS = "PodNotExists"
    POD_TERMINATING = "PodTerminating"
    GUEST_NOT_RUNNING = "GuestNotRunning"
    POD_CONDITION_MISSING = "PodConditionMissing"
    UNSCHEDULABLE = "Unschedulable"
    FAILED_CREATE = "FailedCreate"
    ERR_IMAGE_PULL = "ErrImagePull"
    IMAGE_PULL_BACK_OFF = "ImagePullBackOff"
    FAILED_GUARANTEE_RESOURCES = "FailedGuaranteeResources"
    SYNC_FAILED = "Synchronizing with the Domain failed."
    PAUSED_BY_USER = "PausedByUser"
    PAUSED_BY_MIGRATION_MONITOR = "PausedByMigrationMonitor"
    PAUSED_IO_ERROR = "PausedIOError"
    EVICTION_REQUESTED = "EvictionRequested"
    INTERFACE_NOT_LIVE_MIGRATABLE = "InterfaceNotLiveMigratable"
    CPU_MODE_LIVE_MIGRATABLE = "CPUModeLiveMigratable"
    DISKS_NOT_LIVE_MIGRATABLE = "DisksNotLiveMigratable"
    NODE_UNRESPONSIVE = "NodeUnresponsive"


class VMIEventReason(StrEnum):
    """Reasons of Events about a VirtualMachineInstance, of the controller and then the handler."""

    SUCCESSFUL_CREATE = "SuccessfulCreate"
    FAILED_CREATE = "FailedCreate"
    SUCCESSFUL_DELETE = "SuccessfulDelete"
    FAILED_DELETE = "FailedDelete"
    SUCCESSFUL_HAND_OVER = "SuccessfulHandOver"
    FAILED_HAND_OVER = "FailedHandOver"
    FAILED_GUARANTEE_RESOURCES = "FailedGuaranteeResources"
    FAILED_PVC_NOT_FOUND = "FailedPvcNotFound"
    CREATED = "Created"
    STARTED = "Started"
    SHUTTING_DOWN = "ShuttingDown"
    STOPPED = "Stopped"
    DELETED = "Deleted"
    SYNC_FAILED = "SyncFailed"
    MIGRATING = "Migrating"
    MIGRATED = "Migrated"
    PREPARING_TARGET = "PreparingTarget"
    RESUMED = "Resumed"
    NODE_UNRESPONSIVE = "NodeUnresponsive"
    IO_ERROR = "IOerror"
    GUEST_PANICKED = "GuestPanicked"
