"""Names, labels and annotations of a launcher pod.

Source: kubevirt, pkg/virt-controller/services/template.go, as recorded.
"""

from __future__ import annotations

import hashlib
from typing import Final

from hypercobalt.api.kubevirt import names
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.meta import ObjectMeta, owner_reference
from hypercobalt.vmi.overhead import overhead_bytes

_LONGEST_LABEL: Final = 63
_KEPT: Final = 54
"""Characters of a long name that its label keeps, before the hash."""
_NOT_COPIED: Final = frozenset(
    {names.LATEST_OBSERVED_API_VERSION, names.STORAGE_OBSERVED_API_VERSION}
)
_KUBECTL: Final = "kubectl.kubernetes.io"
_MASQUERADE_BRIDGE: Final = "k6t-eth0"
_DESCHEDULER: Final = "descheduler.alpha.kubernetes.io/request-evict-only"
"""Has the descheduler request an eviction and leave the rest to whoever answers it."""
_ISTIO: Final = (
    "istio.io/reroute-virtual-interfaces",
    "traffic.sidecar.istio.io/kubevirtInterfaces",
)
"""Bridges whose traffic Istio's sidecar takes for the pod's own."""


def pod_meta(vmi: VirtualMachineInstance) -> ObjectMeta:
    """Metadata of the pod: what the VMI has, and over it our own."""
    meta = vmi.metadata
    return ObjectMeta(
        generateName=f"virt-launcher-{meta.name}-",
        namespace=meta.namespace,
        labels=meta.labels | _labels(vmi),
        annotations=_copied(meta.annotations) | _annotations(vmi),
        ownerReferences=(owner_reference(vmi, controller=True, blocks=True),),
    )


def hostname(vmi: VirtualMachineInstance) -> str:
    """The guest's host name: as given, else the first label of the VMI's name."""
    first = vmi.metadata.name.partition(".")[0][:_LONGEST_LABEL]
    return vmi.spec.hostname or first.rstrip("-")  # a name that is cut may end anywhere


def _labels(vmi: VirtualMachineInstance) -> dict[str, str]:
    return {
        names.APP: names.LAUNCHER,
        names.CREATED_BY: vmi.metadata.uid,
        names.VM_NAME: hostname(vmi),
        names.VMI_ID: _short(vmi.metadata.name),
    }


def _short(name: str) -> str:
    """The name as the value of a label; a long one ends with a hash, so that two still differ."""
    if len(name) <= _LONGEST_LABEL:
        return name
    digest = hashlib.sha1(name.encode(errors="replace"), usedforsecurity=False).hexdigest()
    return f"{name[:_KEPT]}-{digest[:8]}"


def _copied(annotations: dict[str, str]) -> dict[str, str]:
    return {
        key: value
        for key, value in annotations.items()
        if key not in _NOT_COPIED and not key.startswith(_KUBECTL)
    }


def _annotations(vmi: VirtualMachineInstance) -> dict[str, str]:
    made = {
        names.DOMAIN: vmi.metadata.name,
        names.DEFAULT_CONTAINER: names.COMPUTE_CONTAINER,
        names.MIGRATION_TRANSPORT_UNIX: "true",
        names.MEMORY_OVERHEAD_BYTES: str(overhead_bytes(vmi.spec.domain)),
        _DESCHEDULER: "",
    }
    if any(nic.masquerade is not None for nic in vmi.spec.domain.devices.interfaces):
        made |= dict.fromkeys(_ISTIO, _MASQUERADE_BRIDGE)
    return made
