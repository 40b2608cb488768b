"""Machine types, paths, features and launch security: their rules and defaults are KubeVirt's."""

from __future__ import annotations

from copy import deepcopy

import pytest

from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.defaults import features as defaults
from hypercobalt.vmi.defaults import machine as machine_defaults
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
    assert defaulted({"evmcs": {}}, [{"name": "svm"}])["cpu.features"].value == [
        {"name": "svm"},
        {"name": "vmx", "policy": "require"},
    ]
    assert of_features(defaulted({"evmcs": OFF}, [dict(other)])) == []
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


@pytest.mark.parametrize(
    ("sent", "made"),
    [
        ({}, {"acpi": ON}),
        ({"acpi": OFF}, {"acpi": OFF}),
        (
            {"apic": {}, "smm": {}, "pvspinlock": {}},
            {"acpi": ON, "apic": ON, "smm": ON, "pvspinlock": ON},
        ),
        (
            {"smm": OFF, "hyperv": {"tlbflush": {"direct": OFF, "extended": {}}}},
            {
                "acpi": ON,
                "smm": OFF,
                "hyperv": {
                    "tlbflush": {**ON, "direct": OFF, "extended": ON},
                    "vpindex": ON,
                },
            },
        ),
    ],
)
def test_feature_that_is_there_is_on_unless_it_is_turned_off(
    sent: JsonObject, made: JsonObject
) -> None:
    spec: JsonObject = {"domain": {"features": deepcopy(sent)}}
    defaults.apply(spec)
    assert At(spec)["domain.features"].value == made


UUID = "7d0c3f5e-1c1f-4a54-9f3e-0d3b8a6a1c11"


def of_machine(**spec: Json) -> At:
    """A spec with the defaults of the machine."""
    made: JsonObject = {"domain": {}, **deepcopy(spec)}
    machine_defaults.apply(made, ClusterConfig(), UUID)
    return At(made)


@pytest.mark.parametrize(
    ("architecture", "type_"),
    [("", "q35"), ("amd64", "q35"), ("arm64", "virt"), ("s390x", "s390-ccw-virtio")],
)
def test_architecture_has_a_machine_type_of_its_own(architecture: str, type_: str) -> None:
    made = of_machine(architecture=architecture)
    assert made["architecture"].text == (architecture or "amd64")
    assert made["domain.machine.type"].text == type_


@pytest.mark.parametrize(
    ("architecture", "firmware", "loader"),
    [
        ("amd64", {}, None),
        ("arm64", {}, {"efi": {"secureBoot": False}}),
        ("arm64", {"bootloader": {}}, {"efi": {"secureBoot": False}}),
        ("arm64", {"bootloader": {"efi": {}}}, {"efi": {}}),
        ("arm64", {"bootloader": {"bios": {}}}, {"bios": {}}),
    ],
)
def test_arm64_boots_with_efi_without_secure_boot(
    architecture: str, firmware: JsonObject, loader: Json
) -> None:
    made = of_machine(architecture=architecture, domain={"firmware": firmware})
    assert made["domain.firmware.bootloader"].value == loader


def test_guest_has_a_uuid_of_its_own_unless_one_is_named() -> None:
    assert of_machine()["domain.firmware.uuid"].text == UUID
    named = of_machine(domain={"firmware": {"uuid": "u"}})
    assert named["domain.firmware.uuid"].text == "u"


def test_timer_that_is_there_is_present_unless_it_is_turned_off() -> None:
    sent: JsonObject = {"hpet": {"tickPolicy": "delay"}, "kvm": {"present": False}, "rtc": {}}
    made = of_machine(domain={"clock": {"timer": sent}})
    assert made["domain.clock.timer"].value == {
        "hpet": {"tickPolicy": "delay", "present": True},
        "kvm": {"present": False},
        "rtc": {"present": True},
    }


@pytest.mark.parametrize(
    ("disk", "policy"),
    [
        ({"image": "lab/a:1"}, "IfNotPresent"),
        ({"image": "lab/a:latest"}, "Always"),
        ({"image": "lab/a"}, "Always"),
        ({"image": "lab/a@sha256:ab"}, "IfNotPresent"),
        ({"image": "registry:5000/a"}, "IfNotPresent"),  # KubeVirt takes the port for a tag
        ({"image": "lab/a", "imagePullPolicy": "Never"}, "Never"),
    ],
)
def test_image_whose_tag_can_move_is_pulled_each_time(disk: JsonObject, policy: str) -> None:
    volumes: list[Json] = [{"name": "b", "emptyDisk": {}}, {"name": "a", "containerDisk": disk}]
    _, made = of_machine(volumes=volumes)["volumes"]
    assert made["containerDisk.imagePullPolicy"].text == policy


