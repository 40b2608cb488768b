"""What a person types at a console, and how they leave it."""

from __future__ import annotations

import os
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypercobalt.cli.terminal import Terminal


@pytest.fixture
def typing() -> Iterator[tuple[int, int]]:
    """A terminal: the person's end, and the end that a command has."""
    ends = os.openpty()
    yield ends
    for end in ends:
        os.close(end)


async def test_keys_go_to_the_guest_until_the_person_leaves(typing: tuple[int, int]) -> None:
    person, end = typing
    terminal, before = Terminal(end, end), termios.tcgetattr(end)
    with terminal.raw():
        os.write(person, b"\x03\x1a")  # Ctrl-C and Ctrl-Z are the guest's
        assert await terminal.read() == b"\x03\x1a"
        os.write(person, b"ls\x1dmore")
        assert await terminal.read() == b"ls"
        assert terminal.left
        assert await terminal.read() == b""
    assert termios.tcgetattr(end) == before


async def test_pipe_is_copied_as_it_is() -> None:
    source, target = os.pipe()
    terminal = Terminal(source, target)
    with terminal.raw():
        await terminal.write(b"a\x1db")
        assert await terminal.read() == b"a\x1db"
        assert not terminal.left
        os.close(target)
        assert await terminal.read() == b""
    os.close(source)


async def test_file_is_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(b"root\n")
    source = os.open(tmp_path / "keys", os.O_RDONLY)
    terminal = Terminal(source, source)
    assert [await terminal.read(), await terminal.read()] == [b"root\n", b""]
    os.close(source)
