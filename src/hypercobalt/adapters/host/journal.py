"""Lines of the host's journal, of units from a fixed list, by journalctl.

journalctl gets options that are made here out of enumerated and numeric values; no text of a
request is among them. Its lines are passed on unchanged: the program that prints them removes what
a terminal would obey.

Source: journalctl(1), systemd.journal-fields(7).
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from hypercobalt.adapters import child
from hypercobalt.adapters.child import Child
from hypercobalt.adapters.host.port import HostError

KERNEL: Final = "kernel"
UNITS: Final = (
    "libvirtd",
    "virtqemud",
    "virtlogd",
    "openvswitch-switch",
    "ovs-vswitchd",
    "ovsdb-server",
    "ovn-controller",
    "hypercobalt-node-agent",
    "hypercobalt-ovs-agent",
)
"""Services whose lines can be read, without `.service`. KERNEL can be read as well."""

LINES: Final = 10_000
"""Most lines before those that are followed."""

FOLLOW: Final = timedelta(minutes=10)
"""How long new lines are followed."""

BYTES: Final = 16 * 1024 * 1024
"""Most bytes of one request."""

_READ: Final = timedelta(seconds=30)  # for lines that are there
_SPARE: Final = timedelta(seconds=3)
_CHUNK: Final = 64 * 1024
_FOLDERS: Final = ("var/log/journal", "run/log/journal")


@dataclass(frozen=True, slots=True)
class LineSelection:
    """Which lines are read.

    Args:
        unit: of UNITS, or KERNEL; "" for all of UNITS.
        lines: the newest so many, at most LINES.
        since: leaves out older ones.
        follow: whether new lines follow, for FOLLOW.
    """

    unit: str = ""
    lines: int = 200
    since: datetime | None = None
    follow: bool = False


class Journal:
    """The journal of a host.

    Args:
        root: where the host's file system is.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    async def read(self, order: LineSelection) -> AsyncGenerator[bytes]:
        """Read lines; the first item is empty and comes when the journal can be read.

        journalctl ends with the generator.

        Raises:
            HostError: there is no journal, or journalctl fails.
        """
        argv = child.bounded(self._command(order), (FOLLOW if order.follow else _READ) + _SPARE)
        try:
            async with (
                child.running(argv) as journalctl,
                aclosing(_lines(journalctl, order)) as lines,
            ):
                async for chunk in lines:
                    yield chunk
        except OSError as error:
            text = f"journalctl cannot be started: {error.strerror}; install util-linux"
            raise HostError(text) from error

    def _command(self, order: LineSelection) -> tuple[str, ...]:
        if not any((self._root / folder).is_dir() for folder in _FOLDERS):
            raise HostError(
                f"there is no journal below {self._root}: set logs.enabled in the agent's chart, "
                "and check that journald runs on the host"
            )
        if shutil.which("journalctl") is None:
            raise HostError("journalctl is not installed where the agent runs: install systemd")
        return ("journalctl", *arguments(order, self._root))


def arguments(order: LineSelection, root: Path = Path("/")) -> tuple[str, ...]:
    """The options of journalctl for an order."""
    units = UNITS if not order.unit else (order.unit,)
    which = (
        ("_TRANSPORT=kernel",)
        if order.unit == KERNEL
        else tuple(f"--unit={unit}.service" for unit in units)
    )
    return (
        *("--no-pager", "--quiet", "--output=short-iso", f"--root={root}"),
        f"--lines={order.lines}",
        *((f"--since=@{order.since.timestamp():.6f}",) if order.since else ()),
        *(("--follow",) if order.follow else ()),
        *which,
    )


async def _lines(journalctl: Child, order: LineSelection) -> AsyncGenerator[bytes]:
    # Without new lines, one that is followed may print nothing for minutes.
    data = b"" if order.follow else await journalctl.out.read(_CHUNK)
    if data or order.follow:
        yield b""
    left = BYTES
    while data or (data := await journalctl.out.read(_CHUNK)):
        if (left := left - len(data)) < 0:
            raise HostError(f"ended after {BYTES // 2**20} MiB, the most of one request")
        yield data
        data = b""
    if await journalctl.end():
        reason = await journalctl.complaint()
        raise HostError(reason or "journalctl was killed")
    if left == BYTES:
        yield b""