BIOS: JsonObject = {"firmware": {"bootloader": {"bios": {}}}}
BOTH: JsonObject = {"firmware": {"bootloader": {"bios": {}, "efi": {"secureBoot": False}}}}


def test_secure_boot_needs_smm_but_for_tdx() -> None:
    efi: JsonObject = {"firmware": {"bootloader": {"efi": {}}}}
    cases: list[tuple[JsonObject, list[str]]] = [
        ({}, []),
        (BIOS, []),
        (BOTH, ["spec.domain.firmware.bootloader"]),
        (efi, ["spec.domain"]),
        ({**efi, "features": {"smm": ON}}, []),
        ({**efi, "launchSecurity": {"tdx": {}}}, []),
        ({"firmware": {"bootloader": {"efi": {"secureBoot": False}}}}, []),
    ]
    for domain, named in cases:
        found = machine.firmware(At(domain, "spec.domain"))
        assert [cause.field for cause in found] == named


KERNEL_BOOT = "spec.domain.firmware.kernelBoot"
CONTAINER = f"{KERNEL_BOOT}.container"


@pytest.mark.parametrize(
    ("boot", "named"),
    [
        ({"kernelArgs": ""}, []),
        ({"kernelArgs": "quiet"}, [f"{KERNEL_BOOT}.kernelArgs"]),
        ({"container": {"image": "a", "kernelPath": "/k"}, "kernelArgs": "quiet"}, []),
        ({"container": {"image": "a", "initrdPath": "/i"}}, []),
        ({"container": {"image": "a", "kernelPath": "/k", "initrdPath": "/i"}}, []),
        ({"container": {"image": "a"}}, [CONTAINER]),
        ({"container": {"kernelPath": "/k"}}, [f"{CONTAINER}.image"]),
        (
            {"container": {"image": "a", "kernelPath": "k", "initrdPath": "/../i"}},
            [f"{CONTAINER}.kernelPath", f"{CONTAINER}.initrdPath"],
        ),
    ],
)
def test_kernel_is_of_an_image_and_has_a_path_within(boot: JsonObject, named: list[str]) -> None:
    found = machine.firmware(At({"firmware": {"kernelBoot": boot}}, "spec.domain"))
    assert [cause.field for cause in found] == named


@pytest.mark.parametrize(
    ("acpi", "named"),
    [
        (None, []),
        ({}, ["spec.acpi"]),
        ({"slicNameRef": ""}, ["spec.acpi"]),
        ({"slicNameRef": "s"}, []),
        ({"msdmNameRef": "s"}, []),
        ({"slicNameRef": "s", "msdmNameRef": "d"}, ["spec.acpi.msdmNameRef"]),
        ({"slicNameRef": "x", "msdmNameRef": "s"}, ["spec.acpi.slicNameRef"]),
    ],
)
def test_tables_of_acpi_are_on_volumes_of_secrets(acpi: Json, named: list[str]) -> None:
    volumes: list[Json] = [{"name": "s", "secret": {}}, {"name": "d", "emptyDisk": {}}]
    spec = At({"domain": {"firmware": {"acpi": acpi}}, "volumes": volumes}, "spec")
    assert [cause.field for cause in machine.tables(spec)] == named


@pytest.mark.parametrize(
    ("policy", "count", "named"),
    [
        (None, None, []),
        ("shared", None, []),
        ("auto", 2, []),
        ("", None, ["ioThreadsPolicy"]),
        ("each", 2, ["ioThreadsPolicy"]),
        ("supplementalPool", 1, []),
        ("supplementalPool", 0, ["ioThreads.count"]),
        ("supplementalPool", None, ["ioThreads.count"]),
    ],
)
def test_pool_of_io_threads_has_a_size(policy: Json, count: Json, named: list[str]) -> None:
    pool: JsonObject = {"supplementalPoolThreadCount": count}
    domain = At({"ioThreadsPolicy": policy, "ioThreads": pool}, "spec.domain")
    found = [cause.field.removeprefix("spec.domain.") for cause in machine.threads(domain)]
    assert found == named


def secured(kind: JsonObject | None, efi: JsonObject | None, **spec: Json) -> At:
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
        (secured(None, PLAIN_BOOT), ClusterConfig(), []),
        (secured(None, None, architecture="arm64"), ClusterConfig(), []),
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
