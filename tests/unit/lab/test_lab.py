from __future__ import annotations

from pathlib import Path

import pytest

from hypercobalt.apiserver.storage.database import Database
from hypercobalt.errors import ConfigurationError
from hypercobalt.lab import state as records
from hypercobalt.lab.errors import LabError, LabRequestError
from hypercobalt.lab.lab import Lab, down
from hypercobalt.lab.machine import facts
from hypercobalt.lab.membership import add_host, remove_host
from hypercobalt.lab.network import bridge
from hypercobalt.lab.state import LabState, Layout
from hypercobalt.lab.vms.fleet import Fleet
from hypercobalt.lab.vms.request import VMRequest


async def test_down_removes_the_data_of_an_up_that_served_the_api_alone(tmp_path: Path) -> None:
    api = tmp_path / "lab" / "api"
    database = Database(api)
    (api / "pki").mkdir()
    (api / "pki" / "ca.key").touch()
    with pytest.raises(ConfigurationError, match="is in use by process"):
        await down(tmp_path / "lab")
    database.start(lambda _: None)
    database.close()

    assert await down(tmp_path / "lab")

    assert not (tmp_path / "lab").exists()
    assert not await down(tmp_path / "lab")


async def test_down_keeps_an_api_directory_that_is_no_servers(tmp_path: Path) -> None:
    (tmp_path / "api").mkdir()
    (tmp_path / "api" / "notes").touch()
    assert not await down(tmp_path)
    assert (tmp_path / "api" / "notes").exists()


async def test_a_new_lab_that_finds_no_network_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def foreign(_: LabState) -> bool:
        return False

    async def numbers() -> tuple[int, ...]:
        return (255,)

    running = tmp_path / "run"
    monkeypatch.setattr(records, "RUNNING", running)
    monkeypatch.setattr(facts, "is_root", lambda: True)
    monkeypatch.setattr(bridge, "observe_free_numbers", numbers)
    monkeypatch.setattr(bridge, "make_bridge", foreign)
    monkeypatch.setattr(bridge, "remove", foreign)
    with pytest.raises(LabError, match="no network is free"):
        await Lab.make(tmp_path / "lab")
    assert not list(running.iterdir())
    assert not (tmp_path / "lab").exists()


async def test_command_without_root_is_refused_and_the_lab_not_taken_for_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records.save(Layout.at(tmp_path), records.new(6443, records.NODE_GRACE))
    monkeypatch.setattr(facts, "is_root", lambda: False)
    refused = "is root's: run this command as root"
    with pytest.raises(LabError, match=refused):
        Lab.find(tmp_path)
    with pytest.raises(LabError, match=refused):
        await Lab.make(tmp_path)
    with pytest.raises(LabError, match=refused):
        await down(tmp_path)
    assert records.load(Layout.at(tmp_path)) is not None


async def test_lab_with_openstack_keeps_its_hosts_and_its_guests_are_novas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "is_root", lambda: True)
    lab = Lab(Layout.at(tmp_path), records.new(6443, records.NODE_GRACE))
    lab.plan(("kvm-1", "kvm-2"), openstack=tmp_path)
    before = records.load(lab.layout)

    with pytest.raises(LabRequestError, match="would have no nova-compute"):
        await add_host(lab)
    with pytest.raises(LabRequestError, match="Nova would keep kvm-2"):
        await remove_host(lab, "kvm-2")
    with pytest.raises(LabRequestError, match="make servers with Nova"):
        await Fleet(lab).add(VMRequest())

    assert records.load(lab.layout) == before
