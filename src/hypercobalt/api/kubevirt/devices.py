"""The devices of a guest.

An absent `autoattach…` counts as true. A member such as `masquerade` counts by its presence alone.

Source: kubevirt.io/api, core/v1/schema.go.
"""

from __future__ import annotations

from hypercobalt.api.meta import Struct


class Present(Struct, frozen=True):
    """A member without fields of its own."""


class DiskTarget(Struct, frozen=True):
    bus: str = ""  # virtio, sata, scsi or usb
    readonly: bool = False
    pciAddress: str = ""


class LunTarget(Struct, frozen=True):
    bus: str = ""
    readonly: bool = False
    reservation: bool = False


class CDRomTarget(Struct, frozen=True):
    bus: str = ""
    readonly: bool | None = None  # absent counts as true
    tray: str = ""  # open or closed


class CustomBlockSize(Struct, frozen=True):
    logical: int = 0  # bytes
    physical: int = 0
    discardGranularity: int | None = None


class MatchVolume(Struct, frozen=True):
    enabled: bool | None = None


class BlockSize(Struct, frozen=True):
    custom: CustomBlockSize | None = None
    matchVolume: MatchVolume | None = None


class DiskSpec(Struct, frozen=True):
    """One disk of the guest, on the volume of its name; one of disk, lun and cdrom is set."""

    name: str
    disk: DiskTarget | None = None
    lun: LunTarget | None = None
    cdrom: CDRomTarget | None = None
    bootOrder: int | None = None  # from 1, of disks and interfaces together
    serial: str = ""
    dedicatedIOThread: bool | None = None
    cache: str = ""  # none, writethrough or writeback
    io: str = ""  # native or threads
    tag: str = ""
    blockSize: BlockSize | None = None
    shareable: bool | None = None
    errorPolicy: str = ""  # stop, ignore, report or enospace


class PortSpec(Struct, frozen=True):
    """A port that is forwarded to the guest."""

    port: int
    name: str = ""
    protocol: str = ""  # TCP or UDP; empty means TCP


class PrivateDHCPOption(Struct, frozen=True):
    option: int
    value: str


class DHCPOptions(Struct, frozen=True):
    bootFileName: str = ""
    tftpServerName: str = ""
    ntpServers: tuple[str, ...] = ()
    privateOptions: tuple[PrivateDHCPOption, ...] = ()


class InterfaceSpec(Struct, frozen=True):
    """One NIC of the guest, on the network of its name; one of the bindings is set."""

    name: str
    masquerade: Present | None = None
    bridge: Present | None = None
    model: str = ""  # empty means virtio
    macAddress: str = ""
    bootOrder: int | None = None
    pciAddress: str = ""
    acpiIndex: int = 0
    tag: str = ""
    state: str = ""  # up, down or absent
    ports: tuple[PortSpec, ...] = ()
    dhcpOptions: DHCPOptions | None = None


class InputSpec(Struct, frozen=True):
    name: str
    type: str  # tablet
    bus: str = ""  # virtio or usb


class SoundSpec(Struct, frozen=True):
    name: str
    model: str = ""  # ich9 or ac97


class VideoSpec(Struct, frozen=True):
    type: str = ""


class I6300ESB(Struct, frozen=True):
    action: str = ""  # poweroff, reset or shutdown


class WatchdogSpec(Struct, frozen=True):
    name: str
    i6300esb: I6300ESB | None = None


class PanicDeviceSpec(Struct, frozen=True):
    model: str = ""  # hyperv, isa or pvpanic


class DevicesSpec(Struct, frozen=True):
    disks: tuple[DiskSpec, ...] = ()
    interfaces: tuple[InterfaceSpec, ...] = ()
    inputs: tuple[InputSpec, ...] = ()
    rng: Present | None = None
    sound: SoundSpec | None = None
    video: VideoSpec | None = None
    watchdog: WatchdogSpec | None = None
    panicDevices: tuple[PanicDeviceSpec, ...] = ()
    autoattachPodInterface: bool | None = None
    autoattachGraphicsDevice: bool | None = None
    autoattachSerialConsole: bool | None = None
    logSerialConsole: bool | None = None
    autoattachMemBalloon: bool | None = None
    autoattachInputDevice: bool | None = None
    disableHotplug: bool = False
    blockMultiQueue: bool | None = None
    networkInterfaceMultiqueue: bool | None = None
    useVirtioTransitional: bool | None = None
