"""Rules about devices that are neither disks nor interfaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import FieldCause
from hypercobalt.vmi.rules.causes import invalid, required, unsupported

_VIDEO: Final = frozenset({"vga", "cirrus", "virtio", "ramfb", "bochs"})
_SOUND: Final = frozenset({"", "ich9", "ac97"})
_PANIC: Final = frozenset({"", "hyperv", "isa", "pvpanic"})
_GATED: Final = "needs a feature gate that is off"


def devices(spec: At, cluster: ClusterConfig) -> Iterator[FieldCause]:
    """Whether inputs, video, sound, watchdog and passed-through devices can be had."""
    found = spec["domain.devices"]
    for one in found["inputs"]:
        if one["bus"].text not in {"", "virtio", "usb"}:
            yield invalid(one["bus"], "must be virtio or usb")
        if one["type"].text != "tablet":
            yield invalid(one["type"], "must be tablet")
    yield from _video(found)
    yield from _sound(found["sound"])
    watchdog = found["watchdog"]
    if watchdog["diag288"] and spec["architecture"].text == "amd64":
        yield unsupported(watchdog, "must be i6300esb on amd64")
    for panic in found["panicDevices"]:
        if panic["model"].text not in _PANIC:
            yield invalid(panic["model"], "must be hyperv, isa or pvpanic")
    yield from _gated(spec, found, cluster)
    yield from _passed_through(found, cluster)


def _video(found: At) -> Iterator[FieldCause]:
    video = found["video"]
    if video and found["autoattachGraphicsDevice"].value is False:
        yield invalid("spec.video", "needs a graphics device")
    if video and video["type"].text not in _VIDEO:
        yield unsupported(video["type"], f"must be one of {', '.join(sorted(_VIDEO))}")


def _sound(sound: At) -> Iterator[FieldCause]:
    if sound and (sound["model"].text not in _SOUND or not sound["name"].text):
        yield invalid("spec.Sound", "must be ich9 or ac97, with a name")


def _gated(spec: At, found: At, cluster: ClusterConfig) -> Iterator[FieldCause]:
    """What needs a feature gate that is off by default."""
    gates = cluster.feature_gates
    if found["autoattachVSOCK"].flag and "VSOCK" not in gates:
        yield invalid(found["autoattachVSOCK"], _GATED)
    if found["downwardMetrics"] and "DownwardMetrics" not in gates:
        yield invalid(found["downwardMetrics"], _GATED)
    reserved = spec["domain.memory.reservedOverhead"]
    if reserved and "ReservedOverheadMemlock" not in gates:
        yield invalid(reserved, _GATED)


def _passed_through(found: At, cluster: ClusterConfig) -> Iterator[FieldCause]:
    hosts = found["hostDevices"]
    if hosts.items and "HostDevices" not in cluster.feature_gates:
        yield invalid("spec.HostDevices", _GATED)
    for list_ in (found["gpus"], hosts):
        for one in list_:
            named, claimed = one["deviceName"].text, one.holds("claimName", "requestName")
            if named and claimed:
                yield invalid(list_, "must have a deviceName or a claim, not both")
            elif not named and not claimed:
                yield required(list_, "must have a deviceName or a claim")
            elif not named and claimed == ["claimName"]:
                yield required(one["requestName"], "is required")
            elif not named and claimed == ["requestName"]:
                yield invalid(list_, "must have a claimName with a requestName")
