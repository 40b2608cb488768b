"""Witnesses outside of the host: when one counts as seen."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from hypercobalt.adapters.host.watchdog import Watchdog
from hypercobalt.errors import ConfigurationError
from hypercobalt.node_agent.fencing.signs import Heartbeat, any_answers

SOON = timedelta(milliseconds=300)


async def served(answer: bytes) -> tuple[asyncio.Server, int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await reader.read()  # until the client goes
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1")
    return server, server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(b"HTTP/1.1 200 OK\r\n\r\n", True), (b"HTTP/1.1 500 No\r\n\r\n", True), (b"", False)],
    ids=["well", "unwell", "accepts the connection only"],
)
async def test_witness_counts_only_when_it_answers(answer: bytes, expected: bool) -> None:
    server, port = await served(answer)
    async with server:
        assert await any_answers([("127.0.0.1", port)], SOON) is expected


async def test_one_witness_of_several_is_enough() -> None:
    server, port = await served(b"HTTP/1.1 200 OK\r\n\r\n")
    async with server:
        assert await any_answers([("127.0.0.1", 1), ("127.0.0.1", port)], SOON)
    assert not await any_answers([("127.0.0.1", 1)], SOON)
    assert not await any_answers([], SOON)


async def test_storage_that_can_be_written_is_there(tmp_path: Path) -> None:
    within = timedelta(seconds=10)
    assert await Heartbeat(tmp_path / "beat").is_writable(within)
    assert (tmp_path / "beat").stat().st_size == 512
    assert not await Heartbeat(tmp_path / "missing/beat").is_writable(within)


async def test_storage_that_hangs_is_away_and_is_probed_by_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo, stuck = tmp_path / "fifo", tmp_path / "dd"
    os.mkfifo(fifo)
    stuck.write_text(f"#!/bin/sh\nread line <{fifo}\n")  # waits as for storage that hangs
    stuck.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    beat = Heartbeat(tmp_path / "beat")
    assert not await beat.is_writable(SOON)
    assert not await beat.is_writable(timedelta(seconds=5))  # the killed writer has ended
    stuck.unlink()
    assert await beat.is_writable(timedelta(seconds=10))


async def test_heartbeat_is_written_through_no_link(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    target, beat = tmp_path / "shadow", tmp_path / "beat"
    target.write_bytes(b"root:x\n")
    beat.symlink_to(target)
    assert not await Heartbeat(beat).is_writable(timedelta(seconds=10))
    assert target.read_bytes() == b"root:x\n"
    assert f"heartbeat_not_written file={beat}" in caplog.text
    assert "a link" in caplog.text  # and what to do


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "directory"])
async def test_what_is_no_file_keeps_no_heartbeat_waiting(
    tmp_path: Path, make: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "beat"
    make(path)
    beat = Heartbeat(path)
    assert not await asyncio.wait_for(beat.is_writable(timedelta(minutes=5)), 10)
    assert not await beat.is_writable(timedelta(seconds=10))
    assert caplog.text.count("heartbeat_not_written") == 1  # once for each reason
    (path.rmdir if path.is_dir() else path.unlink)()
    assert await beat.is_writable(timedelta(seconds=10))


async def test_heartbeat_replaces_nothing_that_is_there(tmp_path: Path) -> None:
    path = tmp_path / "beat"
    path.write_bytes(bytes(1024))
    assert await Heartbeat(path).is_writable(timedelta(seconds=10))
    assert path.stat().st_size == 1024


def test_device_that_is_no_watchdog_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for name, why in (("missing", "No such file"), ("file", "refused")):
        with pytest.raises(ConfigurationError, match=why):
            Watchdog(tmp_path / name, timedelta(seconds=60))
