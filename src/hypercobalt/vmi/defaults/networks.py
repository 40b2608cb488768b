"""The default interface: one on the pod network, unless the author names any or wants none."""

from __future__ import annotations

from typing import Final

from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.defaults.members import member
from hypercobalt.vmi.review import JsonObject

_NAME: Final = "default"


def apply(spec: JsonObject, cluster: ClusterConfig) -> None:
    """Add the default interface and its network."""
    devices = member(member(spec, "domain"), "devices")
    wanted = devices.get("autoattachPodInterface") is not False
    if wanted and not spec.get("networks") and not devices.get("interfaces"):
        spec["networks"] = [{"name": _NAME, "pod": {}}]
        devices["interfaces"] = [{"name": _NAME, cluster.binding: {}}]
