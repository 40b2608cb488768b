"""The management network: one bridge of the machine, and one veth pair a host.

Only root reaches the hosts from the machine, and no other machine through it: their libvirtd
requires no password and would run anything as root.

Source: ip-link(8), ip-rule(8), systemd-nspawn(1) (`--network-bridge` names the machine's
end `vb-MACHINE`).
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Iterable
from pathlib import Path

import msgspec

from hypercobalt.lab import processes
from hypercobalt.lab import state as records
from hypercobalt.lab.commands import execute, run
from hypercobalt.lab.errors import CommandError, LabError
from hypercobalt.lab.state import LabState, Layout, subnet

NUMBERS = range(256)  # of the subnets 10.77.N.0/24
_SYS = Path("/sys/class/net")
_FIRST_RULE = 7700  # and twice the lab's number: before the rules that lead to the routes


class _Route(msgspec.Struct):
    dst: str = ""


def free_numbers(routes: Iterable[str], links: Iterable[str]) -> tuple[int, ...]:
    """The numbers whose subnet overlaps no route and whose names no interface has.

    Args:
        routes: destinations as `ip route` prints them; `default` counts for nothing.
        links: names of the machine's interfaces.
    """
    networks = [net for route in routes if (net := _network(route)) is not None]
    used = {int(match[1]) for link in links if (match := re.match(r"(?:vb-)?hc(\d+)", link))}
    return tuple(
        number
        for number in NUMBERS
        if number not in used and not any(net.overlaps(subnet(number)) for net in networks)
    )


def _network(route: str) -> ipaddress.IPv4Network | None:
    try:
        network = ipaddress.IPv4Network(route, strict=False)
    except ValueError:
        return None  # default, unreachable and other words
    return network if network.prefixlen else None


async def observe_free_numbers() -> tuple[int, ...]:
    """Return `free_numbers` for this machine as it is now."""
    text = await run("ip", "-json", "-4", "route", "show", "table", "all")
    routes = msgspec.json.decode(text or "[]", type=list[_Route])
    links = os.listdir(_SYS)  # noqa: PTH208 - sysfs, not a disk
    return free_numbers((route.dst for route in routes), links)


async def make_bridge(state: LabState) -> bool:
    """Make the lab's bridge, or find it.

    Returns:
        False when an interface of that name is there that is not ours.

    Raises:
        CommandError: the machine refuses.
    """
    env = processes.environment(state.id)
    if not is_ours(state):
        argv = ("ip", "link", "add", state.bridge, "address", state.bridge_mac, "type", "bridge")
        done = await execute((*argv, "mcast_snooping", "0"), env=env)
        if done.code:
            if (_SYS / state.bridge).exists():
                return False
            raise CommandError(argv, done.code, done.stderr)
    for rule in _rules(state):
        done = await execute(("ip", "rule", "add", *rule), env=env)
        if done.code and "File exists" not in done.stderr:
            raise CommandError(("ip", "rule", "add", *rule), done.code, done.stderr)
    await run("ip", "address", "replace", f"{state.address}/24", "dev", state.bridge, env=env)
    await run("ip", "link", "set", state.bridge, "up", env=env)
    return True


async def take_network(layout: Layout, state: LabState) -> LabState:
    """Give a lab a free network; the bridge's name decides between labs that start at once.

    Raises:
        LabError: no network is free.
    """
    for number in await observe_free_numbers():
        fresh = msgspec.structs.replace(state, number=number)
        records.save_running(layout, fresh)
        if await make_bridge(fresh):
            return fresh
    raise LabError("no network is free: 10.77.0.0/24 to 10.77.255.0/24 are all routed elsewhere")


def _rules(state: LabState) -> tuple[tuple[str, ...], ...]:
    # What leads to this network alone, and first what root sends from this machine. A rule with
    # `not` would do it in one, for all other destinations too: nothing would leave the machine.
    first = _FIRST_RULE + 2 * state.number
    root = ("iif", "lo", "uidrange", "0-0", "lookup", "main")  # codespell:ignore iif
    to = ("to", str(state.network))
    return ("pref", str(first), *to, *root), ("pref", str(first + 1), *to, "prohibit")


def free_port(state: LabState) -> int:
    """A TCP port that nothing listens on at the machine's address in the lab."""
    with socket.socket() as probe:
        probe.bind((state.address, 0))
        return int(probe.getsockname()[1])


def is_ours(state: LabState) -> bool:
    """Whether the bridge of the lab's name is there and is the lab's."""
    try:
        return (_SYS / state.bridge / "address").read_text().strip() == state.bridge_mac
    except OSError:
        return False


async def remove(state: LabState) -> None:
    """Take away the bridge and whatever hangs on it; another lab's stays.

    Raises:
        CommandError: the machine refuses.
    """
    if not is_ours(state):
        if not (_SYS / state.bridge).exists():
            await _open(state)
        return
    for port in sorted(port.name for port in (_SYS / state.bridge / "brif").iterdir()):
        await execute(("ip", "link", "delete", port))  # it may have gone with its host meanwhile
    await _open(state)
    await run("ip", "link", "delete", state.bridge)


async def _open(state: LabState) -> None:
    for rule in _rules(state):
        await execute(("ip", "rule", "delete", *rule))  # it may never have been made


def port_of(machine: str) -> str:
    """The machine's end of a host's veth pair.

    Raises:
        LabError: the name would not fit, and nspawn would make up another.
    """
    name = f"vb-{machine}"
    if len(name) > 15:  # noqa: PLR2004 - IFNAMSIZ without the end
        raise LabError(f"interface name {name!r} has more than 15 characters")
    return name
