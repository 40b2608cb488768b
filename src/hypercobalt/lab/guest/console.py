"""Talk to a guest over its serial console.

A Linux guest (`init.sh`) takes a command a line and ends each in `guest NAME: ok COMMAND …` or
`guest NAME: error COMMAND: why`. What it prints is read as text, bounded, and never run.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

from hypercobalt.lab.errors import LabError, LabRequestError

_FIRST_LINE = re.compile(rb"^(?:guest|boot) \S+: up\b", re.MULTILINE)
"""What every guest prints once it runs."""

_ANSWER = timedelta(seconds=10)
_LONGEST = 64 * 1024
_POLL_SECONDS = 0.1


async def send(socket: Path, command: str, *, within: timedelta = _ANSWER) -> str:
    """Send one command to the guest behind a console socket.

    Args:
        socket: the Unix socket of the serial port, `VM.sock`.
        command: of `init.sh`: `dirty 20`, `panic`, `write-disk 4`, …
        within: until its answer; for `write-disk` that is when it is done.

    Returns:
        What follows `ok COMMAND` in the answer.

    Raises:
        LabError: the console cannot be opened, the guest refused, or it did not answer in time.
    """
    verb = re.escape(command.split(maxsplit=1)[0].encode())
    answer = re.compile(
        rb"^guest \S+: (ok|error) " + verb + rb"(?::? ([^\r\n]*))?\r?\n", re.MULTILINE
    )
    try:
        async with asyncio.timeout(within.total_seconds()):
            reader, writer = await _connect(socket)
            try:
                writer.write(b"\n" + command.encode() + b"\n")  # the first ends a half-typed line
                found = await _read_until(reader, answer)
            finally:
                writer.close()
    except TimeoutError:
        raise LabError(f"console {socket}: no answer to {command!r} in {within}") from None
    except OSError as exc:
        raise LabError(f"console {socket}: {exc.strerror}; check that the VM runs") from exc
    text = (found[2] or b"").decode(errors="replace")
    if found[1] != b"ok":
        raise LabError(f"VM {socket.stem}: the guest refused {command!r}: {text}")
    return text


async def _connect(socket: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    # The path of a socket has at most 107 bytes; a directory that is open has a short one.
    folder = os.open(socket.parent, os.O_PATH)
    try:
        return await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/{socket.name}")
    finally:
        os.close(folder)


async def follow(log: Path) -> AsyncIterator[str]:
    """Yield the past and future output of a guest, from a log that may be rotated; endless.

    Raises:
        LabError: there is no such log.
    """
    decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
    try:
        file = log.open("rb")
        while True:
            with file:
                while (data := file.read(_LONGEST)) or _same(file, log):
                    yield printable(decode(data))
                    if not data:
                        await asyncio.sleep(_POLL_SECONDS)
            file = log.open("rb")
    except FileNotFoundError as exc:
        raise LabRequestError(f"{log}: {exc.strerror}; check the name of the VM") from exc
    except OSError as exc:
        raise LabError(f"{log}: {exc.strerror}") from exc


def is_up(log: Path, offset: int = 0) -> bool:
    """Whether a guest has printed its first line, behind an offset in bytes of its log."""
    try:
        with log.open("rb") as file:
            file.seek(offset)
            return _FIRST_LINE.search(file.read()) is not None
    except FileNotFoundError:
        return False


def printable(text: str) -> str:
    """Text without what a terminal would obey: a guest prints what it likes."""
    return "".join(char for char in text if char in "\n\t" or char.isprintable())


def _same(file: BinaryIO, path: Path) -> bool:
    return os.fstat(file.fileno()).st_ino == path.stat().st_ino


async def _read_until(reader: asyncio.StreamReader, answer: re.Pattern[bytes]) -> re.Match[bytes]:
    seen = b""
    while True:
        data = await reader.read(4096)
        if not data:
            raise ConnectionResetError(104, "the other side closed it")
        seen = (seen + data)[-_LONGEST:]
        if found := answer.search(seen):
            return found
