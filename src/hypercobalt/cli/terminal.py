"""The terminal of a person, or the pipes in its place, as bytes of a console.

Source: termios(3), cfmakeraw; telnet(1), whose escape is ^].
"""

from __future__ import annotations

import asyncio
import os
import termios
import tty
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from hypercobalt.runtime.relay import CHUNK

LEAVE: Final = b"\x1d"
"""What Ctrl-] sends."""


class Terminal:
    """Standard input and output.

    Args:
        source: descriptor that is read.
        target: descriptor that is written.

    Attributes:
        left: the person has typed `LEAVE`.
        is_terminal: a person types; else the input is a pipe or a file, without a `LEAVE`.
    """

    def __init__(self, source: int, target: int) -> None:
        self._source, self._target = source, target
        self.left, self.is_terminal = False, os.isatty(source)

    async def read(self) -> bytes:
        """What is typed; b"" when the person leaves, or the input ends."""
        if self.left:
            return b""
        await _readable(self._source)
        data = os.read(self._source, CHUNK)
        if self.is_terminal and LEAVE in data:
            self.left = True
            return data.partition(LEAVE)[0]
        return data

    async def write(self, data: bytes) -> None:
        """Show bytes.

        Raises:
            OSError: who reads the output is gone.
        """
        await asyncio.to_thread(_write, self._target, data)

    @contextmanager
    def raw(self) -> Generator[None]:
        """Have every key go to the guest, and give the terminal back as it was."""
        if not self.is_terminal:
            yield
            return
        before = termios.tcgetattr(self._source)
        tty.setraw(self._source)
        try:
            yield
        finally:
            termios.tcsetattr(self._source, termios.TCSADRAIN, before)


def _write(target: int, data: bytes) -> None:
    while data:
        data = data[os.write(target, data) :]


async def _readable(descriptor: int) -> None:
    """Wait until something can be read; the descriptor stays blocking, its terminal is shared."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:  # a file is always ready, and cannot be waited for
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
