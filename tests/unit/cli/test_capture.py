"""The command line of `cobalt capture`."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hypercobalt.cli import agents, app
from hypercobalt.cli.capture import capture
from hypercobalt.runtime.client.pinned import Reply

HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
PACKET = struct.pack("<IIII", 0, 0, 96, 96) + bytes(96)


@pytest.mark.parametrize("flag", [("-w", "-"), ("--write", "-"), ("-w-",), ("-w", "file")])
def test_a_capture_goes_to_a_file_or_to_standard_output(flag: tuple[str, ...]) -> None:
    _, bound, _ = app.parse_args(["capture", "kvm-1", "tap1", *flag], exit_on_error=False)
    assert bound.arguments["write"] in {"-", "file"}


def test_a_capture_without_a_file_s_name_is_refused() -> None:
    with pytest.raises(Exception, match="requires an argument"):
        app.parse_args(["capture", "kvm-1", "tap1", "-w"], exit_on_error=False)


def streams(monkeypatch: pytest.MonkeyPatch, chunks: AsyncIterator[bytes]) -> None:
    async def sent() -> AsyncGenerator[bytes]:
        yield HEADER
        async for chunk in chunks:
            yield chunk

    @asynccontextmanager
    async def opened(*_: object, **__: object) -> AsyncGenerator[Reply]:
        yield Reply("application/vnd.tcpdump.pcap", sent())

    monkeypatch.setattr(agents, "opened", opened)


async def packets(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield PACKET


def test_capture_has_no_more_than_was_requested(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "file"
    streams(monkeypatch, packets(5))
    assert capture("kvm-1", "tap1", write=str(file), packets=5) == 0
    streams(monkeypatch, packets(500))
    assert capture("kvm-1", "tap1", write=str(file), packets=5) == 1
    assert file.read_bytes() == HEADER + 5 * PACKET
    assert "more than the 5 packets of 96 bytes" in capsys.readouterr().err


def test_packet_that_is_longer_than_was_requested_ends_a_capture(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    streams(monkeypatch, packets(5))
    assert capture("kvm-1", "tap1", write=str(tmp_path / "file"), snaplen=95) == 1
    assert "a packet of 96 bytes" in capsys.readouterr().err


def test_capture_that_its_agent_does_not_end_is_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A byte now and then is no silence."""

    async def dripping() -> AsyncIterator[bytes]:
        for byte in PACKET:
            yield bytes([byte])
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr("hypercobalt.cli.capture._SPARE", 0.1)
    streams(monkeypatch, dripping())
    assert capture("kvm-1", "tap1", write=str(tmp_path / "file"), duration=0) == 1
    assert "1 packets of port tap1 on kvm-1" in (found := capsys.readouterr().err)
    assert "has not ended the capture" in found
