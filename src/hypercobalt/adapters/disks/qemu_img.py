"""The real `Disks`: qemu-img, with little memory and time, on files whose header was read before.

qemu-img has a long history of headers that made it take all memory or time there is, or open files
that a header names. So the header is read first (`qcow2.py`), the format that it showed is given,
and qemu-img has limits of address space, CPU time, size of files and time.

Source: qemu-img(1), prlimit(1); CVE-2024-4467.
"""

from __future__ import annotations

import asyncio
import os
import stat
from asyncio import StreamReader
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

import msgspec

from hypercobalt.adapters import child
from hypercobalt.adapters.disks import qcow2
from hypercobalt.adapters.disks.port import (
    LARGEST,
    MIB,
    DiskFailureError,
    DiskImage,
    ImageError,
    ImageFormat,
)

_DEADLINE: Final = timedelta(seconds=20)
_ADDRESS_SPACE: Final = 1024 * MIB
_CPU_SECONDS: Final = 10
_FILE_BYTES: Final = 256 * MIB  # what a new file has: tables of `LARGEST` are smaller
_KEPT: Final = 64 * 1024  # bytes of each output
_LEAKED: Final = 3  # exit code of a check that found nothing but clusters that nobody uses
_SECTOR: Final = 512


class _Info(msgspec.Struct):
    format: str
    virtual_size: int = msgspec.field(name="virtual-size")


class QemuImg:
    """See `hypercobalt.adapters.disks.port.Disks`."""

    async def inspect(self, image: Path) -> DiskImage:
        format_ = _format(image)
        named = ("-f", format_, "-U", "--output=json", "--", str(image))
        answer = await _run(image, "info", *named)
        try:
            info = msgspec.json.decode(answer, type=_Info)
        except msgspec.DecodeError as exc:
            raise ImageError(image, f"qemu-img's answer cannot be read: {exc}") from exc
        if not _SECTOR <= info.virtual_size <= LARGEST:
            raise ImageError(image, f"its virtual size is {info.virtual_size} bytes")
        if format_ == "qcow2":
            await _run(image, "check", *named, fine=(0, _LEAKED))
        return DiskImage(format_, info.virtual_size)

    async def overlay(self, path: Path, image: Path, found: DiskImage) -> None:
        # Unsafe means that the image is not opened: it has been, and its size is known.
        below = ("-u", "-b", str(image), "-F", found.format)
        await _create(path, *below, size_bytes=found.size_bytes)

    async def empty(self, path: Path, size_bytes: int) -> None:
        size = size_bytes // MIB * MIB
        if not 0 < size <= LARGEST:
            raise ImageError(path, f"{size_bytes} bytes: must be 1 MiB to {LARGEST} bytes")
        await _create(path, size_bytes=size)


def _format(image: Path) -> ImageFormat:
    """The format of an image by its first bytes, if it may be opened at all."""
    try:
        file = os.open(image, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as exc:
        raise DiskFailureError(f"image {image.name!r} cannot be opened: {exc.strerror}") from exc
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise ImageError(image, "it is no regular file")
        head = os.pread(file, qcow2.HEADER_BYTES, 0)
    except OSError as exc:
        raise DiskFailureError(f"image {image.name!r} cannot be read: {exc.strerror}") from exc
    finally:
        os.close(file)
    if not qcow2.is_qcow2(head):
        return "raw"
    if problem := qcow2.problem(head, found.st_size):
        raise ImageError(image, problem)
    return "qcow2"


async def _create(path: Path, *options: str, size_bytes: int) -> None:
    """Make a file under another name and rename it, unless it is there."""
    with _whole(path) as new:
        if new is not None:
            words = ("create", "-q", "-f", "qcow2", *options, "--", str(new), str(size_bytes))
            await _run(path, *words, wrong=DiskFailureError)


@contextmanager
def _whole(path: Path) -> Generator[Path | None]:
    """The name under which a file is made; None if it is there. It is renamed in the end."""
    new = path.with_name(f".{path.name}.new")
    try:
        if path.exists():
            yield None
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        new.unlink(missing_ok=True)
        yield new
        new.rename(path)
    except OSError as exc:
        raise DiskFailureError(f"disk {path.name!r} cannot be made: {exc.strerror}") from exc
    finally:
        with suppress(OSError):
            new.unlink(missing_ok=True)


async def _run(
    path: Path,
    *words: str,
    fine: tuple[int, ...] = (0,),
    wrong: type[ImageError | DiskFailureError] = ImageError,
) -> bytes:
    """Run qemu-img, and return what it prints.

    Args:
        path: of the file that it is about.
        words: command and arguments.
        fine: exit codes of success.
        wrong: error for other ones.
    """
    what = f"qemu-img {words[0]}"
    try:
        async with (
            asyncio.timeout(_DEADLINE.total_seconds()),
            child.running(child.bounded(_limited(words), _DEADLINE)) as process,
        ):
            out, problems = await asyncio.gather(_read(process.out), _read(process.problems))
            code = await process.end()
    except TimeoutError as exc:
        seconds = _DEADLINE.total_seconds()
        raise DiskFailureError(
            f"disk {path.name!r}: {what} had not ended after {seconds:g} s"
        ) from exc
    except OSError as exc:
        raise DiskFailureError(f"qemu-img cannot be started: {exc.strerror}") from exc
    if code in fine:
        return out
    said = _reason(problems, code, path)
    if wrong is ImageError:
        raise ImageError(path, f"{what}: {said}")
    raise DiskFailureError(f"disk {path.name!r}: {what}: {said}")


def _limited(words: tuple[str, ...]) -> tuple[str, ...]:
    limits = (f"--as={_ADDRESS_SPACE}", f"--cpu={_CPU_SECONDS}", f"--fsize={_FILE_BYTES}")
    return ("prlimit", *limits, "--core=0", "--", "qemu-img", *words)


async def _read(stream: StreamReader) -> bytes:
    """The beginning of an output; the rest is read and dropped, so that its writer goes on."""
    kept = bytearray()
    while data := await stream.read(_KEPT):
        kept += data[: _KEPT - len(kept)]
    return bytes(kept)


def _reason(problems: bytes, code: int, path: Path) -> str:
    lines = problems.decode(errors="replace").strip().splitlines()
    if not lines:
        return f"it ended with {code}: the file is damaged, or needs more than its limits"
    return lines[0].removeprefix("qemu-img: ").replace(str(path), path.name)[:256]
