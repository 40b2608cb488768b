"""Standard output and error of the command, where they are closed, full or without a reader.

An output that takes nothing more ends the command with one line and exit code 1; one that was
closed takes everything, and no file that is opened later gets its number.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

from hypercobalt.errors import HypercobaltError

if TYPE_CHECKING:
    from typing_extensions import Buffer


class OutputError(HypercobaltError):
    """The standard output takes nothing more: its disk is full, for example."""


class Output(io.FileIO):
    """Standard output.

    Attributes:
        is_unread: whether its reader has exited.
    """

    is_unread = False

    def write(self, data: Buffer, /) -> int:
        """Write what goes.

        Raises:
            OutputError: it cannot be written; what follows is dropped: no later write fails.
            BrokenPipeError: the reader has exited.
        """
        try:
            return super().write(data)
        except BrokenPipeError:
            self.is_unread = True
            raise
        except OSError as error:
            discard(self.fileno())
            raise OutputError(f"standard output: {error.strerror}") from error


class _Errors(io.FileIO):
    """Standard error: that it cannot be written is no reason to fail in another way."""

    def write(self, data: Buffer, /) -> int:
        """Write what goes, and drop the rest."""
        try:
            return super().write(data)
        except OSError:
            discard(self.fileno())
            return memoryview(data).nbytes


def prepare() -> Output:
    """Make the standard files of this process safe to write to, and return the standard output."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free: this one
    output = Output(1, "wb", closefd=False)
    sys.stdout = _text(sys.stdout, output)
    sys.stderr = _text(sys.stderr, _Errors(2, "wb", closefd=False), line_buffering=True)
    return output


def discard(number: int) -> None:
    """Send what is still written to a file descriptor nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)


def _text(old: TextIO | None, raw: io.FileIO, *, line_buffering: bool = False) -> TextIO:
    """Text as Python's own file has it; that is None where the file was closed."""
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding="utf-8" if old is None else old.encoding,
        errors="backslashreplace" if old is None else old.errors,
        line_buffering=line_buffering or raw.isatty(),
        write_through=isinstance(old, io.TextIOWrapper) and old.write_through,
    )
