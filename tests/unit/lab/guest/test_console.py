"""Against a scripted guest: whatever it prints, in bounded time and memory."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from hypercobalt.lab.errors import LabError
from hypercobalt.lab.guest import console

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def guest(socket: Path, script: Script) -> AsyncIterator[None]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await script(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    short = Path(tempfile.mkdtemp()) / "s"
    async with await asyncio.start_unix_server(serve, short):
        short.rename(socket)
        short.parent.rmdir()
        yield


def prints(text: bytes) -> Script:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\ndirty 20\n")
        for byte in text:
            writer.write(bytes([byte]))
            await writer.drain()
        await reader.read()

    return script


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        pytest.param(b"guest n1: ok dirty 20\r\n", "20", id="at-once"),
        pytest.param(b"guest n1: ok dirty\r\n", "", id="without-more"),
        pytest.param(b"ok dirty\nguest n1: alive 7\nguest n1: ok dirty a b\n", "a b", id="late"),
        pytest.param(b"guest n1: ok dirty \xff\n", "\N{REPLACEMENT CHARACTER}", id="no-text"),
        pytest.param(b"guest n1: ok di\nguest n1: ok dirty 1\n", "1", id="other-verb"),
    ],
)
async def test_an_answer_is_found_in_a_guests_output(
    tmp_path: Path, output: bytes, answer: str
) -> None:
    async with guest(tmp_path / "s", prints(output)):
        assert await console.send(tmp_path / "s", "dirty 20") == answer


async def test_the_path_of_a_socket_may_be_long(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    async with guest(folder / "s", prints(b"guest n1: ok dirty 20\n")):
        assert await console.send(folder / "s", "dirty 20") == "20"


async def test_a_refusal_has_the_vm_and_the_reason(tmp_path: Path) -> None:
    socket, refusal = tmp_path / "vm-1.sock", b"guest n1: error dirty: 'x' is not a number\r\n"
    async with guest(socket, prints(refusal)):
        with pytest.raises(LabError, match="VM vm-1: the guest refused 'dirty 20': 'x' is not a"):
            await console.send(socket, "dirty 20")


async def test_a_silent_guest_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    async with guest(tmp_path / "s", prints(b"guest n1: alive 1\n")):
        with pytest.raises(LabError, match="no answer"):
            await console.send(tmp_path / "s", "dirty 20", within=timedelta(milliseconds=50))


async def test_a_guest_that_goes_away_is_an_error(tmp_path: Path) -> None:
    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()

    async with guest(tmp_path / "s", leave):
        with pytest.raises(LabError, match="closed"):
            await console.send(tmp_path / "s", "dirty 20")


async def test_a_guest_that_is_off_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="check that the VM runs"):
        await console.send(tmp_path / "none", "dirty 20")


async def test_a_log_is_followed_through_its_rotation(tmp_path: Path) -> None:
    log = tmp_path / "vm.log"
    log.write_bytes("first ✓\n".encode()[:8])
    seen = ""
    async with asyncio.timeout(5):
        async for text in console.follow(log):
            seen += text
            if seen == "first ":
                with log.open("ab") as file:
                    file.write("✓\n".encode()[2:])
            if seen == "first ✓\n":
                log.rename(tmp_path / "vm.log.0")
                log.write_bytes(b"second\n")
            if seen.endswith("second\n"):
                break
    assert seen == "first ✓\nsecond\n"


async def test_a_log_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="check the name of the VM"):
        await anext(console.follow(tmp_path / "none.log"))


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        pytest.param("guest a: up\r\n", "guest a: up\n", id="a-line"),
        pytest.param("\x1b[2J\x1b]0;root\x07x", "[2J]0;rootx", id="orders-to-a-terminal"),
        pytest.param("a\tb ü\n", "a\tb ü\n", id="text"),
        pytest.param("\x9b31m\x00\u202e", "31m", id="other-controls"),
    ],
)
def test_output_of_a_guest_has_no_terminal_control(output: str, shown: str) -> None:
    assert console.printable(output) == shown
