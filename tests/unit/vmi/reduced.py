"""Recorded VMIs without what is not honoured, so that their other parts can be compared."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.unit.vmi.recordings import Recording

from hypercobalt.api.codec import decode
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance

Json = Any
_SOURCES: Final = {"containerDisk", "emptyDisk"}
_BINDINGS: Final = {"bridge", "masquerade"}


def reduced(one: Recording) -> VirtualMachineInstance:
    """The VMI with an empty disk for each volume that is not honoured, and no such interface.

    Interfaces on other networks than the pod's count as if they were on it.
    """
    vmi = json.loads(json.dumps(one.vmi))
    spec, devices = vmi["spec"], vmi["spec"]["domain"]["devices"]
    replaced = replaced_volumes(one)
    for volume in spec.get("volumes", []):
        if volume["name"] in replaced:
            volume["emptyDisk"] = {"capacity": "1Gi"}
    for disk in devices.get("disks", []):
        if "lun" in disk:
            disk["disk"] = disk.pop("lun")
        if "matchVolume" in disk.get("blockSize", {}):
            del disk["blockSize"]
    nics = [nic for nic in devices.get("interfaces", []) if _BINDINGS & set(nic)]
    devices["interfaces"] = nics
    spec["networks"] = [{"name": nic["name"], "pod": {}} for nic in nics]
    return decode(json.dumps(vmi).encode(), VirtualMachineInstance)


def replaced_volumes(one: Recording) -> set[str]:
    """Names of the volumes whose source is not honoured."""
    volumes = one.vmi["spec"].get("volumes", [])
    return {volume["name"] for volume in volumes if not _SOURCES & set(volume)}
