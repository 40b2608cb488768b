"""Reads `virsh domcapabilities` and flattens it to the lists of the Hypervisor's status.

Only what is supported is listed, in the document's order and once; the values of an `<enum>`
follow the device or mode that they belong to. Features are names alone: schedulers compare the list
of one host with that of another, and other agents write no values.

Source: libvirt's formatdomaincaps.html; Hypervisor `status.domainCapabilities`.
"""

from __future__ import annotations

from collections.abc import Iterator

from hypercobalt.adapters.libvirt.documents.tree import Element, read
from hypercobalt.adapters.libvirt.model import DomainCapabilities

_WANTED = frozenset({"domain", "arch", "cpu", "devices", "features"})


def parse(document: str | bytes) -> DomainCapabilities:
    """Read the document; what it lacks is `unknown` or empty.

    Raises:
        DocumentError: it cannot be read.
    """
    root = read(document, root="domainCapabilities", wanted=_WANTED)
    return DomainCapabilities(
        arch=root.text_of("arch") or "unknown",
        hypervisor_type=root.text_of("domain") or "unknown",
        devices=_supported(root.all("devices")),
        cpu_modes=tuple(
            flat
            for mode in root.all("cpu/mode")
            if mode.get("name")
            for flat in _flatten(f"mode/{mode.get('name')}", mode)
        ),
        features=tuple(
            dict.fromkeys(
                feature.tag
                for features in root.all("features")
                for feature in features.children
                if feature.get("supported") == "yes"
            )
        ),
    )


def _supported(groups: Iterator[Element]) -> tuple[str, ...]:
    items = (item for group in groups for item in group.children)
    # Two enums of a disk, its bus and its model, may have one value.
    return tuple(dict.fromkeys(flat for item in items for flat in _flatten(item.tag, item)))


def _flatten(name: str, item: Element) -> Iterator[str]:
    if item.get("supported") != "yes":
        return
    yield name
    for value in item.all("enum/value"):
        if text := value.text.strip():
            yield f"{name}/{text}"
