from __future__ import annotations

from configparser import ConfigParser
from hashlib import md5
from pathlib import Path

import pytest

from hypercobalt.lab.lab import Lab
from hypercobalt.lab.openstack import config, metadata, volumes
from hypercobalt.lab.openstack.place import SERVICES, OpenStackPlace
from hypercobalt.lab.openstack.site import OpenStack
from hypercobalt.lab.state import HostRecord, LabState, Layout


def _lab(tmp_path: Path, node_grace: float) -> Lab:
    state = LabState(
        "0" * 32, 7, hosts=(HostRecord("kvm-1", 1),), node_grace=node_grace, openstack="/programs"
    )
    return Lab(Layout(tmp_path), state)


def _compute(place: OpenStackPlace) -> ConfigParser:
    parsed = ConfigParser(interpolation=None)
    parsed.read_string(config.compute(place, "kvm-1", "10.77.7.1", shared=True))
    return parsed


@pytest.mark.parametrize(("node_grace", "silence"), [(50, 60), (4, 30)])
def test_nova_misses_a_compute_before_the_lease_of_its_agent_ends_where_waits_are_short(
    tmp_path: Path, node_grace: float, silence: int
) -> None:
    place = OpenStack(_lab(tmp_path, node_grace)).place
    assert _compute(place)["DEFAULT"].getint("service_down_time") == silence


def test_periodic_tasks_of_nova_begin_at_once(tmp_path: Path) -> None:
    # A compute is of use once one of them has found it.
    place = OpenStack(_lab(tmp_path, 50)).place
    assert _compute(place)["DEFAULT"].getint("periodic_fuzzy_delay") == 0


def test_hosts_see_the_programs_of_the_openstack_that_the_record_names(tmp_path: Path) -> None:
    (host,) = _lab(tmp_path, 50).hosts
    assert Path("/programs") in host.binds


def test_a_lab_without_openstack_has_no_programs_of_it(tmp_path: Path) -> None:
    (host,) = Lab(Layout(tmp_path), LabState("0" * 32, 7, hosts=(HostRecord("kvm-1", 1),))).hosts
    assert all(str(path) not in {"", "."} for path in host.binds)


def test_nova_looks_for_cinder_by_a_type_of_the_catalogue(tmp_path: Path) -> None:
    place = OpenStack(_lab(tmp_path, 50)).place
    looked_for, _, _ = _compute(place)["cinder"]["catalog_info"].partition(":")
    assert looked_for in {service.kind for service in SERVICES}


def test_cinder_has_its_share_where_the_process_finds_the_directory_mounted(
    tmp_path: Path,
) -> None:
    place = OpenStack(_lab(tmp_path, 50)).place
    parsed = ConfigParser(interpolation=None)
    parsed.read_string(config.files(place)["cinder.conf"])
    (backend,) = parsed["DEFAULT"]["enabled_backends"].split(",")
    share = f"{parsed[backend]['nas_host']}:{parsed[backend]['nas_share_path']}"
    looked_for = Path(parsed[backend]["nfs_mount_point_base"], md5(share.encode()).hexdigest())  # noqa: S324 - as os-brick does
    assert volumes.mount_point(place) == looked_for


def test_a_host_mounts_the_share_of_volumes_by_binding_its_shared_directory(
    tmp_path: Path,
) -> None:
    (host,) = _lab(tmp_path, 50).hosts
    volumes.let_mount(host)
    helper = host.disk.root / "usr/sbin/mount.nfs"
    assert helper.stat().st_mode & 0o111
    assert helper.read_text().endswith(f'mount --bind {config.SHARED_VOLUMES} "$2"\n')


def test_metadata_secret_is_one_for_nova_and_agents_and_for_root_alone(tmp_path: Path) -> None:
    place = OpenStack(_lab(tmp_path, 50)).place
    place.etc.mkdir(parents=True)
    metadata.configure(place)
    kept = place.etc / metadata.NOVA_FILE
    before = kept.read_text()

    metadata.configure(place)

    assert kept.read_text() == before
    files = [file for file in place.folder.rglob("*") if file.is_file()]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    nova, agent = ConfigParser(interpolation=None), ConfigParser(interpolation=None)
    nova.read_string(before)
    secret = nova["neutron"]["metadata_proxy_shared_secret"]
    agent.read_string(config.metadata_agent(place, secret))
    assert agent["DEFAULT"]["metadata_proxy_shared_secret"] == secret
    assert len(secret) == 64
    assert all(secret not in text for text in config.files(place).values())
