"""Inputs, video, sound, watchdogs, panic devices, and devices of the host."""

from __future__ import annotations

import pytest

from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import Json, JsonObject
from hypercobalt.vmi.rules import arm64, devices, passthrough

DEVICES = "spec.domain.devices."
GATED = ClusterConfig(feature_gates=frozenset({"HostDevices"}))


def spec(architecture: str = "amd64", claims: list[Json] | None = None, **found: Json) -> At:
    value: JsonObject = {"architecture": architecture, "domain": {"devices": found}}
    return At({**value, "resourceClaims": claims or []}, "spec")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (spec(panicDevices=[{}, {"model": "isa"}, {"model": None}]), []),
        (spec(panicDevices=[{"model": "x"}]), [f"{DEVICES}panicDevices[0].model"]),
        (spec(panicDevices=[{}, {"model": ""}]), [f"{DEVICES}panicDevices[1].model"]),
        (spec("s390x", panicDevices=[{}]), [f"{DEVICES}panicDevices"]),
        (spec("s390x", panicDevices=[]), []),
        (spec(video={"type": "vga"}), []),
        (spec(video={}), [f"{DEVICES}video.type"]),
        (spec(video={"type": "vga"}, autoattachGraphicsDevice=False), ["spec.video"]),
        (spec(autoattachGraphicsDevice=False), []),
        (spec("arm64", video={"type": "ramfb"}), []),
        (spec("arm64", video={"type": "vga"}), [f"{DEVICES}video.type"]),
        (spec("s390x", video={"type": "ramfb"}), [f"{DEVICES}video.type"]),
        (spec("ppc64le", video={"type": "x"}), []),
        (spec(watchdog={"i6300esb": {}}), []),
        (spec(watchdog={"i6300esb": {}, "diag288": {}}), [f"{DEVICES}watchdog"]),
        (spec("s390x", watchdog={"diag288": {}}), []),
        (spec("s390x", watchdog={"i6300esb": {}}), [f"{DEVICES}watchdog"]),
        (spec("ppc64le", watchdog={"i6300esb": {}, "diag288": {}}), []),
    ],
)
def test_devices_that_an_architecture_has(given: At, named: list[str]) -> None:
    assert [cause.field for cause in devices.devices(given, ClusterConfig())] == named


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (spec(inputs=[{"type": "tablet"}, {"type": "tablet", "bus": "usb"}]), []),
        (spec(inputs=[{"type": "tablet", "bus": "virtio"}]), []),
        (spec(inputs=[{"type": "keyboard", "bus": "usb"}]), ["inputs[0].type"]),
        (spec(inputs=[{"type": "tablet", "bus": "ps2"}]), ["inputs[0].bus"]),
        (spec(sound={"name": "s"}), []),
        (spec(sound={"name": "s", "model": "ac97"}), []),
        (spec(sound={"name": "s", "model": "x"}), ["spec.Sound"]),
        (spec(sound={"name": "", "model": "ich9"}), ["spec.Sound"]),
    ],
)
def test_tablets_and_sound_devices_are_of_a_kind_that_there_is(given: At, named: list[str]) -> None:
    found = devices.devices(given, ClusterConfig())
    assert [cause.field.removeprefix(DEVICES) for cause in found] == named


@pytest.mark.parametrize(
    ("path", "value", "gate"),
    [
        ("devices.autoattachVSOCK", True, "VSOCK"),
        ("devices.downwardMetrics", {}, "DownwardMetrics"),
        ("memory.reservedOverhead", {}, "ReservedOverheadMemlock"),
    ],
)
def test_device_whose_gate_is_off_is_refused(path: str, value: Json, gate: str) -> None:
    parent, field = path.split(".")
    given = At({"architecture": "amd64", "domain": {parent: {field: value}}}, "spec")
    for on, named in ((gate, []), ("HostDevices", [f"spec.domain.{path}"])):
        found = devices.devices(given, ClusterConfig(feature_gates=frozenset({on})))
        assert [cause.field for cause in found] == named


