"""What a VirtualMachineInstance is: written by the controller, then by the handler of its node.

Source: kubevirt.io/api, core/v1/types.go.
"""

from __future__ import annotations

from datetime import datetime

from hypercobalt.api.meta import Struct
from hypercobalt.api.quantity import Quantity


class VMICondition(Struct, frozen=True):
    """One aspect of the state; unlike other conditions it needs neither reason nor time."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    lastProbeTime: datetime | None = None
    lastTransitionTime: datetime | None = None


class PhaseTransition(Struct, frozen=True):
    """The first entry into a phase."""

    phase: str = ""
    phaseTransitionTimestamp: datetime | None = None


class InterfaceStatus(Struct, frozen=True):
    """One NIC; that of the pod network is the first."""

    name: str = ""
    ipAddress: str = ""
    ipAddresses: tuple[str, ...] = ()
    mac: str = ""
    interfaceName: str = ""  # in the guest
    podInterfaceName: str = ""
    infoSource: str = ""  # domain, guest-agent and multus-status, with commas
    queueCount: int = 0
    linkState: str = ""


class VolumeStatus(Struct, frozen=True):
    name: str
    target: str  # such as vda
    phase: str = ""
    reason: str = ""
    message: str = ""
    size: int = 0  # bytes


class GuestOSInfo(Struct, frozen=True):
    """What the guest agent reports of the guest's system."""

    id: str = ""
    name: str = ""
    prettyName: str = ""
    version: str = ""
    versionId: str = ""
    kernelRelease: str = ""
    kernelVersion: str = ""
    machine: str = ""


class MachineStatus(Struct, frozen=True):
    type: str = ""  # the expanded name, such as pc-q35-7.2


class CPUTopology(Struct, frozen=True):
    sockets: int = 0
    cores: int = 0
    threads: int = 0


class MemoryStatus(Struct, frozen=True):
    guestAtBoot: Quantity | None = None
    guestCurrent: Quantity | None = None
    guestRequested: Quantity | None = None
    memoryOverhead: Quantity | None = None


class VMIStatus(Struct, frozen=True):
    phase: str = ""
    reason: str = ""
    nodeName: str = ""
    activePods: dict[str, str] = {}  # node name by pod UID
    conditions: tuple[VMICondition, ...] = ()
    phaseTransitionTimestamps: tuple[PhaseTransition, ...] = ()
    interfaces: tuple[InterfaceStatus, ...] = ()
    volumeStatus: tuple[VolumeStatus, ...] = ()
    guestOSInfo: GuestOSInfo = GuestOSInfo()
    machine: MachineStatus | None = None
    currentCPUTopology: CPUTopology | None = None
    memory: MemoryStatus | None = None
    qosClass: str = ""
    runtimeUser: int = 0
    selinuxContext: str = ""
    launcherContainerImageVersion: str = ""
    evacuationNodeName: str = ""
    migrationMethod: str = ""  # BlockMigration or LiveMigration
    migrationTransport: str = ""  # Unix
    fsFreezeStatus: str = ""  # frozen, or empty
    virtualMachineRevisionName: str = ""
