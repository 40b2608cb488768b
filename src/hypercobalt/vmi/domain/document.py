"""The document that libvirt makes a domain of.

Source: libvirt, formatdomain; kubevirt, pkg/virt-launcher/virtwrap/converter, as recorded in
`tests/unit/vmi/recorded/`. Differences have a line and a reason there.
"""

from __future__ import annotations

import hashlib
from typing import Final
from uuid import UUID
from xml.etree.ElementTree import Element, tostring

from hypercobalt.api.kubevirt.spec import DomainSpec
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.vmi.domain.clock import clock_element
from hypercobalt.vmi.domain.context import DomainContext
from hypercobalt.vmi.domain.cpu import cpu_elements
from hypercobalt.vmi.domain.devices import devices_element
from hypercobalt.vmi.domain.elements import element
from hypercobalt.vmi.domain.features import features_element
from hypercobalt.vmi.domain.machine import os_element, sysinfo_element
from hypercobalt.vmi.iothreads import io_threads
from hypercobalt.vmi.topology import guest_memory
from hypercobalt.vmi.unfit import UnfitVMIError, segment

NAMESPACE: Final = "http://kubevirt.io"
"""XML namespace of our metadata in a domain."""
LONGEST: Final = 1 << 20
"""Characters of a document."""

_LONGEST_NAME: Final = 240
"""Bytes of a domain's name: libvirt makes names of files of it, of 255 bytes at most."""


def domain_name(meta: ObjectMeta) -> str:
    """The domain's name, `NAMESPACE_NAME`; a longer one ends with a hash of itself.

    Raises:
        UnfitVMIError: namespace or name cannot be part of the name of a file.
    """
    namespace = segment(meta.namespace, "metadata.namespace")
    name = f"{namespace}_{segment(meta.name, 'metadata.name')}"
    if len(name.encode(errors="replace")) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:8]
    return f"{name[: _LONGEST_NAME - 9]}-{digest}"


def document(vmi: VirtualMachineInstance, context: DomainContext) -> str:
    """Make the document.

    Args:
        vmi: defaulted and admitted, as the handler passes it on.
        context: of the pod that starts the domain.

    Raises:
        UnfitVMIError: the VMI asks for what is not honoured or cannot be.
    """
    domain = vmi.spec.domain
    threads = io_threads(domain)
    _check_uuid(domain)
    root = element(
        "domain",
        element("name", text=domain_name(vmi.metadata)),
        element("memory", unit="b", text=str(guest_memory(domain).value)),
        *cpu_elements(domain.cpu, context),
        element("iothreads", text=str(threads.count)) if threads.count else None,
        os_element(vmi.spec, context.paths),
        sysinfo_element(domain),
        features_element(domain.features),
        clock_element(domain.clock),
        _metadata(vmi.metadata.uid),
        devices_element(vmi, context, threads),
        type="qemu" if context.emulation else "kvm",
    )
    return _bounded(tostring(root, encoding="unicode"))


def _metadata(uid: str) -> Element:
    """Whose the domain is, for who finds it without its VMI."""
    return element("metadata", element("kubevirt", element("uid", text=uid), xmlns=NAMESPACE))


def _check_uuid(domain: DomainSpec) -> None:
    uuid = domain.firmware.uuid if domain.firmware else ""
    try:
        _ = UUID(uuid) if uuid else None
    except ValueError as exc:
        raise UnfitVMIError("spec.domain.firmware.uuid", f"{uuid[:64]!r} is no UUID") from exc


def _bounded(text: str) -> str:
    if len(text) > LONGEST:
        raise UnfitVMIError(
            "spec.domain", f"the domain document has more than {LONGEST} characters"
        )
    return text