CLAIM: JsonObject = {"claimName": "c", "requestName": "r"}
CLAIMS: list[Json] = [{"name": "c"}]
NAMED: JsonObject = {"deviceName": "vendor/gpu"}
SCREEN: JsonObject = {**NAMED, "virtualGPUOptions": {"display": {}}}
GPUS, HOSTS = f"{DEVICES}gpus", f"{DEVICES}hostDevices"


def screen(**display: Json) -> JsonObject:
    return {**NAMED, "virtualGPUOptions": {"display": display}}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (spec(), []),
        (spec(gpus=[NAMED, NAMED], hostDevices=[NAMED]), []),
        (spec(gpus=[{"name": "a"}]), [GPUS]),
        (spec(gpus=[{**NAMED, **CLAIM}]), [GPUS]),
        (spec(hostDevices=[{**NAMED, "requestName": "r"}, {}]), [HOSTS, HOSTS]),
        (spec(gpus=[{**NAMED, "claimName": "", "requestName": ""}]), []),
        (spec(claims=CLAIMS, gpus=[CLAIM]), []),
        (spec(gpus=[CLAIM]), ["spec.resourceClaims"]),
        (spec(claims=CLAIMS, gpus=[CLAIM, NAMED]), [GPUS]),
        (spec(gpus=[CLAIM, {}]), [GPUS]),
        (spec(claims=CLAIMS, hostDevices=[CLAIM, NAMED]), []),
        (spec(hostDevices=[{"claimName": "c"}]), [f"{HOSTS}[0].requestName"]),
        (spec(gpus=[{"requestName": "r"}]), [f"{GPUS}[0].claimName"]),
        (spec(claims=CLAIMS, gpus=[CLAIM, CLAIM]), [f"{GPUS}[1]"]),
        (spec(claims=CLAIMS, gpus=[CLAIM], hostDevices=[NAMED, CLAIM]), [f"{HOSTS}[1]"]),
        (spec(claims=CLAIMS, gpus=[CLAIM, {**CLAIM, "requestName": "s"}]), []),
        (spec(gpus=[SCREEN]), []),
        (spec(gpus=[SCREEN, SCREEN]), ["spec.GPUs"]),
        (spec(gpus=[SCREEN, screen(enabled=True, ramFB={"enabled": True})]), ["spec.GPUs"]),
        (spec(gpus=[SCREEN, screen(enabled=False)]), []),
        (spec(gpus=[SCREEN, screen(ramFB={"enabled": False})]), []),
        (spec(gpus=[SCREEN, NAMED]), []),
    ],
)
def test_devices_of_the_host_have_a_name_or_a_claim(given: At, named: list[str]) -> None:
    assert [cause.field for cause in passthrough.passthrough(given, GATED)] == named


def test_devices_of_the_host_need_their_gate() -> None:
    found = passthrough.passthrough(spec(hostDevices=[NAMED]), ClusterConfig())
    assert [cause.field for cause in found] == ["spec.HostDevices"]
    assert not list(passthrough.passthrough(spec(hostDevices=[], gpus=[NAMED]), ClusterConfig()))


@pytest.mark.parametrize(
    ("cpu", "named"),
    [
        ({"threads": 2}, []),
        ({"threads": 2, "dedicatedCpuPlacement": True}, ["spec.architecture"]),
        ({"threads": 1, "dedicatedCpuPlacement": True}, []),
        ({"model": "max"}, ["spec.domain.cpu.model"]),
    ],
)
def test_cpus_of_arm64(cpu: JsonObject, named: list[str]) -> None:
    loader: JsonObject = {"bootloader": {"efi": {"secureBoot": True}}}
    domain: JsonObject = {"cpu": cpu, "firmware": loader}
    for architecture, expected in (("arm64", named), ("amd64", [])):
        given = At({"architecture": architecture, "domain": domain}, "spec")
        assert [cause.field for cause in arm64.arm64(given)] == expected
