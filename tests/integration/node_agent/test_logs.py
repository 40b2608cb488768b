"""Lines of a journal that a journald of the tests writes, and what is left of reading them."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.integration.runtime.scripted import eventually

from hypercobalt.adapters.child import MARK
from hypercobalt.adapters.host.journal import Journal, LineSelection
from hypercobalt.adapters.host.port import HostError
from hypercobalt.agent.diagnostics.use import RefusedUseError, UseRequest
from hypercobalt.cli.log_lines import Lines
from hypercobalt.node_agent.logs import Logs
from hypercobalt.runtime import SystemClock
from hypercobalt.runtime.routes import Requester, Stream

BOUND = 30.0
_JOURNALD = "/usr/lib/systemd/systemd-journald"
_SCRIPT = f"""
mount --bind "$1/run" /run && mount -t tmpfs none /var/log && exec {_JOURNALD}
"""


class Journald:
    """A journald whose `/run` is in a folder; it dies with the tests."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "run/systemd").mkdir(parents=True)
        (root / "run/log/journal").mkdir(parents=True)
        self._process = subprocess.Popen(
            [
                *("unshare", "--mount", "setpriv", "--pdeathsig", "KILL"),
                *("sh", "-c", _SCRIPT, "sh", str(root)),
            ],
            stderr=subprocess.DEVNULL,
        )

    async def opened(self) -> None:
        async with asyncio.timeout(BOUND):
            while not (self.root / "run/systemd/journal/socket").exists():
                assert self._process.poll() is None, "journald has ended"
                await asyncio.sleep(0.02)

    async def write(self, unit: str, message: str) -> None:
        """Write a line, and wait until it is in the journal."""
        self.send(unit, message)
        async with asyncio.timeout(BOUND):
            while message not in await self._everything():  # noqa: ASYNC110
                await asyncio.sleep(0.02)  # journald answers nothing to a line

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def send(self, unit: str, message: str) -> None:
        """Write a line, which journald takes when it comes to it."""
        fields = {"MESSAGE": message, "SYSLOG_IDENTIFIER": "t", "OBJECT_SYSTEMD_UNIT": unit}
        text = "".join(f"{name}={value}\n" for name, value in fields.items())
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
            made.connect(str(self.root / "run/systemd/journal/socket"))
            made.send(text.encode())

    async def _everything(self) -> str:
        command = ("journalctl", "--quiet", "--output=cat", f"--root={self.root}", "--lines=50")
        reader = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        out, _ = await reader.communicate()
        return out.decode()

    def close(self) -> None:
        self._process.kill()
        self._process.wait(BOUND)


@pytest.fixture
async def journald() -> AsyncGenerator[Journald]:
    if os.geteuid() != 0 or not Path(_JOURNALD).exists():
        if os.environ.get("CI") == "true":
            pytest.fail("journald and root are needed here: make prepare")
        pytest.skip("needs root, and journald: make prepare")
    folder = Path(tempfile.mkdtemp(prefix="journal-"))
    daemon = Journald(folder)
    try:
        await daemon.opened()
        yield daemon
    finally:
        daemon.close()
        shutil.rmtree(folder)


@asynccontextmanager
async def reading(journald: Journald, **parameters: str) -> AsyncGenerator[Stream]:
    use = Logs(Journal(journald.root), SystemClock()).use()
    answer = await use.handle(UseRequest(parameters, b"", Requester("jane")))
    assert isinstance(answer, Stream)
    async with aclosing(answer.chunks):
        yield answer


async def answered(journald: Journald, **parameters: str) -> bytes:
    async with asyncio.timeout(BOUND), reading(journald, **parameters) as answer:
        return b"".join([chunk async for chunk in answer.chunks])


async def read(journald: Journald, **parameters: str) -> list[str]:
    """What is behind the time, host and name of each line."""
    text = await answered(journald, **parameters)
    return [line.partition("]: ")[2] for line in text.decode().splitlines()]


def children() -> Iterator[str]:
    """Programs of this process that run."""
    mark = f"{MARK}={os.getpid()}\0".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes():
                yield (folder / "comm").read_text().strip()
        except OSError:
            continue


async def test_lines_of_the_units_of_the_list_are_read(journald: Journald) -> None:
    await journald.write("libvirtd.service", "one")
    await journald.write("sshd.service", "of another unit")
    await journald.write("ovs-vswitchd.service", "two")
    await journald.write("libvirtd.service", "three")
    assert await read(journald) == ["one", "two", "three"]
    assert await read(journald, unit="libvirtd") == ["one", "three"]
    assert await read(journald, unit="libvirtd.service", lines="1") == ["three"]
    assert await read(journald, unit="virtqemud") == []
    assert await read(journald, since="10m", unit="ovs-vswitchd") == ["two"]
    later = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert await read(journald, since=later) == []
    with pytest.raises(RefusedUseError, match="unit 'sshd': must be one of libvirtd,"):
        await read(journald, unit="sshd")


async def test_new_lines_follow_until_the_reader_leaves(journald: Journald) -> None:
    await journald.write("libvirtd.service", "before")
    async with asyncio.timeout(BOUND), reading(journald, follow="true", lines="1") as answer:
        assert (await anext(answer.chunks)).endswith(b": before\n")
        await journald.write("libvirtd.service", "after")
        assert (await anext(answer.chunks)).endswith(b": after\n")
        assert sorted(children()) == ["journalctl", "timeout"]
    await eventually(lambda: not list(children()))  # the last one ends a moment after the first


async def test_next_request_goes_on_where_the_last_one_ended(journald: Journald) -> None:
    lines, parameters = Lines(), {"follow": "true", "lines": "2"}
    shown = ""
    for number in range(4):
        await journald.write("libvirtd.service", f"{number}a")
        await journald.write("libvirtd.service", f"{number}b")
        last = f"{number}b\n"
        async with asyncio.timeout(BOUND), reading(journald, **parameters) as answer:
            while not shown.endswith(last):
                shown += lines.feed(await anext(answer.chunks))
        parameters = lines.resume(parameters, 1.0)
    found = [line.partition("]: ")[2] for line in shown.splitlines()]
    assert found == [f"{number}{letter}" for number in range(4) for letter in "ab"]
    assert lines.notice == ""


async def test_line_that_journald_has_taken_late_does_not_come_twice(journald: Journald) -> None:
    """The time that is shown is when it was written; the journal is in the order of receipt."""
    journald.signal(signal.SIGSTOP)
    journald.send("libvirtd.service", "early")
    await asyncio.sleep(1)  # its second is over
    journald.signal(signal.SIGCONT)
    await journald.write("libvirtd.service", "last")
    lines, parameters = Lines(), {"lines": "10"}
    shown = lines.feed(await answered(journald, **parameters))
    await journald.write("libvirtd.service", "more")
    shown += lines.feed(await answered(journald, **lines.resume(parameters, 1.0)))
    assert [line.partition("]: ")[2] for line in shown.splitlines()] == ["early", "last", "more"]
    assert lines.notice == ""


async def test_a_journal_that_is_cut_off_is_an_error(
    journald: Journald, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hypercobalt.adapters.host.journal.BYTES", 100)
    await journald.write("libvirtd.service", "long " * 40)
    with pytest.raises(HostError, match="most of one request"):
        async for _ in Journal(journald.root).read(LineSelection()):
            pass
