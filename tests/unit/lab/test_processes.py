"""Which processes belong to a lab, and in which order."""

from __future__ import annotations

from pathlib import Path

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
