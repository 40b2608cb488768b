"""Features of the machine that the guest sees.

Source: libvirt, formatdomain, hypervisor features; kubevirt, as recorded.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from hypercobalt.api.kubevirt.machine import APICSpec, FeaturesSpec
from hypercobalt.vmi.domain.elements import element, switch


def features_element(spec: FeaturesSpec | None) -> Element:
    """The element `features`; ACPI counts as on where nothing is said."""
    given = spec or FeaturesSpec()
    acpi = given.acpi.enabled is not False
    return element(
        "features",
        element("acpi") if acpi else None,
        _apic(given.apic),
        element("vmport", state=switch(on=False)),  # no guest of ours looks for VMware
    )


def _apic(spec: APICSpec | None) -> Element | None:
    if spec is None or spec.enabled is False:
        return None
    return element("apic", eoi=switch(on=True) if spec.endOfInterrupt else None)
