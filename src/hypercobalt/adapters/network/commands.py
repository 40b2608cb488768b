"""Runs `ip`, `nft` and `sysctl` in a network namespace, bounded in time and output.

Source: ip(8), nft(8), sysctl(8), nsenter(1); memfd_create(2).
"""

from __future__ import annotations

import asyncio
import os
from asyncio import StreamReader
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

from hypercobalt.adapters import child
from hypercobalt.adapters.network.model import NetworkError

_DEADLINE: Final = timedelta(seconds=20)
_MOST_BYTES: Final = 16 * 2**20  # of an answer: some thousand links
_SHOWN: Final = 512  # characters of a complaint


async def read_ip(namespace: Path | None, *words: str) -> bytes:
    """What `ip` prints as JSON.

    Args:
        namespace: file of a network namespace; None: that of this process.
        words: arguments.

    Raises:
        NetworkError: it does not answer.
    """
    return await _run(namespace, ("ip", "-json", *words))


async def change_ip(namespace: Path | None, lines: Iterable[str]) -> None:
    """Run commands of `ip`, one a line, until one fails.

    Raises:
        NetworkError: one has failed; those before it are done.
    """
    if text := "".join(f"{line}\n" for line in lines):
        await _run(namespace, ("ip", "-batch", "-"), text)


async def change_rules(namespace: Path | None, ruleset: str) -> None:
    """Have nftables do all commands of a ruleset, or none.

    Raises:
        NetworkError: it refuses; none is done.
    """
    await _run(namespace, ("nft", "-f", "-"), ruleset)


async def set_kernel(namespace: Path | None, settings: Mapping[str, int]) -> None:
    """Set settings of the kernel, such as `net.ipv4.ip_forward`; one that it lacks is skipped.

    Raises:
        NetworkError: it refuses.
    """
    words = (f"{name}={value}" for name, value in settings.items())
    await _run(namespace, ("sysctl", "-q", "-e", "-w", *words))


async def _run(namespace: Path | None, argv: tuple[str, ...], text: str = "") -> bytes:
    inside = ("nsenter", f"--net={namespace}", "--") if namespace else ()
    command = child.bounded((*inside, *argv), _DEADLINE)
    about = " ".join(argv[:4]) + (f" in {namespace}" if namespace else "")
    try:
        async with asyncio.timeout(_DEADLINE.total_seconds()):
            with _readable(text) as stdin:
                async with child.running(command, stdin=stdin) as process:
                    out, problems = await asyncio.gather(
                        _read(process.out, about), _read(process.problems, about)
                    )
                    code = await process.end()
    except TimeoutError as error:
        raise NetworkError(f"{about}: not done after {_DEADLINE.total_seconds():g} s") from error
    except OSError as error:
        raise NetworkError(f"{about}: cannot be started: {error.strerror}") from error
    if code:
        lines = problems.decode(errors="replace").strip().splitlines()
        why = "; ".join(lines)[:_SHOWN] or f"exit code {code}"
        raise NetworkError(f"{about}: {why}")
    return out


@contextmanager
def _readable(text: str) -> Generator[int]:
    """A file in memory that a program can read from."""
    file = os.memfd_create("commands")
    try:
        os.write(file, text.encode())
        os.lseek(file, 0, os.SEEK_SET)
        yield file
    finally:
        os.close(file)


async def _read(stream: StreamReader, about: str) -> bytes:
    read = bytearray()
    while data := await stream.read(2**16):
        read += data
        if len(read) > _MOST_BYTES:
            raise NetworkError(f"{about}: an answer of more than {_MOST_BYTES} bytes")
    return bytes(read)
