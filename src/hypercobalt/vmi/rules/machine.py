"""Rules about the machine: architecture, type, firmware, features, I/O threads, security."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final

from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.defaults.features import unmet
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import FieldCause
from hypercobalt.vmi.rules.causes import forbidden, invalid, required

ARCHITECTURES: Final = frozenset({"amd64", "arm64", "s390x"})

_PATTERNS: Final = {"arm64": ("virt*",), "s390x": ("s390-ccw-virtio*",)}
_POLICIES: Final = frozenset({"shared", "auto", "supplementalPool"})
_TDX: Final = "WorkloadEncryptionTDX"


def machine(spec: At, cluster: ClusterConfig) -> Iterator[FieldCause]:
    """Whether the architecture is known and the machine type permitted."""
    architecture, type_ = spec["architecture"], spec["domain.machine.type"]
    if architecture.text not in ARCHITECTURES:
        yield invalid(architecture, "must be amd64, arm64 or s390x")
    patterns = _PATTERNS.get(architecture.text, cluster.machine_patterns)
    known = any(fnmatchcase(type_.text, pattern) for pattern in patterns)
    if not known or "/" in type_.text:  # for which no star stands
        yield invalid(type_, f"must match {', '.join(patterns)}")


def firmware(domain: At) -> Iterator[FieldCause]:
    """Whether bootloader, kernel and tables go together."""
    loader = domain["firmware.bootloader"]
    efi = loader["efi"]
    if efi and loader["bios"]:
        yield invalid(loader, "must be bios or efi, not both")
    secure = bool(efi) and efi["secureBoot"].value is not False
    keyed = domain["features.smm.enabled"].flag or domain["launchSecurity.tdx"]
    if secure and not keyed:
        yield invalid(domain, "needs features.smm for secure boot")
    yield from _kernel(domain["firmware.kernelBoot"])


def _kernel(boot: At) -> Iterator[FieldCause]:
    container = boot["container"]
    if not container:
        if boot["kernelArgs"].text:
            yield invalid(boot["kernelArgs"], "needs a kernel")
        return
    if not container["image"].text:
        yield required(container["image"], "is required")
    kernel, ramdisk = container["kernelPath"], container["initrdPath"]
    if not (kernel.text or ramdisk.text):
        yield required(container, "needs kernelPath or initrdPath")
    for path in (kernel, ramdisk):
        if path.text and not is_path(path.text):
            yield invalid(path, "must be an absolute path to a file, without relative parts")


def is_path(text: str) -> bool:
    """Whether it is an absolute path without relative parts; one slash may end it."""
    named = text.removesuffix("/")
    return bool(named) and named == posixpath.normpath(f"///{text}") != "/"


def tables(spec: At) -> Iterator[FieldCause]:
    """Whether ACPI tables are on volumes of secrets."""
    acpi = spec["domain.firmware.acpi"]
    named = [name for name in ("slicNameRef", "msdmNameRef") if acpi[name].text]
    if acpi and not named:
        yield invalid("spec.acpi", "needs slicNameRef or msdmNameRef")
    secrets = {one["name"].text for one in spec["volumes"] if one["secret"]}
    for name in named:
        if acpi[name].text not in secrets:
            yield invalid(f"spec.acpi.{name}", "must be the name of a volume of a secret")


def features(domain: At) -> Iterator[FieldCause]:
    """Whether the enlightenments of Hyper-V have what they need."""
    features = domain["features"]
    hyperv = features["hyperv"]
    if features["hypervPassthrough"] and hyperv:
        yield invalid(hyperv, "cannot be combined with hypervPassthrough")
    for name, need in unmet(hyperv.members):
        # KubeVirt names the parent twice.
        yield invalid(f"{hyperv.path}.domain.features.hyperv.{name}", f"needs {need}")
    if hyperv["evmcs"] and hyperv["evmcs.enabled"].value is not False:
        yield from _required_by_evmcs(domain["cpu.features"])


def _required_by_evmcs(features: At) -> Iterator[FieldCause]:
    if not features.items:
        yield required(features, "must require vmx for evmcs")
    for one in features:
        if one["name"].text == "vmx" and one["policy"].text != "require":
            yield invalid(one["policy"], "must be require for evmcs")


def threads(domain: At) -> Iterator[FieldCause]:
    """Whether the policy of I/O threads is known and has its number."""
    policy = domain["ioThreadsPolicy"]
    if policy and policy.text not in _POLICIES:
        yield invalid(policy, "must be shared, auto or supplementalPool")
    count = domain["ioThreads.supplementalPoolThreadCount"]
    if policy.text == "supplementalPool" and not count.number:
        yield invalid(f"{domain.path}.ioThreads.count", "must be above zero")


def security(spec: At, cluster: ClusterConfig) -> Iterator[FieldCause]:
    """Whether one kind of launch security is chosen, and can be had."""
    launch, architecture = spec["domain.launchSecurity"], spec["architecture"]
    if launch and architecture.text == "amd64":
        yield from _of_amd64(spec, launch, cluster)
    elif launch and architecture.text != "s390x":
        yield invalid(architecture, "has no launch security")


def _of_amd64(spec: At, launch: At, cluster: ClusterConfig) -> Iterator[FieldCause]:
    kinds = launch.holds("sev", "snp", "tdx")
    if len(kinds) != 1:
        yield forbidden("spec.launchSecurity", "must name one of sev, snp and tdx")
        return
    if kinds == ["tdx"]:
        if _TDX not in cluster.feature_gates:
            yield invalid("spec.launchSecurity", "needs a feature gate that is off")
            return
        if spec["domain.features.smm.enabled"].flag:
            yield invalid("spec.launchSecurity", "has no SMM with TDX")
    efi = spec["domain.firmware.bootloader.efi"]
    if not efi:
        yield invalid("spec.launchSecurity", "needs EFI")
    elif kinds != ["tdx"] and efi["secureBoot"].value is not False:
        yield invalid("spec.launchSecurity", "has no secure boot")
    if kinds != ["sev"] and efi["persistent"].flag:
        yield invalid("spec.launchSecurity", "has no variables of EFI that stay")
    if any(one["bootOrder"] for one in spec["domain.devices.interfaces"]):
        yield invalid("spec.launchSecurity", "has no NICs to boot from")
    if launch["sev.attestation"] and spec["startStrategy"].text != "Paused":
        yield invalid("spec.launchSecurity", "is attested before the guest starts: Paused")
