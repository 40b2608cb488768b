"""Machine type, firmware, kernel, and what the guest reads of itself in SMBIOS.

Source: libvirt, formatdomain, operating system booting and SMBIOS; kubevirt, as recorded.
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from hypercobalt.api.kubevirt.machine import ChassisSpec, FirmwareSpec, KernelBootSpec
from hypercobalt.api.kubevirt.spec import DomainSpec, VMISpec
from hypercobalt.vmi.domain.elements import element, yes
from hypercobalt.vmi.paths import PodPaths
from hypercobalt.vmi.unfit import UnfitVMIError

_ARCHITECTURES: Final = {"": "x86_64", "amd64": "x86_64"}
_BOOT_MENU_MS: Final = 10_000
_KERNEL: Final = "spec.domain.firmware.kernelBoot.container"


def os_element(spec: VMISpec, paths: PodPaths) -> Element:
    """The element `os`.

    Raises:
        UnfitVMIError: an architecture other than amd64, or a path of a kernel that is none.
    """
    domain = spec.domain
    arch = _ARCHITECTURES.get(spec.architecture)
    if arch is None:
        raise UnfitVMIError("spec.architecture", f"{spec.architecture[:64]!r} is not amd64")
    machine = domain.machine.type if domain.machine else ""
    firmware = domain.firmware or FirmwareSpec()
    return element(
        "os",
        element("type", arch=arch, machine=machine or None, text="hvm"),
        element("smbios", mode="sysinfo"),
        # Time for a person to reach the console of a guest that starts paused.
        element("bootmenu", enable="yes", timeout=_BOOT_MENU_MS) if spec.startStrategy else None,
        _bios(firmware),
        *_kernel(firmware.kernelBoot, paths),
    )


def _bios(firmware: FirmwareSpec) -> Element | None:
    bios = firmware.bootloader.bios if firmware.bootloader else None
    return element("bios", useserial=yes(so=True)) if bios and bios.useSerial else None


def _kernel(boot: KernelBootSpec | None, paths: PodPaths) -> list[Element]:
    if boot is None:
        return []
    files = boot.container
    made: list[Element] = []
    if files and files.kernelPath:
        path = paths.kernel_file(files.kernelPath, f"{_KERNEL}.kernelPath")
        made.append(element("kernel", text=path))
    if files and files.initrdPath:
        path = paths.kernel_file(files.initrdPath, f"{_KERNEL}.initrdPath")
        made.append(element("initrd", text=path))
    if boot.kernelArgs:
        made.append(element("cmdline", text=boot.kernelArgs))
    return made


def sysinfo_element(domain: DomainSpec) -> Element:
    """The element `sysinfo`: libvirt takes the domain's UUID from it."""
    firmware = domain.firmware or FirmwareSpec()
    system = {
        "uuid": firmware.uuid,
        "serial": firmware.serial,
        "manufacturer": "KubeVirt",
        "family": "KubeVirt",
        "product": "None",
    }
    return element("sysinfo", _entries("system", system), _chassis(domain.chassis), type="smbios")


def _chassis(spec: ChassisSpec | None) -> Element | None:
    if spec is None:
        return None
    entries = {
        "manufacturer": spec.manufacturer,
        "version": spec.version,
        "serial": spec.serial,
        "asset": spec.asset,
        "sku": spec.sku,
    }
    return _entries("chassis", entries)


def _entries(tag: str, values: dict[str, str]) -> Element:
    return element(
        tag, *(element("entry", name=name, text=text) for name, text in values.items() if text)
    )
