"""All devices of the guest.

Source: libvirt, formatdomain, devices; kubevirt, as recorded.
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from hypercobalt.api.kubevirt.devices import DevicesSpec, SoundSpec, WatchdogSpec
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.vmi.domain.consoles import console_elements, has_serial
from hypercobalt.vmi.domain.context import DomainContext
from hypercobalt.vmi.domain.disks import disk_elements
from hypercobalt.vmi.domain.elements import alias, element
from hypercobalt.vmi.domain.interfaces import interface_elements
from hypercobalt.vmi.domain.models import virtio_model
from hypercobalt.vmi.domain.targets import guest_disks
from hypercobalt.vmi.iothreads import IOThreads

_BALLOON_PERIOD_S: Final = 10
"""How often the guest reports its memory, in seconds."""


def devices_element(
    vmi: VirtualMachineInstance, context: DomainContext, threads: IOThreads
) -> Element:
    """The element `devices`.

    Raises:
        UnfitVMIError: a device cannot be as the VMI has it.
    """
    spec, devices = vmi.spec, vmi.spec.domain.devices
    disks = guest_disks(devices.disks)
    return element(
        "devices",
        *interface_elements(spec, context),
        *_controllers(devices, {disk.bus for disk in disks}),
        *disk_elements(spec, disks, context, threads),
        *console_elements(devices, vmi.metadata.uid, context.paths),
        _balloon(devices),
        _rng(devices),
        *_extras(devices),
    )


def _controllers(devices: DevicesSpec, buses: set[str]) -> list[Element]:
    model = virtio_model(devices)
    usb = "usb" in buses or any((one.bus or "usb") == "usb" for one in devices.inputs)
    made = [element("controller", type="usb", index=0, model="qemu-xhci" if usb else "none")]
    if not devices.disableHotplug or "scsi" in buses:
        made.append(element("controller", type="scsi", index=0, model=model))
    if has_serial(devices):
        made.append(element("controller", type="virtio-serial", index=0, model=model))
    return made


def _balloon(devices: DevicesSpec) -> Element:
    if devices.autoattachMemBalloon is False:
        return element("memballoon", model="none")  # libvirt adds one where nothing is said
    return element(
        "memballoon",
        element("stats", period=_BALLOON_PERIOD_S),
        model=virtio_model(devices),
        freePageReporting="on",
    )


def _rng(devices: DevicesSpec) -> Element | None:
    if devices.rng is None:
        return None
    backend = element("backend", model="random", text="/dev/urandom")
    return element("rng", backend, model=virtio_model(devices))


def _extras(devices: DevicesSpec) -> list[Element]:
    made = [element("panic", model=panic.model or None) for panic in devices.panicDevices]
    if devices.watchdog is not None:
        made.append(_watchdog(devices.watchdog))
    if devices.sound is not None:
        made.append(_sound(devices.sound))
    return made


def _watchdog(spec: WatchdogSpec) -> Element:
    action = (spec.i6300esb.action if spec.i6300esb else "") or "reset"
    return element("watchdog", alias(spec.name), model="i6300esb", action=action)


def _sound(spec: SoundSpec) -> Element:
    return element("sound", alias(spec.name), model=spec.model or "ich9")
