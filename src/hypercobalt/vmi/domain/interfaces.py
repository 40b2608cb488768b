"""NICs of the guest, each on the tap that virt-handler has made in the pod.

Source: libvirt, formatdomain, generic ethernet connection; kubevirt, as recorded.
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from hypercobalt.api.kubevirt.devices import DevicesSpec, InterfaceSpec
from hypercobalt.api.kubevirt.spec import VMISpec
from hypercobalt.vmi.domain.addresses import mac_address, pci_address
from hypercobalt.vmi.domain.context import DomainContext, Tap
from hypercobalt.vmi.domain.elements import alias, element
from hypercobalt.vmi.domain.models import virtio_model
from hypercobalt.vmi.topology import topology
from hypercobalt.vmi.unfit import UnfitVMIError

VIRTIO: Final = "virtio"
MODELS: Final = frozenset({VIRTIO, "e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139"})

_MOST_QUEUES: Final = 256
"""Queues that the kernel gives a tap."""


def interface_elements(spec: VMISpec, context: DomainContext) -> list[Element]:
    """An element `interface` for each NIC, in their order.

    Raises:
        UnfitVMIError: a NIC is on no pod network, has no binding that is honoured, or an address
            or a model that is none.
    """
    pod = {network.name for network in spec.networks if network.pod is not None}
    queues = _queues(spec)
    made: list[Element] = []
    for number, nic in enumerate(spec.domain.devices.interfaces):
        path = f"spec.domain.devices.interfaces[{number}]"
        if nic.name not in pod:
            raise UnfitVMIError(f"{path}.name", f"{nic.name[:64]!r} is no pod network")
        if nic.masquerade is None and nic.bridge is None:
            raise UnfitVMIError(path, "has neither masquerade nor bridge")
        tap = context.taps.get(nic.name)
        driver = _driver(queues, context) if (nic.model or VIRTIO) == VIRTIO else None
        made.append(_interface(nic, path, spec.domain.devices, tap, driver))
    return made


def _interface(
    nic: InterfaceSpec, path: str, devices: DevicesSpec, tap: Tap | None, driver: Element | None
) -> Element:
    mac = tap.mac if tap and tap.mac else nic.macAddress
    pci = f"{path}.pciAddress"
    return element(
        "interface",
        element("target", dev=tap.device, managed="no") if tap else None,
        element("model", type=_model(nic, path, devices)),
        element("mac", address=mac_address(mac, f"{path}.macAddress")) if mac else None,
        element("mtu", size=tap.mtu) if tap and tap.mtu else None,
        element("link", state="down") if nic.state == "down" else None,
        alias(nic.name),
        driver,
        pci_address(nic.pciAddress, pci) if nic.pciAddress else None,
        # Without a place in the boot order its boot code is never wanted.
        element("boot", order=nic.bootOrder) if nic.bootOrder else element("rom", enabled="no"),
        element("acpi", index=nic.acpiIndex) if nic.acpiIndex > 0 else None,
        type="ethernet",
    )


def _model(nic: InterfaceSpec, path: str, devices: DevicesSpec) -> str:
    model = nic.model or VIRTIO
    if model not in MODELS:
        raise UnfitVMIError(f"{path}.model", f"{model[:64]!r} is unknown")
    return virtio_model(devices) if model == VIRTIO else model


def _queues(spec: VMISpec) -> int:
    """Queues of a virtio NIC: one for each vCPU; 0 where one queue will do."""
    if not spec.domain.devices.networkInterfaceMultiqueue:
        return 0
    return min(topology(spec.domain.cpu).vcpus, _MOST_QUEUES)


def _driver(queues: int, context: DomainContext) -> Element | None:
    if not queues:
        return None
    return element("driver", name="vhost" if context.vhost_net else None, queues=queues)
