"""Which storage a disk is on."""

from __future__ import annotations

import pytest

from hypercobalt.ha.incidents.pools import pool_of, site_pool_of

OWN = "0c8a7c1e-9d0b-4a53-8f0e-3a2f6a0f4b11"


@pytest.mark.parametrize(
    ("path", "pool", "of_the_site"),
    [
        pytest.param("/pool/a.qcow2", "/pool", "/pool", id="a file"),
        pytest.param(
            f"/var/lib/nova/instances/{OWN}/disk",
            *("/var/lib/nova/instances",) * 2,
            id="a directory of its own",
        ),
        pytest.param(
            "/var/lib/nova/mnt/8f2c/volume-1", *("/var/lib/nova/mnt/8f2c",) * 2, id="a volume"
        ),
        pytest.param("vms/volume-1", "vms", "vms", id="an image of Ceph"),
        pytest.param("/dev/dm-3", "/dev", "", id="a device, which each host numbers"),
        pytest.param("/dev/disk/by-id/wwn-1", "/dev/disk/by-id", "", id="or names"),
        pytest.param("vda", "vda", "", id="a name of the guest's"),
        pytest.param("", "", "", id="nothing"),
    ],
)
def test_pool_is_read_from_the_path_of_a_disk(path: str, pool: str, of_the_site: str) -> None:
    assert (pool_of(path), site_pool_of(path)) == (pool, of_the_site)
