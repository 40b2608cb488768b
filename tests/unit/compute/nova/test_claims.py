from __future__ import annotations

from urllib.parse import parse_qs

import pytest

from hypercobalt.compute.nova.claims import claim

FREE = "!COMPUTE_STATUS_DISABLED"


@pytest.mark.parametrize(
    ("specs", "resources", "required"),
    [
        ({}, "DISK_GB:5,MEMORY_MB:512,VCPU:2", FREE),
        ({"hw:cpu_policy": "dedicated"}, "DISK_GB:5,MEMORY_MB:512,PCPU:2", FREE),
        (
            {"resources:VCPU": "0", "resources:CUSTOM_GOLD": "1"},
            "CUSTOM_GOLD:1,DISK_GB:5,MEMORY_MB:512",
            FREE,
        ),
        (
            {"trait:CUSTOM_FAST": "required", "trait:CUSTOM_OLD": "forbidden"},
            "DISK_GB:5,MEMORY_MB:512,VCPU:2",
            f"CUSTOM_FAST,{FREE},!CUSTOM_OLD",
        ),
        (
            {"resources:VCPU": "many", "trait:lower": "required", "trait:CUSTOM_X": "maybe"},
            "DISK_GB:5,MEMORY_MB:512,VCPU:2",
            FREE,
        ),
    ],
)
def test_a_flavor_claims_what_nova_claims(
    specs: dict[str, str], resources: str, required: str
) -> None:
    query = parse_qs(claim(2, 512, 5, specs))
    assert query == {"resources": [resources], "required": [required]}


def test_a_server_on_volumes_claims_no_disk() -> None:
    assert "DISK_GB" not in claim(2, 512, 0, {})


def test_resources_of_zero_are_not_claimed() -> None:
    assert claim(0, 0, 0, {}) == ""
