"""VirtualMachineInstances of a few fields, for tests of single rules."""

from __future__ import annotations

import json
from typing import Any

from hypercobalt.api.codec import decode
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance

Json = Any
UID = "5f774ae2-e58e-5654-baa8-4fb506459473"


def guest(
    spec: Json = None, *, domain: Json = None, devices: Json = None, metadata: Json = None
) -> VirtualMachineInstance:
    """A defaulted VMI of one vCPU and 128 MiB without disks, with the given members over it."""
    machine = {
        "cpu": {"cores": 1, "sockets": 1, "threads": 1, "model": "host-model"},
        "memory": {"guest": "128Mi"},
        "machine": {"type": "q35"},
        "features": {"acpi": {"enabled": True}},
        "devices": devices or {},
    }
    vmi = {
        "metadata": {"name": "tiny", "namespace": "lab", "uid": UID} | (metadata or {}),
        "spec": {"architecture": "amd64", "domain": machine | (domain or {})} | (spec or {}),
    }
    return decode(json.dumps(vmi).encode(), VirtualMachineInstance)


def with_disks(*disks: Json, volumes: Json = None, **domain: Json) -> VirtualMachineInstance:
    """A VMI with these disks, each on a container disk unless volumes are given."""
    given = [{"name": disk["name"], "containerDisk": {"image": "lab/a:1"}} for disk in disks]
    found = given if volumes is None else volumes
    return guest({"volumes": found}, domain=domain | {"devices": {"disks": list(disks)}})


def with_nic(nic: Json, **devices: Json) -> VirtualMachineInstance:
    """A VMI with one interface, `default`, on the pod network."""
    nics = [{"name": "default", "masquerade": {}} | nic]
    networks = [{"name": "default", "pod": {}}]
    return guest({"networks": networks}, devices={"interfaces": nics} | devices)
