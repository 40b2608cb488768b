"""What the log of a domain shows, which QEMU and so its guest write into."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.node_agent.incidents.domain_log import (
    DIRECTORY,
    MOST_BYTES,
    DomainLogs,
    reason_of,
)

START = b"2026-11-27 22:00:00.000+0000: starting up libvirt version: 10.0.0, qemu version: 8.2.2\n"
CRASH = b"2026-11-27 23:00:00.123+0000: shutting down, reason=crashed\n"
SHUTDOWN = CRASH.replace(b"crashed", b"shutdown")
NOISE = b"qemu-system-x86_64: warning: guest said hello\n"


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        pytest.param(START + NOISE + CRASH, "crashed", id="it crashed"),
        pytest.param(START + CRASH + START + SHUTDOWN, "shutdown", id="the last end counts"),
        pytest.param(START + CRASH + START, "", id="it was started since"),
        pytest.param(CRASH, "crashed", id="its start is not in the tail"),
        pytest.param(CRASH.replace(b"crashed", b"from snapshot"), "from snapshot", id="two words"),
        pytest.param(b"", "", id="empty"),
        pytest.param(b"x" + CRASH, "", id="no line of its own"),
        pytest.param(CRASH.replace(b"\n", b" \n"), "crashed ", id="blanks are kept"),
        pytest.param(CRASH.replace(b"crashed", b"crashed; rm"), "", id="more than a reason"),
        pytest.param(CRASH.replace(b"crashed", b"c" * 21), "", id="too long"),
        pytest.param(CRASH.replace(b"+0000", b"+0100"), "", id="another form"),
        pytest.param(CRASH.replace(b"crashed", b"\xd0\xb0"), "", id="not ASCII"),
    ],
)
def test_last_end_counts_in_the_exact_form_of_libvirt(tail: bytes, reason: str) -> None:
    assert reason_of(tail) == reason


@given(st.binary(max_size=2000))
def test_no_content_is_an_error(tail: bytes) -> None:
    assert len(reason_of(tail)) <= 20


def logs(root: Path, content: bytes, name: str = "vm1") -> DomainLogs:
    (root / DIRECTORY).mkdir(parents=True, exist_ok=True)
    (root / DIRECTORY / f"{name}.log").write_bytes(content)
    return DomainLogs(root)


async def test_only_the_end_of_a_log_is_read(tmp_path: Path) -> None:
    early = logs(tmp_path, CRASH + NOISE * (MOST_BYTES // len(NOISE) + 1))
    assert await early.reasons(["vm1"]) == {}
    late = logs(tmp_path, NOISE * (MOST_BYTES // len(NOISE) + 1) + CRASH)
    assert await late.reasons(["vm1"]) == {"vm1": "crashed"}


async def test_line_that_is_still_being_written_does_not_count(tmp_path: Path) -> None:
    torn = logs(tmp_path, START + CRASH.removesuffix(b"\n"))
    assert await torn.reasons(["vm1"]) == {}


@pytest.mark.parametrize("name", ["../vm1", "a/b", "", "vm2", "v" * 300, "x\0y"])
async def test_name_that_is_no_file_of_the_directory_has_no_log(tmp_path: Path, name: str) -> None:
    found = logs(tmp_path, CRASH)
    (tmp_path / DIRECTORY.parent / "vm1.log").write_bytes(CRASH)
    assert await found.reasons([name]) == {}


async def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    found = logs(tmp_path, CRASH)
    folder = tmp_path / DIRECTORY
    (folder / "link.log").symlink_to(folder / "vm1.log")
    os.mkfifo(folder / "pipe.log")
    (folder / "folder.log").mkdir()
    assert await found.reasons(["link", "pipe", "folder", "vm1"]) == {"vm1": "crashed"}
