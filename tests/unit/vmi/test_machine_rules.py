"""Machine types, paths, Hyper-V's enlightenments and launch security, as KubeVirt takes them."""

from __future__ import annotations

import pytest

from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.defaults import features as defaults
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import Json, JsonObject
from hypercobalt.vmi.rules import machine

LAUNCH = "spec.launchSecurity"
HYPERV = "spec.domain.features.hyperv"
VMX = "spec.domain.cpu.features"
TDX = ClusterConfig(feature_gates=frozenset({"WorkloadEncryptionTDX"}))
ON: JsonObject = {"enabled": True}
OFF: JsonObject = {"enabled": False}


@pytest.mark.parametrize(
    ("architecture", "type_", "fits"),
    [
        ("amd64", "q35", True),
        ("amd64", "pc-q35-7.2", True),
        ("amd64", "q35\n", True),
        ("amd64", "q35/x", False),
        ("amd64", "pc", False),
        ("amd64", "", False),
        ("arm64", "virt-7.2", True),
        ("arm64", "q35", False),
    ],
)
def test_machine_type_matches_a_pattern_in_which_no_star_is_a_slash(
    architecture: str, type_: str, *, fits: bool
) -> None:
    spec: JsonObject = {"architecture": architecture, "domain": {"machine": {"type": type_}}}
    found = [cause.field for cause in machine.machine(At(spec, "spec"), ClusterConfig())]
    assert found == ([] if fits else ["spec.domain.machine.type"])


@pytest.mark.parametrize(
    ("path", "fits"),
    [
        ("/a", True),
        ("/a/b.img", True),
        ("/a/", True),
        ("/a b\n", True),
        ("/a//", False),
        ("a", False),
        ("/", False),
        ("//", False),
        ("//a", False),
        ("/a/../b", False),
        ("/a/.", False),
        ("/./a", False),
        ("/a//b", False),
    ],
)
def test_path_of_a_file_is_absolute_and_without_relative_parts(path: str, *, fits: bool) -> None:
    assert machine.is_path(path) is fits


def defaulted(hyperv: JsonObject, features: list[Json] | None = None) -> At:
    domain: JsonObject = {"features": {"hyperv": hyperv}, "cpu": {"features": features or []}}
    spec: JsonObject = {"domain": domain}
    defaults.apply(spec)
    return At(domain, "spec.domain")


def of_features(domain: At) -> list[str]:
    return [cause.field for cause in machine.features(domain)]


@pytest.mark.parametrize(
    ("hyperv", "named"),
    [
        ({}, []),
        ({"synictimer": {}}, []),
        ({"ipi": {}, "tlbflush": {}, "evmcs": {}}, []),
        ({"ipi": {}, "vpindex": OFF}, ["ipi"]),
        ({"ipi": OFF, "vpindex": OFF}, []),
        ({"evmcs": {}, "vapic": OFF}, ["evmcs"]),
        ({"synictimer": {}, "vpindex": OFF}, ["synic"]),
        # KubeVirt turns on no more once a need cannot be met.
        ({"ipi": {}, "synictimer": {}, "vpindex": OFF}, ["ipi", "synictimer"]),
    ],
)
def test_enlightenments_turn_on_what_they_need(hyperv: JsonObject, named: list[str]) -> None:
    at = [f"{HYPERV}.domain.features.hyperv.{name}" for name in named]
    required = [VMX] if "evmcs" in named else []
    assert of_features(defaulted(hyperv)) == at + required


def test_evmcs_requires_vmx_of_the_cpu() -> None:
    other: JsonObject = {"name": "vmx", "policy": "disable"}
    made = defaulted({"evmcs": {}}, [dict(other)])
    assert made["cpu.features"].value == [{"name": "vmx", "policy": "require"}]
    assert of_features(made) == []
    assert defaulted({"evmcs": {}})["cpu.features"].value == made["cpu.features"].value
    assert of_features(defaulted({"evmcs": {}}, [dict(other), dict(other)])) == [f"{VMX}[1].policy"]
    unmet = defaulted({"evmcs": {}, "vapic": OFF}, [{"name": "svm"}])
    assert of_features(unmet) == [f"{HYPERV}.domain.features.hyperv.evmcs"]
    assert defaulted({"evmcs": OFF})["cpu.features"].value == []


