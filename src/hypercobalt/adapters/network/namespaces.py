"""Named network namespaces, as `ip netns` makes them.

Source: ip-netns(8).
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hypercobalt.adapters.network.commands import change_ip
from hypercobalt.adapters.network.model import NetworkError

NAMED: Final = Path("/run/netns")
_OWN: Final = "/proc/self/ns/net"
"""Some namespace: all are files of one file system."""


def namespace_file(name: str) -> Path:
    """The file of a namespace, which is there for as long as the name."""
    return NAMED / name


def named(prefix: str) -> frozenset[str]:
    """Names that begin so, also those whose namespace was not completed."""
    try:
        return frozenset(one for one in os.listdir(NAMED) if one.startswith(prefix))  # noqa: PTH208 - names alone
    except FileNotFoundError:
        return frozenset()
    except OSError as error:
        raise NetworkError(f"{NAMED}: cannot be read: {error.strerror}") from error


def is_namespace(name: str) -> bool:
    """Whether a name has a namespace: a file alone is what a process that was killed leaves."""
    try:
        return namespace_file(name).stat().st_dev == os.stat(_OWN).st_dev  # noqa: PTH116 - no path
    except FileNotFoundError:
        return False
    except OSError as error:
        raise NetworkError(f"network namespace {name}: cannot be read: {error.strerror}") from error


@contextmanager
def held_namespace(file: Path) -> Generator[Path]:
    """A path of a namespace that stays the same one, whatever becomes of the process in `file`.

    Args:
        file: such as `/proc/1234/ns/net`.

    Raises:
        NetworkError: it is no namespace, or is there no more.
    """
    try:
        held = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise NetworkError(
            f"network namespace {file}: cannot be opened: {error.strerror}"
        ) from error
    try:
        if os.fstat(held).st_dev != os.stat(_OWN).st_dev:  # noqa: PTH116 - no path
            raise NetworkError(f"network namespace {file}: is another file")
        yield Path(f"/proc/{os.getpid()}/fd/{held}")
    finally:
        os.close(held)


async def make_namespace(name: str) -> Path:
    """Make a namespace, or find it, and return its file.

    Raises:
        NetworkError: it cannot be made.
    """
    file = namespace_file(name)
    if not is_namespace(name):
        if name in named(name):
            await remove_namespace(name)
        await change_ip(None, (f"netns add {name}",))
    return file


async def remove_namespace(name: str) -> None:
    """Remove a name; its namespace ends with the last process in it.

    Raises:
        NetworkError: it cannot be removed.
    """
    if name in named(name):
        await change_ip(None, (f"netns delete {name}",))
