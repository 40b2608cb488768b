"""Addresses of a guest's devices, as people write them and as libvirt reads them."""

from __future__ import annotations

import re
from typing import Final
from xml.etree.ElementTree import Element

from hypercobalt.vmi.domain.elements import element
from hypercobalt.vmi.unfit import UnfitVMIError

_PCI: Final = re.compile(
    r"([0-9a-f]{4}):([0-9a-f]{2}):([01][0-9a-f]|2[0-9a-f]|3[0-9a-f])\.([0-7])",
    re.ASCII | re.IGNORECASE,
)
_COLONS: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", re.ASCII | re.IGNORECASE)
_OTHER: Final = re.compile(
    r"[0-9a-f]{2}(-[0-9a-f]{2}){5}|[0-9a-f]{4}(\.[0-9a-f]{4}){2}", re.ASCII | re.IGNORECASE
)


def pci_address(text: str, field: str) -> Element:
    """The element `address` of a PCI address such as `0000:07:00.0`.

    Raises:
        UnfitVMIError: it is none.
    """
    found = _PCI.fullmatch(text)
    if found is None:
        raise UnfitVMIError(field, f"{text[:64]!r} is no PCI address")
    domain, bus, slot, function = (f"0x{part}" for part in found.groups())
    return element("address", type="pci", domain=domain, bus=bus, slot=slot, function=function)


def mac_address(text: str, field: str) -> str:
    """A MAC address with colons, which libvirt wants; KubeVirt takes dashes and dots as well.

    Raises:
        UnfitVMIError: it is no address of six bytes.
    """
    if _COLONS.fullmatch(text):
        return text
    if _OTHER.fullmatch(text) is None:
        raise UnfitVMIError(field, f"{text[:64]!r} is no MAC address")
    digits = text.translate(str.maketrans("", "", "-."))
    return ":".join(digits[at : at + 2] for at in range(0, len(digits), 2))
