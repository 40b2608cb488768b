from __future__ import annotations

from pathlib import Path

import pytest

from hypercobalt.adapters.fencing import devices
from hypercobalt.adapters.fencing.devices import Identity
from hypercobalt.adapters.fencing.port import Cuts
from hypercobalt.lab.bmc.boards import (
    OUTLETS,
    PROTOCOL_LABEL,
    STORAGE_LABEL,
    Boards,
    Feed,
    feed_port,
    port,
    storage_port,
)
from hypercobalt.lab.bmc.faults import BoardFault
from hypercobalt.lab.control import node_labels
from hypercobalt.lab.processes import Oldest
from hypercobalt.lab.state import MAX_HOSTS, HostRecord, LabState, Layout

STATE = LabState("0" * 32, 7, hosts=(HostRecord("kvm-1", 1), HostRecord("kvm-4", 4)))


def boards(folder: Path) -> Boards:
    return Boards(Layout.at(folder), STATE, Oldest(STATE.id))


@pytest.mark.parametrize(("index", "agent"), [(1, "fence_redfish"), (4, "fence_ipmilan")])
def test_the_operators_document_names_the_bmc_of_each_host(
    index: int, agent: str, tmp_path: Path
) -> None:
    templates = devices.parse(boards(tmp_path).devices())
    name = f"kvm-{index}"
    (device,) = devices.resolve(templates, name, node_labels(name, index))
    assert device.agent == agent
    where = (device.parameters["ip"], int(device.parameters["ipport"]))
    assert where == boards(tmp_path).address(name) == ("10.77.7.254", 7000 + index)
    assert device.parameters.get("systems_uri", name).endswith(name)
    assert (device.identity, device.secret) == (Identity.REQUIRED, f"bmc-{name}")
    assert "ssl_insecure" not in device.parameters
    assert devices.resolve(templates, "kvm-9", node_labels(name, index)) == ()


def test_ipmi_takes_the_password_whole(tmp_path: Path) -> None:
    assert len(boards(tmp_path).password("kvm-1").encode()) == 20


def test_a_host_is_cut_off_from_the_shared_disks_where_its_node_has_the_label(
    tmp_path: Path,
) -> None:
    templates = devices.parse(boards(tmp_path).devices())
    labels = {**node_labels("kvm-4", 4), STORAGE_LABEL: "true"}
    bmc, storage = devices.resolve(templates, "kvm-4", labels)
    assert (bmc.cuts, storage.cuts) == (Cuts.POWER, Cuts.STORAGE)
    where = (storage.parameters["ip"], int(storage.parameters["ipport"]))
    assert where == boards(tmp_path).storage_address("kvm-4") == ("10.77.7.254", 7504)


def test_two_outlets_are_the_devices_of_a_host_whose_node_has_the_label(tmp_path: Path) -> None:
    made = boards(tmp_path)
    labels = {**node_labels("kvm-4", 4), PROTOCOL_LABEL: OUTLETS}
    found = devices.resolve(devices.parse(made.devices()), "kvm-4", labels)
    assert [one.name for one in found] == ["feed-a", "feed-b"]
    assert {one.cuts for one in found} == {Cuts.POWER}
    assert {one.alternative for one in found} == {""}
    where = [(one.parameters["ip"], int(one.parameters["ipport"])) for one in found]
    assert where == [made.outlet_address("kvm-4", feed) for feed in Feed]
    assert where == [("10.77.7.254", 7254), ("10.77.7.254", 7754)]


def test_no_two_boards_of_a_full_lab_have_one_port() -> None:
    every = range(1, MAX_HOSTS + 1)
    ports = [port(n) for n in every] + [storage_port(n) for n in every]
    ports += [feed_port(feed, n) for feed in Feed for n in every]
    assert len(set(ports)) == len(ports)


def test_the_password_is_made_once_and_for_root_only(tmp_path: Path) -> None:
    made = boards(tmp_path).password("kvm-1")
    secrets = boards(tmp_path).secrets()
    assert secrets["bmc-kvm-1"] == {"username": "admin", "password": made}
    assert secrets["bmc-kvm-4"]["password"] != made
    (file,) = tmp_path.glob("bmc/kvm-1.password")
    assert file.stat().st_mode & 0o077 == 0


def test_a_fault_lasts_until_another_is_set(tmp_path: Path) -> None:
    made = boards(tmp_path)
    made.password("kvm-1")  # makes the folder
    file = made.fault("kvm-1")
    assert file.read() is BoardFault.NONE
    file.write(BoardFault.LYING)
    assert made.fault("kvm-1").read() is BoardFault.LYING
    file.forget()
    assert file.read() is BoardFault.NONE
