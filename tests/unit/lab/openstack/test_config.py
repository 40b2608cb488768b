from __future__ import annotations

from configparser import ConfigParser
from pathlib import Path

import pytest

from hypercobalt.lab.lab import Lab
from hypercobalt.lab.openstack import config
from hypercobalt.lab.openstack.place import Place
from hypercobalt.lab.openstack.site import OpenStack
from hypercobalt.lab.state import HostRecord, Layout, State


def _lab(tmp_path: Path, node_grace: float) -> Lab:
    state = State(
        "0" * 32, 7, hosts=(HostRecord("kvm-1", 1),), node_grace=node_grace, openstack="/programs"
    )
    return Lab(Layout(tmp_path), state)


def _compute(place: Place) -> ConfigParser:
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
    (host,) = Lab(Layout(tmp_path), State("0" * 32, 7, hosts=(HostRecord("kvm-1", 1),))).hosts
    assert all(str(path) not in {"", "."} for path in host.binds)
