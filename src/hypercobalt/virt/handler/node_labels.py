"""Labels of a Node by which launcher pods are placed: what its QEMU and its CPU can do. Pure.

Its annotation says where consoles are served.

Source: KubeVirt, pkg/virt-handler/node-labeller; libvirt, src/qemu/qemu_capabilities.c
(virQEMUCapsFormatCache, virQEMUCapsCPUFeaturesX86).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from hypercobalt.adapters.libvirt.documents.tree import DocumentError, Element, read
from hypercobalt.api.diagnostics import DiagnosticsEndpoint
from hypercobalt.api.kubevirt.console import ENDPOINT, read_endpoint
from hypercobalt.api.kubevirt.names import (
    CPU_FEATURE_PREFIX,
    CPU_MODEL_PREFIX,
    MACHINE_TYPE_PREFIX,
    SCHEDULABLE,
)

TRUE: Final = "true"
_WANTED: Final = frozenset({"arch", "machine", "cpu", "hostCPU"})
_ARCHITECTURE: Final = "x86_64"
"""What guests have; libvirt describes emulators of other architectures, too."""
_EMULATED: Final = frozenset({"tcg", "qemu"})
"""How versions of libvirt name what QEMU does without KVM."""
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
_OURS: Final = (MACHINE_TYPE_PREFIX, CPU_MODEL_PREFIX, CPU_FEATURE_PREFIX)
_BY_LIBVIRT: Final = {"pclmulqdq": "pclmuldq"} | {
    name.replace("_", "-"): name
    for name in (
        *("cmp_legacy", "ds_cpl", "fxsr_opt", "kvm_pv_eoi", "kvm_pv_unhalt", "lahf_lm"),
        *("nodeid_msr", "perfctr_core", "perfctr_nb", "tsc_adjust"),
    )
}
"""Features of a CPU that libvirt, and so a VMI, names otherwise than QEMU."""
_MOST_ELEMENTS: Final = 20_000


def labels_of(caches: Iterable[str], *, emulation: bool) -> dict[str, str]:
    """Labels for the machine types, the CPU models and the CPU features that guests can have.

    Args:
        caches: libvirt's descriptions of emulators; one that cannot be read counts as none.
        emulation: guests run without KVM.
    """
    found: dict[str, str] = {}
    for cache in caches:
        try:
            root = read(cache, root="qemuCaps", wanted=_WANTED, most=_MOST_ELEMENTS)
        except DocumentError:
            continue
        if root.text_of("arch") != _ARCHITECTURE:
            continue
        for tag, prefix in (("machine", MACHINE_TYPE_PREFIX), ("cpu", CPU_MODEL_PREFIX)):
            for one in root.all(tag):
                if (one.get("type") in _EMULATED) is not emulation or one.get("usable") == "no":
                    continue
                names = (one.get("name"), one.get("alias"))
                found |= {prefix + name: TRUE for name in names if _NAME.fullmatch(name)}
        for host in root.all("hostCPU"):
            if (host.get("type") in _EMULATED) is emulation:
                found |= dict.fromkeys(_features(host), TRUE)
    return found


def _features(host: Element) -> Iterator[str]:
    """Labels for what a CPU with everything that is there has."""
    for one in host.all("property"):
        name = _BY_LIBVIRT.get(one.get("name"), one.get("name"))
        is_there = (one.get("type"), one.get("value")) == ("boolean", TRUE)
        if is_there and _NAME.fullmatch(name):
            yield CPU_FEATURE_PREFIX + name


def changes(present: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str | None]:
    """What has to be written of a Node's labels; None removes one.

    Args:
        present: of the Node.
        wanted: of `labels_of`; empty while nothing is known, which removes nothing.
    """
    all_ = {**wanted, SCHEDULABLE: TRUE}
    new: dict[str, str | None] = {k: v for k, v in all_.items() if present.get(k) != v}
    if wanted:
        new |= {k: None for k in present if k.startswith(_OURS) and k not in all_}
    return new


def annotations_of(
    present: Mapping[str, str], endpoint: DiagnosticsEndpoint | None
) -> dict[str, str]:
    """What has to be written of a Node's annotations.

    Args:
        present: of the Node.
        endpoint: where consoles are served; None while that is not known, which changes nothing.
    """
    if endpoint is None or read_endpoint(present.get(ENDPOINT, "")) == endpoint:
        return {}
    return {ENDPOINT: msgspec.json.encode(endpoint).decode()}
