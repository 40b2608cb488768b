from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hypercobalt.compute.model import Server, Size
from hypercobalt.compute.nova.servers import NovaServer, hindrance, to_server

SHOWN: dict[str, Any] = {
    "id": "7a607e31",
    "name": "web",
    "status": "ACTIVE",
    "OS-EXT-SRV-ATTR:host": "node1",
    "OS-EXT-STS:task_state": None,
    "OS-EXT-STS:power_state": 1,
    "locked": True,
    "flavor": {
        "vcpus": 2,
        "ram": 512,
        "disk": 10,
        "ephemeral": 5,
        "swap": 1500,
        "extra_specs": {},
        "original_name": "m1",
    },
    "image": {"id": "1", "links": [], "properties": {"hw_disk_bus": "virtio", "min_ram": 64}},
    "os-extended-volumes:volumes_attached": [{"id": "v", "delete_on_termination": False}],
    "metadata": {"owner": "me"},
}


def listed(**changed: object) -> NovaServer:
    return msgspec.json.decode(msgspec.json.encode({**SHOWN, **changed}), type=NovaServer)


def shown(**changed: object) -> Server:
    return to_server(listed(**changed), {})


def test_a_server_is_read_with_all_that_moves_depend_on() -> None:
    server = shown()
    assert (server.id, server.name, server.host) == ("7a607e31", "web", "node1")
    assert (server.status, server.task_state, server.running) == ("ACTIVE", "", True)
    assert (server.size, server.local_disk, server.locked) == (Size(2, 512, 17), True, True)
    assert server.metadata == {"owner": "me"}


def test_a_server_on_volumes_has_no_local_disk() -> None:
    flavor = {"vcpus": 1, "ram": 64, "disk": 10, "ephemeral": 0, "swap": 0}
    server = shown(image="", flavor=flavor)
    assert (server.local_disk, server.size.disk_gib) == (False, 0)


def test_a_server_without_a_host_is_on_none() -> None:
    server = shown(**{"OS-EXT-SRV-ATTR:host": None, "OS-EXT-STS:power_state": 4})
    assert (server.host, server.running) == ("", False)


def test_a_paused_server_moves_live_and_cannot_leave_its_devices_behind() -> None:
    specs = {"pci_passthrough:alias": "gpu:1"}
    flavor = {**SHOWN["flavor"], "extra_specs": specs}
    paused = {"OS-EXT-STS:power_state": 3, "status": "PAUSED", "flavor": flavor}
    server = shown(**paused)
    assert (server.running, server.paused, server.hindrance) == (False, True, "")
    assert "gpu" in to_server(listed(**paused), {}, devices=False).hindrance


def test_a_fault_is_reported() -> None:
    assert shown(status="ERROR", fault={"message": "No valid host", "code": 500}).fault == (
        "No valid host"
    )


def test_a_property_of_the_image_can_be_in_the_way() -> None:
    image = {"id": "1", "properties": {"hw_tpm_version": 2.0}}
    assert "virtual TPM" in shown(image=image).hindrance


@pytest.mark.parametrize(
    "spec", ["resources:VGPU", "resources1:VGPU", "pci_passthrough:alias", "hw:cpu_policy"]
)
def test_live_move_with_a_device_of_the_host_is_tried_since_nova_knows_whether_it_can(
    spec: str,
) -> None:
    assert hindrance({spec: "1"}, {}, live=True) == ""
    pmem = {spec: "1", "hw:pmem": "6GB"}
    assert "persistent memory" in hindrance(pmem, {}, live=True)


@pytest.mark.parametrize(
    ("specs", "image", "live", "word"),
    [
        ({}, {}, True, ""),
        ({"pci_passthrough:alias": "nic:1"}, {}, True, "nic:1"),
        ({"pci_passthrough:alias": "nic:1"}, {}, False, ""),
        ({"resources:VGPU": "1"}, {}, True, "virtual GPU"),
        ({"resources1:VGPU": "1"}, {}, True, "virtual GPU"),
        ({"hw:tpm_version": "2.0"}, {}, True, "virtual TPM"),
        ({"hw:tpm_version": "2.0"}, {}, False, "virtual TPM"),
        ({"hw:tpm_version": "2.0", "hw:tpm_secret_security": "host"}, {}, True, ""),
        ({"hw:mem_encryption": "True"}, {}, True, "encrypted"),
        ({"hw:mem_encryption": "false"}, {}, True, ""),
        ({}, {"hw_mem_encryption": "true"}, True, "encrypted"),
        ({"hw:pmem": "6GB"}, {}, True, "persistent memory"),
        ({"hw:cpu_policy": "dedicated", "resources:PCPU": "2"}, {}, True, ""),
    ],
)
def test_hindrance_of_a_migration_is_named(
    specs: dict[str, str], image: dict[str, str], live: bool, word: str
) -> None:
    found = hindrance(specs, image, live=live, devices=False)
    assert word in found
    assert bool(found) == bool(word)
