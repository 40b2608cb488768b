"""Rules about devices that are neither disks nor interfaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import FieldCause
from hypercobalt.vmi.rules.causes import invalid, unsupported

_VIDEO: Final = {
    "amd64": frozenset({"vga", "cirrus", "virtio", "ramfb", "bochs"}),
    "arm64": frozenset({"virtio", "ramfb"}),
    "s390x": frozenset({"virtio"}),
}
_FOREIGN_WATCHDOGS: Final = {"amd64": "diag288", "s390x": "i6300esb"}
"""A watchdog that an architecture does not have."""
_SOUND: Final = frozenset({"", "ich9", "ac97"})
_PANIC: Final = frozenset({"hyperv", "isa", "pvpanic"})
_GATED: Final = "needs a feature gate that is off"


def devices(spec: At, cluster: ClusterConfig) -> Iterator[FieldCause]:
    """Whether inputs, video, sound, watchdog and passed-through devices can be had."""
    found = spec["domain.devices"]
    for one in found["inputs"]:
        if one["bus"].text not in {"", "virtio", "usb"}:
            yield invalid(one["bus"], "must be virtio or usb")
        if one["type"].text != "tablet":
            yield invalid(one["type"], "must be tablet")
    architecture = spec["architecture"].text
    yield from _video(found, architecture)
    yield from _sound(found["sound"])
    yield from _watching(found, architecture)
    yield from _gated(spec, found, cluster)


def _watching(found: At, architecture: str) -> Iterator[FieldCause]:
    watchdog, panics = found["watchdog"], found["panicDevices"]
    if watchdog[_FOREIGN_WATCHDOGS.get(architecture, "")]:
        yield unsupported(watchdog, f"must be another one on {architecture}")
    if panics.items and architecture == "s390x":
        yield invalid(panics, "are not there on s390x")
    for panic in panics:
        if panic["model"] and panic["model"].text not in _PANIC:
            yield invalid(panic["model"], "must be hyperv, isa or pvpanic")


def _video(found: At, architecture: str) -> Iterator[FieldCause]:
    video, types = found["video"], _VIDEO.get(architecture)
    if video and found["autoattachGraphicsDevice"].value is False:
        yield invalid("spec.video", "needs a graphics device")
    if video and types is not None and video["type"].text not in types:
        yield unsupported(video["type"], f"must be one of {', '.join(sorted(types))}")


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
