"""Models of virtio devices: modern alone, unless a VMI wants those that old guests know."""

from __future__ import annotations

from hypercobalt.api.kubevirt.devices import DevicesSpec


def virtio_model(devices: DevicesSpec) -> str:
    """The model of a virtio device in libvirt's words."""
    return "virtio-transitional" if devices.useVirtioTransitional else "virtio-non-transitional"
