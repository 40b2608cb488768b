"""Rules about devices of a host: by the name of a plugin's device, or by a claim (DRA)."""

from __future__ import annotations

from collections.abc import Iterator

from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import FieldCause
from hypercobalt.vmi.rules.causes import duplicate, invalid, required


def passthrough(spec: At, cluster: ClusterConfig) -> Iterator[FieldCause]:
    """Whether each GPU and host device is had in one way, and its claim is there."""
    gpus, hosts = spec["domain.devices.gpus"], spec["domain.devices.hostDevices"]
    if hosts.items and "HostDevices" not in cluster.feature_gates:
        yield invalid("spec.HostDevices", "needs a feature gate that is off")
    if sum(map(_draws, gpus)) > 1:
        yield invalid("spec.GPUs", "must have one display with ramFB")
    claims = {one["name"].text for one in spec["resourceClaims"]}
    claimed = list[At]()
    if any(map(_is_claimed, gpus)) and not all(map(_is_claimed, gpus)):
        yield invalid(gpus, "must all have a deviceName, or all a claim")
    else:
        yield from _devices(gpus)
        claimed += _whole(gpus)
    yield from _devices(hosts)
    claimed += _whole(hosts)
    yield from _pairs(claimed)
    if not {one["claimName"].text for one in claimed} <= claims:
        yield invalid(spec["resourceClaims"], "must have each claim of a GPU or host device")


def _draws(gpu: At) -> bool:
    """Whether a GPU has a display that firmware can draw on; it has one by default."""
    display = gpu["virtualGPUOptions.display"]
    switches = (display["enabled"], display["ramFB.enabled"])
    return bool(display) and all(one.value is not False for one in switches)


def _is_claimed(device: At) -> bool:
    return not device["deviceName"].text and _names_claim(device)


def _names_claim(device: At) -> bool:
    return bool(device["claimName"].text or device["requestName"].text)


def _devices(list_: At) -> Iterator[FieldCause]:
    for device in list_:
        if _is_claimed(device):
            for name in ("claimName", "requestName"):
                if not device[name].text:
                    yield required(device[name], "is required")
        elif not device["deviceName"].text:
            yield required(list_, "must have a deviceName or a claim")
        elif _names_claim(device):
            yield invalid(list_, "must have a deviceName or a claim, not both")


def _whole(list_: At) -> list[At]:
    return [one for one in list_ if _is_claimed(one) and all(_pair(one))]


def _pair(device: At) -> tuple[str, str]:
    return device["claimName"].text, device["requestName"].text


def _pairs(claimed: list[At]) -> Iterator[FieldCause]:
    """No two devices are of one request of one claim."""
    seen = set[tuple[str, str]]()
    for device in claimed:
        if _pair(device) in seen:
            yield duplicate(device, "is had by another device")
        seen.add(_pair(device))
