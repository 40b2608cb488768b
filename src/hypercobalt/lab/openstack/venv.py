"""OpenStack's own programs: a virtual environment of locked packages, kept outside the checkout.

It is named by all that goes in: the lock and the Python that runs it. A marker is written last, so
an environment without one is what a crash left, and is made again.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import shutil
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from hypercobalt.lab.commands import run
from hypercobalt.lab.errors import LabError

LOCK = Path(__file__).with_name("requirements.txt")
_INSTALL = timedelta(minutes=20)  # 180 packages over a slow line, one of them compiled


def cache_directory() -> Path:
    """Where it is kept: `$XDG_CACHE_HOME/hypercobalt/openstack`, by default under `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "hypercobalt" / "openstack"


def key() -> str:
    """Stands for the packages and the interpreter; equal keys, equal environments."""
    return digest(LOCK.read_bytes(), sys.version.encode(), sys.base_prefix.encode())


def digest(*parts: bytes) -> str:
    """A short name for some content."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8) + part)
    return whole.hexdigest()[:16]


async def ready() -> Path:
    """The environment of today's lock, made if the cache does not have it.

    Raises:
        LabError: a package cannot be had, does not match its hash, or does not build.
    """
    return await made(cache_directory() / key(), LOCK, f"--python={sys.executable}")


async def made(folder: Path, lock: Path, *options: str) -> Path:
    """An environment of a lock's packages, made if it is not there.

    Args:
        folder: where it lies, named by what goes in.
        lock: exact versions with hashes.
        options: of `uv venv`.

    Raises:
        LabError: a package cannot be had, does not match its hash, or does not build.
    """
    marker = folder / "complete"
    if marker.exists():
        return folder
    with alone(folder):
        if not marker.exists():  # another run may have made it meanwhile
            await _install(folder, lock, options)
            marker.touch()
    return folder


async def _install(folder: Path, lock: Path, options: Sequence[str]) -> None:
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    uv = str(Path(sys.executable).with_name("uv"))
    if shutil.which(uv) is None:
        raise LabError(f"{uv} is missing, by which OpenStack is installed: `pip install uv`")
    await run(uv, "venv", "--quiet", *options, str(folder))
    await run(
        *(uv, "pip", "sync", "--quiet", "--require-hashes", "--compile-bytecode"),
        str(lock),
        env=os.environ | {"VIRTUAL_ENV": str(folder)},
        within=_INSTALL,
    )


@contextmanager
def alone(folder: Path) -> Generator[None]:
    """Be the only one that fills a directory of the cache; waits for another that does."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
