"""A VM as libvirt reads it: pure, from a specification to the document.

Source: https://libvirt.org/formatdomain.html; Nova's libvirt driver for what a real site defines
(persistent domains, i6300esb, an Open vSwitch port with an interface id).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal
from xml.etree import ElementTree as ET

from hypercobalt.lab.guest.probe import DomainType
from hypercobalt.lab.ovn import INTEGRATION_BRIDGE

CrashAction = Literal["destroy", "restart", "preserve"]
WatchdogAction = Literal["reset", "poweroff", "pause", "shutdown", "none", "inject-nmi", "dump"]
WatchdogModel = Literal["i6300esb", "ib700"]
ErrorPolicy = Literal["stop", "report", "ignore", "enospace"]

MTU = 1442  # an Ethernet frame of 1500 less what Geneve adds


@dataclass(frozen=True, slots=True)
class Kernel:
    """Direct boot: paths in the host."""

    kernel: str
    initrd: str
    command_line: str


@dataclass(frozen=True, slots=True)
class RawDisk:
    """A raw file in the host, `vda`, `vdb` and so on in their order.

    Args:
        path: of the file.
        error_policy: what QEMU does when a request fails.
        cache: `none` where hosts share the file, or libvirt calls a migration unsafe; not every
            file system can do without the host's cache.
        readonly: the guest cannot write to it, so QEMU takes no lock that excludes another QEMU.
    """

    path: str
    error_policy: ErrorPolicy = "stop"
    cache: Literal["none", "writeback"] = "none"
    readonly: bool = False


@dataclass(frozen=True, slots=True)
class Port:
    """A port of the logical switch, found by its interface id."""

    interface_id: uuid.UUID
    mac: str


@dataclass(frozen=True, slots=True)
class Watchdog:
    """A watchdog, and what happens when it is not petted; ib700 is what a boot sector can reach."""

    action: WatchdogAction = "reset"
    model: WatchdogModel = "i6300esb"


@dataclass(frozen=True, slots=True)
class Tuning:
    """Where a VM may run on its host.

    Args:
        pins: host CPUs by vCPU, as libvirt writes sets: `0-1,3`.
        emulator: host CPUs of QEMU's own threads; empty is any.
        nodes: host NUMA cells of the memory, strictly; empty is any.
        cells: memory of the guest's NUMA cells in MiB, and their vCPUs.
    """

    pins: tuple[tuple[int, str], ...] = ()
    emulator: str = ""
    nodes: str = ""
    cells: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """All that a VM's document has.

    Args:
        name: as operators see it.
        title: a line of our own that libvirt keeps with the domain.
        boots: a kernel, or None for the first disk.
        console: the Unix socket of the serial port, in the host.
        log: the file that keeps what the serial port prints, in the host.
        extra: elements to append to `<domain>`, for documents that no sane site has.
    """

    name: str
    uuid: uuid.UUID
    type: DomainType
    title: str
    console: str
    log: str
    memory_mib: int = 160
    vcpus: int = 1
    boots: Kernel | None = None
    disks: tuple[RawDisk, ...] = ()
    port: Port | None = None
    watchdog: Watchdog | None = field(default_factory=Watchdog)
    on_crash: CrashAction = "destroy"
    tuning: Tuning = field(default_factory=Tuning)
    extra: tuple[ET.Element, ...] = ()

    def xml(self) -> str:
        """The document for `virsh define`."""
        children = [
            _text("name", self.name),
            _text("uuid", str(self.uuid)),
            _text("title", self.title),
            _text("memory", str(self.memory_mib), unit="MiB"),
            _text("vcpu", str(self.vcpus)),
            *_tuning(self.tuning),
            _os(self.boots),
            element("features", element("acpi"), element("apic")),
            _text("on_poweroff", "destroy"),
            _text("on_reboot", "restart"),
            _text("on_crash", self.on_crash),
            element("devices", *self._devices()),
            *self.extra,
        ]
        return ET.tostring(element("domain", *children, type=self.type), encoding="unicode")

    def _devices(self) -> Iterable[ET.Element]:
        for number, disk in enumerate(self.disks):
            yield _disk(disk, f"vd{chr(ord('a') + number)}")
        if self.port:
            yield _interface(self.port)
        yield element(
            "serial",
            element("source", mode="bind", path=self.console),
            element("log", file=self.log, append="on"),
            type="unix",
        )
        if self.boots:  # only guests other than boot sectors may have a guest agent
            target = element("target", type="virtio", name="org.qemu.guest_agent.0")
            yield element("channel", target, type="unix")
        if self.watchdog:
            yield element("watchdog", model=self.watchdog.model, action=self.watchdog.action)
        yield element("panic", model="isa")
        yield element("memballoon", element("stats", period="10"), model="virtio")
        yield element("controller", type="usb", model="none")


def element(tag: str, *children: ET.Element, **attributes: str) -> ET.Element:
    """An XML element with children and attributes."""
    made = ET.Element(tag, attributes)
    made.extend(children)
    return made


def _text(tag: str, text: str, **attributes: str) -> ET.Element:
    made = element(tag, **attributes)
    made.text = text
    return made


def _os(boots: Kernel | None) -> ET.Element:
    # i440fx: the boot sectors use its ports, and the ib700 watchdog exists only there.
    made = element("os", _text("type", "hvm", arch="x86_64", machine="pc"))
    if boots:
        made.append(_text("kernel", boots.kernel))
        made.append(_text("initrd", boots.initrd))
        made.append(_text("cmdline", boots.command_line))
    else:
        made.append(element("boot", dev="hd"))
    return made


def _disk(disk: RawDisk, target: str) -> ET.Element:
    return element(
        "disk",
        element(
            "driver",
            name="qemu",
            type="raw",
            cache=disk.cache,
            error_policy=disk.error_policy,
        ),
        element("source", file=disk.path),
        element("target", dev=target, bus="virtio"),
        *((element("readonly"),) if disk.readonly else ()),
        type="file",
        device="disk",
    )


def _interface(port: Port) -> ET.Element:
    # The switch runs in user space and sees frames as they are: no device would fill in checksums
    # that the guest left to the hardware.
    off = dict.fromkeys(("csum", "gso", "tso4", "tso6", "ecn", "ufo"), "off")
    guest = {key: value for key, value in off.items() if key != "gso"}
    return element(
        "interface",
        element("mac", address=port.mac),
        element("source", bridge=INTEGRATION_BRIDGE),
        element(
            "virtualport",
            element("parameters", interfaceid=str(port.interface_id)),
            type="openvswitch",
        ),
        element("model", type="virtio"),
        element("driver", element("host", **off), element("guest", **guest)),
        element("mtu", size=str(MTU)),
        type="bridge",
    )


def _tuning(tuning: Tuning) -> Iterable[ET.Element]:
    pins = [element("vcpupin", vcpu=str(vcpu), cpuset=cpus) for vcpu, cpus in tuning.pins]
    if tuning.emulator:
        pins.append(element("emulatorpin", cpuset=tuning.emulator))
    if pins:
        yield element("cputune", *pins)
    if tuning.nodes:
        memory = element("memory", mode="strict", nodeset=tuning.nodes)
        yield element("numatune", memory)
    if tuning.cells:
        cells = (
            element("cell", id=str(number), cpus=cpus, memory=str(mib), unit="MiB")
            for number, (mib, cpus) in enumerate(tuning.cells)
        )
        yield element("cpu", element("numa", *cells))
