"""Which boot of the host this is."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hypercobalt.adapters.host.boot import Boot, this_boot

TICKS = os.sysconf("SC_CLK_TCK")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text("8f2c\n")
    (tmp_path / "stat").write_text("cpu 1 2 3\nbtime 1767225600\nprocesses 7\n")
    (tmp_path / "1").mkdir()
    (tmp_path / "1/stat").write_text(f"1 (systemd) S {'0 ' * 18}{90 * TICKS} 0 0\n")
    return tmp_path


def test_a_machine_was_booted_when_its_kernel_was(proc: Path) -> None:
    (proc / "1/comm").write_text("bash\n")  # of a container
    assert this_boot(proc) == Boot("8f2c", datetime(2026, 1, 1, tzinfo=UTC))


def test_a_host_with_a_systemd_of_its_own_was_booted_when_that_started(proc: Path) -> None:
    (proc / "1/comm").write_text("systemd\n")
    assert this_boot(proc) == Boot("8f2c", datetime(2026, 1, 1, 0, 1, 30, tzinfo=UTC))


def test_a_kernel_that_gives_nothing_has_an_unknown_boot(tmp_path: Path) -> None:
    assert this_boot(tmp_path) == Boot()
