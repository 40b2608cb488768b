"""The machine of a guest without its devices: CPU, memory, firmware, clock and features.

Source: kubevirt.io/api, core/v1/schema.go.
"""

from __future__ import annotations

from hypercobalt.api.meta import Struct
from hypercobalt.api.quantity import Quantity


class CPUFeature(Struct, frozen=True):
    name: str
    policy: str = ""  # force, require, optional, disable or forbid; empty means require


class CPUSpec(Struct, frozen=True):
    """The guest's CPUs; a count of zero is absent and counts as one."""

    sockets: int = 0
    cores: int = 0  # of a socket
    threads: int = 0  # of a core
    maxSockets: int = 0
    model: str = ""  # host-model, host-passthrough or a name of libvirt
    features: tuple[CPUFeature, ...] = ()
    dedicatedCpuPlacement: bool = False
    isolateEmulatorThread: bool = False


class Hugepages(Struct, frozen=True):
    pageSize: str = ""  # a quantity


class GuestMemory(Struct, frozen=True):
    guest: Quantity | None = None
    maxGuest: Quantity | None = None
    hugepages: Hugepages | None = None


class MachineSpec(Struct, frozen=True):
    type: str = ""  # such as q35 or pc-q35-7.2


class BIOSSpec(Struct, frozen=True):
    useSerial: bool | None = None


class BootloaderSpec(Struct, frozen=True):
    bios: BIOSSpec | None = None


class KernelBootContainer(Struct, frozen=True):
    """The image that holds kernel and initial ramdisk, and their paths in it."""

    image: str = ""
    imagePullPolicy: str = ""
    imagePullSecret: str = ""
    kernelPath: str = ""
    initrdPath: str = ""


class KernelBootSpec(Struct, frozen=True):
    container: KernelBootContainer | None = None
    kernelArgs: str = ""


class FirmwareSpec(Struct, frozen=True):
    uuid: str = ""
    serial: str = ""
    bootloader: BootloaderSpec | None = None
    kernelBoot: KernelBootSpec | None = None


class UTCOffset(Struct, frozen=True):
    offsetSeconds: int | None = None


class TimerSpec(Struct, frozen=True):
    """One timer; which of the two policies it has depends on the timer."""

    present: bool | None = None
    tickPolicy: str = ""  # delay, catchup, merge or discard
    track: str = ""  # guest or wall, of rtc alone


class TimersSpec(Struct, frozen=True):
    hpet: TimerSpec | None = None
    kvm: TimerSpec | None = None
    pit: TimerSpec | None = None
    rtc: TimerSpec | None = None
    hyperv: TimerSpec | None = None


class ClockSpec(Struct, frozen=True):
    utc: UTCOffset | None = None
    timezone: str = ""
    timer: TimersSpec | None = None


class FeatureState(Struct, frozen=True):
    enabled: bool | None = None  # absent counts as true


class APICSpec(Struct, frozen=True):
    enabled: bool | None = None
    endOfInterrupt: bool = False


class FeaturesSpec(Struct, frozen=True):
    acpi: FeatureState = FeatureState()
    apic: APICSpec | None = None


class IOThreadsSpec(Struct, frozen=True):
    supplementalPoolThreadCount: int | None = None


class ChassisSpec(Struct, frozen=True):
    """What the guest reads of its chassis in SMBIOS."""

    manufacturer: str = ""
    version: str = ""
    serial: str = ""
    asset: str = ""
    sku: str = ""