def test_enlightenments_are_chosen_or_passed_through() -> None:
    domain: JsonObject = {"features": {"hyperv": {}, "hypervPassthrough": OFF}}
    assert of_features(At(domain, "spec.domain")) == [HYPERV]
    alone: JsonObject = {"features": {"hypervPassthrough": {}}}
    assert of_features(At(alone, "spec.domain")) == []


def test_spinlocks_that_are_on_have_retries() -> None:
    for given, expected in (({}, 4096), ({"spinlocks": 0}, 0), (OFF, None)):
        made = defaulted({"spinlocks": dict(given)})
        assert made["features.hyperv.spinlocks.spinlocks"].value == expected


def test_secure_boot_needs_smm_but_for_tdx() -> None:
    efi: JsonObject = {"firmware": {"bootloader": {"efi": {}}}}
    cases: list[tuple[JsonObject, list[str]]] = [
        (efi, ["spec.domain"]),
        ({**efi, "features": {"smm": ON}}, []),
        ({**efi, "launchSecurity": {"tdx": {}}}, []),
        ({"firmware": {"bootloader": {"efi": {"secureBoot": False}}}}, []),
    ]
    for domain, named in cases:
        found = machine.firmware(At(domain, "spec.domain"))
        assert [cause.field for cause in found] == named


def secured(kind: JsonObject, efi: JsonObject | None, **spec: Json) -> At:
    domain: JsonObject = {"launchSecurity": kind, "features": {"smm": spec.pop("smm", {})}}
    if efi is not None:
        domain["firmware"] = {"bootloader": {"efi": efi}}
    domain["devices"] = {"interfaces": spec.pop("nics", [])}
    return At({"architecture": "amd64", "domain": domain, **spec}, "spec")


PLAIN_BOOT: JsonObject = {"secureBoot": False}
KEPT: JsonObject = {"secureBoot": False, "persistent": True}


@pytest.mark.parametrize(
    ("spec", "cluster", "named"),
    [
        (secured({"sev": {}}, PLAIN_BOOT), ClusterConfig(), []),
        (secured({"snp": {}}, PLAIN_BOOT), ClusterConfig(), []),
        (secured({"sev": {}}, KEPT), ClusterConfig(), []),
        (secured({"snp": {}}, KEPT), ClusterConfig(), [LAUNCH]),
        (secured({"sev": {}}, {}), ClusterConfig(), [LAUNCH]),
        (secured({"sev": {}}, None), ClusterConfig(), [LAUNCH]),
        (secured({"tdx": {}}, {}), ClusterConfig(), [LAUNCH]),
        (secured({"tdx": {}}, {}), TDX, []),
        (secured({"tdx": {}}, KEPT), TDX, [LAUNCH]),
        (secured({"tdx": {}}, {}, smm=ON), TDX, [LAUNCH]),
        (secured({}, PLAIN_BOOT), ClusterConfig(), [LAUNCH]),
        (secured({"sev": {}, "tdx": {}}, PLAIN_BOOT), TDX, [LAUNCH]),
        (secured({"sev": {"attestation": {}}}, PLAIN_BOOT), ClusterConfig(), [LAUNCH]),
        (
            secured({"sev": {"attestation": {}}}, PLAIN_BOOT, startStrategy="Paused"),
            ClusterConfig(),
            [],
        ),
        (secured({"sev": {}}, PLAIN_BOOT, nics=[{"bootOrder": 1}]), ClusterConfig(), [LAUNCH]),
        (secured({"sev": {}}, {}, architecture="s390x"), ClusterConfig(), []),
        (secured({"sev": {}}, {}, architecture="arm64"), ClusterConfig(), ["spec.architecture"]),
    ],
)
def test_launch_security(spec: At, cluster: ClusterConfig, named: list[str]) -> None:
    assert [cause.field for cause in machine.security(spec, cluster)] == named
