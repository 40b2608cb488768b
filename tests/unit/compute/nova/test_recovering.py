"""A server's metadata, flavor and image decide about its recovery."""

from __future__ import annotations

import pytest

from hypercobalt.compute.nova.recovering import priority, recovers, waits_for_host

NOTHING = dict[str, str]()


@pytest.mark.parametrize(
    ("metadata", "specs", "image", "wanted"),
    [
        ({}, {}, {}, 0),
        ({"restart_priority": "7"}, {"restart_priority": "5"}, {}, 7),
        ({}, {"Restart_Priority": " -3 "}, {"restart_priority": "9"}, -3),
        ({}, {}, {"restart_priority": "9"}, 9),
        ({"restart_priority": "high"}, {"restart_priority": "5"}, {}, 5),
        ({"restart_priority": "1" * 30}, {}, {}, 0),
        ({"restart_priority": "٣"}, {}, {}, 0),
        ({"restart_priority": "--1"}, {}, {}, 0),
    ],
)
def test_priority_is_the_nearest_number(
    metadata: dict[str, str], specs: dict[str, str], image: dict[str, str], wanted: int
) -> None:
    assert priority(metadata, specs, image) == wanted


@pytest.mark.parametrize(
    ("metadata", "specs", "wanted"),
    [
        ({}, {}, None),
        ({"HA_Enabled": "True"}, {}, True),
        ({"ha_enabled": "no"}, {"HA_Enabled": "true"}, False),
        ({"ha_enabled": "perhaps"}, {"ha_enabled": "1"}, True),
        ({}, {"ha_enabled": "off"}, False),
    ],
)
def test_availability_is_the_nearest_truth_value(
    metadata: dict[str, str], specs: dict[str, str], wanted: bool | None
) -> None:
    assert recovers(metadata, specs) is wanted


@pytest.mark.parametrize("vm_state", ["active", "stopped", "error", "paused"])
def test_server_on_shared_storage_can_be_evacuated(vm_state: str) -> None:
    assert waits_for_host(vm_state, NOTHING, NOTHING, local_disk=False) == ""


@pytest.mark.parametrize(
    "vm_state", ["building", "suspended", "rescued", "resized", "shelved_offloaded"]
)
def test_server_in_any_other_state_waits_for_its_host(vm_state: str) -> None:
    assert vm_state in waits_for_host(vm_state, NOTHING, NOTHING, local_disk=False)


def test_server_whose_disk_would_be_recreated_is_not_evacuated_without_request() -> None:
    assert "--evacuate-local-disks" in waits_for_host("active", NOTHING, NOTHING, local_disk=True)


@pytest.mark.parametrize(
    ("specs", "image"), [({"hw:tpm_version": "2.0"}, {}), ({}, {"hw_tpm_version": "1.2"})]
)
def test_virtual_tpm_waits_for_its_host(specs: dict[str, str], image: dict[str, str]) -> None:
    assert "virtual TPM" in waits_for_host("active", specs, image, local_disk=False)
