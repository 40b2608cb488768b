"""The data cables of one host: two, from the members of its bond to the top of rack.

A cable is a veth pair, which ends with the network namespace of either end: a host that is off has
none, and a rack that was restarted has the cables that were plugged in since. What is wrong with a
cable is kept apart from whether the host is connected at all: a cable that was pulled with all
others goes back in, an unplugged member stays out.

Source: veth(4); ovs-vsctl(8), "Bonding Interfaces".
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from hypercobalt.lab.commands import execute
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.network.member_faults import MemberFault, MemberFaults
from hypercobalt.lab.network.rack import Rack

MEMBERS: Final = ("data0", "data1")
"""Interfaces of a host: the members of its bond."""


class _Link(msgspec.Struct):
    ifname: str


@dataclass(frozen=True, slots=True)
class DataCables:
    """The cables between one host and the rack.

    Args:
        rack: that they end in.
        name: of the host.
        index: of the host.
        faults: of each cable.
    """

    rack: Rack
    name: str
    index: int
    faults: MemberFaults

    @property
    def _port(self) -> str:
        """The rack's port for this host."""
        return f"h{self.index}"

    def _end(self, member: str) -> str:
        """The rack's end of a cable."""
        return f"{self._port}-{member}"

    async def plug(self, leader: int, *, connected: bool) -> bool:
        """Make the cables that are missing.

        Args:
            leader: a process in the host's network namespace.
            connected: see `apply`.

        Returns:
            Whether the cables were made again: a switch that had the devices of the old cables
            does not see the new ones until its ports are made again, too.

        Raises:
            LabError: the rack does not run, or the machine refuses.
        """
        there = await self._plugged()
        inside = Path(f"/proc/{leader}/root/sys/class/net")
        whole = len(there) == len(MEMBERS) and all((inside / one).exists() for one in MEMBERS)
        if not whole:
            await self.rack.remove_port(self._port)
            for member in MEMBERS:
                await self._make(member, leader)
        await self.apply(connected=connected)
        return not whole

    async def _make(self, member: str, leader: int) -> None:
        """Make a cable, and remove the remains of one to a host or rack that is gone."""
        rack, end = self.rack.pid, self._end(member)
        host = ("nsenter", "--net", f"--target={leader}", "ip", "link")
        await execute((*host, "delete", member))
        await execute(("nsenter", "--net", f"--target={rack}", "ip", "link", "delete", end))
        await self.rack.ip(
            *("link", "add", end, "type", "veth", "peer", "name", member, "netns", str(leader))
        )
        await self.rack.ip("link", "set", end, "addrgenmode", "none")
        # The kernel also sees frames that it passes to Open vSwitch: it would answer ARP for the
        # address of the tunnels with the MAC of a member, where nothing takes them.
        done = await execute((*host, "set", member, "addrgenmode", "none", "arp", "off", "up"))
        if done.code:
            raise LabError(f"host {self.name}: {member} cannot be set up: {done.stderr.strip()}")

    async def apply(self, *, connected: bool) -> None:
        """Apply the faults of each cable; do nothing where there are no cables.

        Args:
            connected: False: all cables are pulled, whatever their faults.

        Raises:
            LabError: the rack does not answer.
        """
        there = await self._plugged()
        if not there:
            return
        faults = self.faults.read()
        for member in there:
            up = connected and faults.get(member) is not MemberFault.UNPLUGGED
            await self.rack.ip("link", "set", self._end(member), "up" if up else "down")
        known = await self.rack.interfaces()
        await self._answer(
            frozenset(one for one in MEMBERS if self._end(one) in known),
            frozenset(one for one in there if faults.get(one) is not MemberFault.SILENT),
        )

    async def _answer(self, known: frozenset[str], wanted: frozenset[str]) -> None:
        """Have the rack take part on the wanted members, and on no others."""
        if not wanted:
            await self.rack.remove_port(self._port)
        elif not known:
            await self.rack.add_port(self._port, tuple(map(self._end, sorted(wanted))))
        else:  # members that stay are not touched: they carry traffic
            for member in sorted(wanted - known):
                await self.rack.vsctl("add-bond-iface", self._port, self._end(member))
            for member in sorted(known - wanted):
                await self.rack.vsctl("del-bond-iface", self._port, self._end(member))

    async def _plugged(self) -> tuple[str, ...]:
        """The members whose cables are there."""
        if not self.rack.is_running:
            return ()
        text = await self.rack.ip("-json", "link", "show", "type", "veth")
        names = {link.ifname for link in msgspec.json.decode(text or "[]", type=list[_Link])}
        return tuple(member for member in MEMBERS if self._end(member) in names)

    async def remove(self) -> None:
        """Forget the host: its port and what was wrong with its cables.

        Raises:
            LabError: the rack does not answer.
        """
        self.faults.write({})
        if self.rack.is_running:
            await self.rack.remove_port(self._port)
