"""What the kernel shows of the network: devices, its own bonds, connections to a socket.

A witness of its own: a device that is gone, or a controller that has no connection, is found
although every daemon still reports the state of before. Nothing here waits for a daemon.

Source: the kernel's Documentation/ABI/testing/sysfs-class-net and
Documentation/networking/bonding.rst; proc_pid_net(5).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hypercobalt.adapters.ovs.links import KernelBond, KernelBondMember, Link
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError

_IFF_UP: Final = 0x1
_MEGABIT: Final = 1_000_000
_CONNECTED: Final = "03"  # of a Unix socket: SS_CONNECTED
_MODES: Final = {
    "load balancing (round-robin)": "balance-rr",
    "fault-tolerance (active-backup)": "active-backup",
    "load balancing (xor)": "balance-xor",
    "fault-tolerance (broadcast)": "broadcast",
    "IEEE 802.3ad Dynamic link aggregation": "802.3ad",
    "transmit load balancing": "balance-tlb",
    "adaptive load balancing": "balance-alb",
}
_VALUE: Final = re.compile(r"^\s*([^:]+): (.*)$")


def links(root: Path) -> dict[str, Link]:
    """Network devices by name; one that goes away meanwhile is left out.

    Raises:
        SwitchError: they cannot be listed, which does not mean that there are none.
    """
    folder = f"{root}/sys/class/net"
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries)
    except OSError as exc:
        raise _unreadable(folder, exc.strerror) from exc
    return {name: link for name in names if (link := _link(f"{folder}/{name}", name))}


def bonds(net: Path) -> tuple[KernelBond, ...]:
    """Bonds of the kernel, by name; none where the driver is not loaded.

    Args:
        net: `/proc/PID/net` of a process in the host's network namespace.

    Raises:
        SwitchError: they cannot be listed, which does not mean that there are none.
    """
    folder = net / "bonding"
    try:
        files = sorted(folder.iterdir())
    except FileNotFoundError as exc:
        if not net.is_dir():
            raise _unreadable(str(net), exc.strerror) from exc
        return ()
    except OSError as exc:
        raise _unreadable(str(folder), exc.strerror) from exc
    found = (parse_bond(file.name, text) for file in files if (text := _read(str(file))))
    return tuple(found)


def peers(net: Path, socket: str) -> int:
    """Connections to a Unix socket that its server has accepted.

    Args:
        net: `/proc/PID/net` of the server.
        socket: its file's name; the folder may be mounted elsewhere for the server.

    Raises:
        SwitchError: they cannot be listed, which does not mean that there are none.
    """
    text = _read(f"{net}/unix")
    if text is None:
        raise _unreadable(f"{net}/unix", None)
    return sum(1 for path in _connected(text) if path.rpartition("/")[2] == socket)


def parse_bond(name: str, text: str) -> KernelBond:
    """Read a file of `/proc/net/bonding`; what is not in it is unknown, or down."""
    head, *members = text.split("\nSlave Interface: ")
    values = _values(head)
    mode = values.get("Bonding Mode", "")
    active = values.get("Currently Active Slave")
    return KernelBond(
        name,
        next((short for long, short in _MODES.items() if mode.startswith(long)), mode),
        values.get("MII Status") == "up",
        members=tuple(_member(one) for one in members),
        active=None if active in {None, "None"} else active,
        aggregator=_number(values.get("Aggregator ID")),
        partner=values.get("Partner Mac Address"),
    )


def _member(block: str) -> KernelBondMember:
    name, _, rest = block.partition("\n")
    values = _values(rest)
    up = values.get("MII Status") == "up"
    return KernelBondMember(name.strip(), up, _number(values.get("Aggregator ID")))


def _values(text: str) -> dict[str, str]:
    """First value of each key: those of LACP's details come again further down."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if match := _VALUE.match(line):
            found.setdefault(match[1], match[2].strip())
    return found


def _link(folder: str, name: str) -> Link | None:
    ifindex = _number(_read(f"{folder}/ifindex"))
    flags = _read(f"{folder}/flags")
    if ifindex is None or flags is None:
        return None
    is_tap = os.access(f"{folder}/tun_flags", os.F_OK)
    admin_up = bool(int(flags, 16) & _IFF_UP)
    carrier = _number(_read(f"{folder}/carrier")) if admin_up else None
    speed = None if is_tap else _number(_read(f"{folder}/speed"))  # a tap's is made up
    return Link(
        name,
        ifindex,
        admin_up,
        carrier=None if carrier is None else carrier == 1,
        is_tap=is_tap,
        master=_target(f"{folder}/master"),
        speed=speed * _MEGABIT if speed and speed > 0 else None,
        mtu=_number(_read(f"{folder}/mtu")),
    )


def _unreadable(path: str, cause: str | None) -> SwitchError:
    text = f"{path} cannot be read: {cause or 'missing or not permitted'}"
    return SwitchError(ProducerFault.NOT_PERMITTED, text)


def _connected(text: str) -> Iterator[str]:
    """Paths of connected sockets; those of clients have none."""
    for line in text.splitlines():
        fields = line.split(None, 7)
        if len(fields) == 8 and fields[5] == _CONNECTED:  # noqa: PLR2004 - columns of the file
            yield fields[7]


def _read(file: str) -> str | None:
    """A file's text; None for one that is gone, or that the device does not have.

    With the system's own calls: a host has thousands of these files.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        parts = iter(lambda: os.read(descriptor, 65536), b"")
        return b"".join(parts).decode(errors="replace").strip()
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _target(link: str) -> str | None:
    try:
        return os.readlink(link).rpartition("/")[2]  # noqa: PTH115 - a fifth of a Path's cost
    except OSError:
        return None


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
