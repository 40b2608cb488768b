"""What each component logged of a server, in one order: the chain from a cause to its end."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime
from pathlib import Path
from typing import Final

from hypercobalt.lab.agents import NODE_AGENT, OVS_AGENT
from hypercobalt.lab.host import Host, HostPower
from hypercobalt.lab.openstack import computes
from hypercobalt.lab.openstack.site import OpenStack

_UNITS: Final = (computes.SERVICE, NODE_AGENT, OVS_AGENT, "libvirtd.service")
_JOURNAL: Final = """journalctl --no-pager --output=short-iso-precise "${@:2}" | grep -F "$1" ||:"""
# Of a line of Nova's: its own time and process, and whose request it was.
_NOISE: Final = re.compile(r"(?<=: )\d{4}-\d\d-\d\d \S+ \d+ |\[(None )?req-[^]]*\] ")
_WIDTH: Final = 200


async def chain(openstack: OpenStack, server: str) -> str:
    """Lines of the hosts' journals and of the operator's log, with seconds since the first.

    What a host has logged before its last boot is in none of them: its journal is in memory.
    """
    found = [line for host in openstack.hosts for line in await _journal(host, server)]
    log = openstack.lab.layout.log / "operator.log"
    found += await asyncio.to_thread(_lines, log, server)
    found.sort()
    since = ((at - found[0][0], text) for at, text in found)
    return "".join(f"{after.total_seconds():8.2f}  {text[:_WIDTH]}\n" for after, text in since)


async def _journal(host: Host, server: str) -> list[tuple[datetime, str]]:
    if host.power is not HostPower.RUNNING:
        return []
    units = (f"--unit={unit}" for unit in _UNITS)
    text = await host.run("bash", "-c", _JOURNAL, "bash", server, *units)
    return [_parsed(line) for line in text.splitlines()]


def _lines(log: Path, server: str) -> list[tuple[datetime, str]]:
    lines = log.read_text(errors="replace").splitlines()
    made = (_parsed(line) for line in lines if server in line)
    return [(at, f"operator: {text}") for at, text in made]


def _parsed(line: str) -> tuple[datetime, str]:
    at, _, text = line.partition(" ")
    return datetime.fromisoformat(at), _NOISE.sub("", text)
