"""Rows that carry the tags of a capture: OVSDB takes any text for them, and none ends the agent."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from pathlib import Path

import pytest
from tests.unit.adapters.ovs.scripted import Serve, served

from hypercobalt.adapters.ovs import mirrors
from hypercobalt.adapters.ovs.framing import Objects
from hypercobalt.adapters.ovs.mirror_tags import EXPIRES, MAKER, OWNER
from hypercobalt.adapters.ovs.mirrors import Mirrored, Mirrors

UUID = "7c2f1f3e-0e0a-4a93-8a4e-1d6c3a6f6f10"
LATER, NOW = "2000000000", 1.0


def database(tags: dict[str, str], done: list[str]) -> Serve:
    """A server with one tagged mirror; takes down the operations of each transaction."""
    row = {"name": "hcm1", "external_ids": ["map", list(tags.items())], "_uuid": ["uuid", UUID]}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        objects = Objects("test", 10**6)
        while data := await reader.read(65536):
            for text in objects.feed(data):
                call = json.loads(text)
                operations = call["params"][1:]
                done.extend(one["op"] for one in operations)
                tables = [one["table"] for one in operations]
                rows = ([row] if table == "Mirror" else [] for table in tables)
                result = [{"rows": found, "count": 1} for found in rows]
                writer.write(
                    json.dumps({"id": call["id"], "result": result, "error": None}).encode()
                )

    return serve


class Kernel:
    """Has a new device at the second request for it."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def ioctl(self, _socket: object, call: int, request: bytes) -> bytes:
        self.calls.append(call)
        if len(self.calls) == 1:
            raise OSError(errno.ENODEV, "No such device")
        return request


def process(root: Path, pid: int, name: bytes = b"python") -> None:
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True)
    fields = b" ".join(b"%d" % number for number in range(4, 30))
    (folder / "stat").write_bytes(b"%d (%b) S %b" % (pid, name, fields))


@pytest.mark.parametrize(
    ("maker", "stays"),
    [
        ("42 22", True),
        ("42 23", False),
        ("43 22", False),
        ("", False),
        ("\u00b2 22", False),
        (f"{'9' * 5000} 22", False),
        ("../42 22", False),
    ],
)
async def test_mirror_stays_while_the_process_that_made_it_runs(
    tmp_path: Path, maker: str, stays: bool
) -> None:
    process(tmp_path, 42, b"\xff) S 1 (")
    process(tmp_path, os.getpid())
    done: list[str] = []
    tags = {OWNER: "kvm-1", EXPIRES: LATER, MAKER: maker}
    async with served(tmp_path / "db.sock", database(tags, done)) as socket:
        expires = await Mirrors(socket, "kvm-1", tmp_path).sweep(NOW)
    assert expires == (float(LATER) if stays else None)
    assert ("mutate" in done) is not stays


async def test_a_device_that_the_kernel_does_not_have_yet_is_awaited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, done = Kernel(), list[str]()
    monkeypatch.setattr(mirrors, "fcntl", kernel)
    process(tmp_path, os.getpid())
    async with served(tmp_path / "db.sock", database({}, done)) as socket:
        found = Mirrors(socket, "kvm-1", tmp_path)
        async with found.mirror(Mirrored(UUID, UUID), snaplen=64, until=float(LATER)) as device:
            assert device.startswith("hcm")
    assert kernel.calls == [0x8913, 0x8913, 0x8914]
