"""The command line that reads the journal."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from hypercobalt.adapters.host.journal import KERNEL, UNITS, Journal, LineSelection, arguments
from hypercobalt.adapters.host.port import HostError


def test_without_a_unit_all_of_the_list_are_read() -> None:
    words = arguments(LineSelection())
    assert [f"--unit={unit}.service" for unit in UNITS] == [
        word for word in words if word.startswith("--unit=")
    ]
    assert {"--lines=200", "--output=short-iso", "--root=/"} <= set(words)
    assert not {"--follow", "--since"} & {word.partition("=")[0] for word in words}


def test_a_unit_a_time_and_following_become_options() -> None:
    since = datetime(2026, 1, 31, 12, tzinfo=UTC)
    words = arguments(LineSelection("libvirtd", 5, since, follow=True), Path("/host"))
    assert words[-1] == "--unit=libvirtd.service"
    assert {"--lines=5", f"--since=@{since.timestamp():.6f}", "--follow", "--root=/host"} <= set(
        words
    )


def test_the_kernel_is_read_by_where_its_lines_come_from() -> None:
    assert arguments(LineSelection(KERNEL))[-1] == "_TRANSPORT=kernel"


async def test_error_of_a_host_without_a_journal_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"logs\.enabled"):
        await anext(Journal(tmp_path).read(LineSelection()))
