"""Which processes belong to a lab, and in which order."""

from __future__ import annotations

import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest

from hypercobalt.lab import processes


def process(proc: Path, pid: int, role: str, *, begun: int) -> None:
    """A process as proc(5) has it."""
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "environ").write_bytes(f"A=b\0{processes.mark('lab', role)}\0".encode())
    fields = ["S", *(["0"] * 18), str(begun), *(["0"] * 30)]
    (folder / "stat").write_text(f"{pid} (a (b) c) {' '.join(fields)}\n")


def test_a_child_with_a_smaller_id_is_not_taken_for_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    process(tmp_path, 32_000, "leader/kvm-1", begun=100)
    process(tmp_path, 40, "leader/kvm-1", begun=2_000)
    process(tmp_path, 41, "leader/kvm-2", begun=50)
    found = processes.find("lab", "leader/kvm-1")
    assert [one.pid for one in found] == [32_000, 40]


def test_the_oldest_is_looked_for_again_once_its_id_is_anothers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    oldest = processes.Oldest("lab")
    assert oldest.find("host/kvm-1") is None
    process(tmp_path, 7, "host/kvm-1", begun=100)
    process(tmp_path, 8, "host/kvm-1", begun=200)
    find = Mock(side_effect=processes.find)
    monkeypatch.setattr(processes, "find", find)
    assert [oldest.find("host/kvm-1") for _ in range(3)] == [processes.Marked(7, "host/kvm-1")] * 3
    assert find.call_count == 1

    shutil.rmtree(tmp_path / "7")
    assert oldest.find("host/kvm-1") == processes.Marked(8, "host/kvm-1")
    shutil.rmtree(tmp_path / "8")
    process(tmp_path, 8, "host/kvm-2", begun=300)
    assert oldest.find("host/kvm-1") is None
    shutil.rmtree(tmp_path / "8")
    process(tmp_path, 8, "host/kvm-1", begun=400)
    assert oldest.find("host/kvm-1") == processes.Marked(8, "host/kvm-1")


def test_one_look_at_all_processes_finds_those_of_all_roles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    find = Mock(side_effect=processes.find)
    monkeypatch.setattr(processes, "find", find)
    for pid, role in ((7, "api"), (8, "ovn/sb"), (9, "ovn/sb"), (10, "ovn/nb")):
        process(tmp_path, pid, role, begun=pid)
    oldest = processes.Oldest("lab")
    assert oldest.find("api") == processes.Marked(7, "api")
    wanted = ("ovn/nb", "ovn/sb")
    assert {role: found.pid for role, found in oldest.running(wanted).items()} == {
        "ovn/nb": 10,
        "ovn/sb": 8,
    }
    assert find.call_count == 1

    shutil.rmtree(tmp_path / "8")
    process(tmp_path, 11, "operator", begun=11)
    running = oldest.running((*wanted, "operator", "rack/switch"))
    assert {role: found.pid for role, found in running.items()} == {
        "ovn/nb": 10,
        "ovn/sb": 9,
        "operator": 11,
    }
    assert find.call_count == 2
