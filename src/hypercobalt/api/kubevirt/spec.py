"""What a VirtualMachineInstance should be: its guest, and where the pod of it may run.

Source: kubevirt.io/api, core/v1/schema.go; `vmi/support.py` names the fields that are honoured.
"""

from __future__ import annotations

from hypercobalt.api.affinity import Affinity
from hypercobalt.api.kubevirt.devices import DevicesSpec
from hypercobalt.api.kubevirt.machine import (
    ChassisSpec,
    ClockSpec,
    CPUSpec,
    FeaturesSpec,
    FirmwareSpec,
    GuestMemory,
    IOThreadsSpec,
    MachineSpec,
)
from hypercobalt.api.kubevirt.volumes import NetworkSpec, VolumeSpec
from hypercobalt.api.meta import Struct
from hypercobalt.api.quantity import Quantity
from hypercobalt.api.workloads import Toleration


class DomainResources(Struct, frozen=True):
    """Requests and limits of the guest, by resource; the launcher's own come on top."""

    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    overcommitGuestOverhead: bool = False


class DomainSpec(Struct, frozen=True):
    """The virtual machine itself."""

    resources: DomainResources = DomainResources()
    cpu: CPUSpec | None = None
    memory: GuestMemory | None = None
    machine: MachineSpec | None = None
    firmware: FirmwareSpec | None = None
    clock: ClockSpec | None = None
    features: FeaturesSpec | None = None
    devices: DevicesSpec = DevicesSpec()
    ioThreadsPolicy: str = ""  # shared, auto or supplementalPool
    ioThreads: IOThreadsSpec | None = None
    chassis: ChassisSpec | None = None


class VMISpec(Struct, frozen=True):
    domain: DomainSpec = DomainSpec()
    architecture: str = ""  # amd64
    volumes: tuple[VolumeSpec, ...] = ()
    networks: tuple[NetworkSpec, ...] = ()
    nodeSelector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    priorityClassName: str = ""
    schedulerName: str = ""
    hostname: str = ""
    subdomain: str = ""
    evictionStrategy: str = ""  # None, LiveMigrate, LiveMigrateIfPossible or External
    startStrategy: str = ""  # Paused, or empty
    terminationGracePeriodSeconds: int | None = None  # absent counts as 30
