"""OVN: its two databases and northd on the machine, a controller in each host, Geneve in between.

Source: ovn-architecture(7), ovn-controller(8), ovsdb-server(1).
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Collection
from enum import StrEnum
from typing import Final

from hypercobalt.lab import ovs_daemons, processes, services
from hypercobalt.lab.commands import run
from hypercobalt.lab.errors import CommandError, LabError
from hypercobalt.lab.holds import Holds
from hypercobalt.lab.host import Host
from hypercobalt.lab.state import LabState, Layout

INTEGRATION_BRIDGE: Final = "br-int"
CONTROLLER: Final = "ovn-controller.service"
NORTHBOUND_PORT, SOUTHBOUND_PORT = 6641, 6642
_PORTS = {"nb": NORTHBOUND_PORT, "sb": SOUTHBOUND_PORT}
_WAIT_SECONDS = 20


class Part(StrEnum):
    """A process of OVN on the machine."""

    SB = "sb"
    NB = "nb"
    NORTHD = "northd"

    @property
    def role(self) -> str:
        """Role of the part's process."""
        return f"ovn/{self}"

    @property
    def full_name(self) -> str:
        """Name as a sentence begins with it."""
        return f"OVN's {_NAMES[self]}"


_NAMES: Final = {
    Part.SB: "southbound database",
    Part.NB: "northbound database",
    Part.NORTHD: "northd",
}


class Central:
    """The databases and northd of a lab, on its bridge's address."""

    def __init__(self, layout: Layout, state: LabState, oldest: processes.Oldest) -> None:
        self._folder = layout.ovn
        self._log = layout.log
        self._id, self._oldest = state.id, oldest
        self._address = state.address
        self._holds = Holds(layout.holds)

    @property
    def northbound(self) -> str:
        """Where `ovn-nbctl --db` finds the northbound database on the machine."""
        return f"unix:{self._folder}/nb.sock"

    @property
    def northbound_remote(self) -> str:
        """Where the operator finds it: a path may be too long for a socket, or have a comma."""
        return f"tcp:{self._address}:{NORTHBOUND_PORT}"

    @property
    def southbound(self) -> str:
        """Where `ovn-sbctl --db` finds the southbound database on the machine."""
        return f"unix:{self._folder}/sb.sock"

    @property
    def southbound_remote(self) -> str:
        """Where the hosts find the southbound database."""
        return f"tcp:{self._address}:{SOUTHBOUND_PORT}"

    async def nbctl(self, *arguments: str) -> str:
        """Run `ovn-nbctl` and return its output.

        Raises:
            LabError: the database is stopped or hangs.
            CommandError: it refuses, or the database does not answer.
        """
        self.expect(Part.NB)
        return await run(
            "ovn-nbctl", f"--timeout={_WAIT_SECONDS}", f"--db={self.northbound}", *arguments
        )

    async def sbctl(self, *arguments: str) -> str:
        """Run `ovn-sbctl` and return its output.

        Raises:
            LabError: the database is stopped or hangs.
            CommandError: it refuses, or the database does not answer.
        """
        self.expect(Part.SB)
        return await run(
            "ovn-sbctl", f"--timeout={_WAIT_SECONDS}", f"--db={self.southbound}", *arguments
        )

    async def start(self) -> None:
        """Start what does not run, and wait until it answers; what hangs is left as it is.

        Raises:
            LabError: a process ends at once or does not answer.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        await asyncio.gather(self._database(Part.NB), self._database(Part.SB))
        if self.answers(Part.NB):
            await self.nbctl("init")
        if self.answers(Part.SB):
            await self.sbctl("init")
        await self._northd()

    async def _northd(self) -> None:
        await self._process(
            Part.NORTHD,
            "ovn-northd",
            f"--ovnnb-db={self.northbound}",
            f"--ovnsb-db={self.southbound}",
        )

    async def _database(self, which: Part) -> None:
        file, schema = f"{which}.db", f"/usr/share/ovn/ovn-{which}.ovsschema"
        await ovs_daemons.create_database(self._id, self._folder, file, schema)
        await self._process(
            which,
            "ovsdb-server",
            str(self._folder / file),
            f"--remote=ptcp:{_PORTS[which]}:{self._address}",
            f"--remote=punix:{self._folder}/{which}.sock",
        )

    async def _process(self, which: Part, *argv: str) -> None:
        self._holds.release(which.role)
        if self._oldest.find(which.role):
            return
        control, log = self._folder / f"{which}.ctl", self._log / f"ovn-{which}.log"
        await ovs_daemons.start(self._id, which.role, *argv, control=control, log=log)

    # -- faults --------------------------------------------------------------------------------

    @property
    def is_made(self) -> bool:
        """Whether the lab has OVN, whatever of it runs."""
        return (self._folder / f"{Part.SB}.db").exists()

    def answers(self, part: Part) -> bool:
        """Whether a process is there and does not hang."""
        found = self._oldest.find(part.role)
        return found is not None and not processes.is_stopped(found.pid)

    def expect(self, part: Part) -> None:
        """Refuse what needs a process that is stopped or hangs: it would wait for ever.

        Raises:
            LabError: it is.
        """
        if not self.answers(part):
            is_there = self._oldest.find(part.role) is not None
            what, how = ("hangs", "continues it") if is_there else ("does not run", "starts it")
            raise LabError(f"{part.full_name} {what}; `cobalt lab ovn start {part}` {how}")

    async def stop(self, parts: Collection[Part]) -> None:
        """Kill processes, which stay so until `repair` or `start`; what they have stored stays.

        Raises:
            LabError: one does not end.
        """
        roles = {part.role for part in parts}
        for role in roles:
            self._holds.hold(role)
        await processes.kill(self._id, lambda process: process.role in roles)

    async def hang(self, parts: Collection[Part]) -> None:
        """Stop processes where they are: they keep their sockets, and answer nothing.

        Raises:
            LabError: one does not run.
        """
        for part in parts:
            found = processes.find(self._id, part.role)
            if not found:
                self.expect(part)
            for process in found:
                await processes.stop(process, self._id)

    async def repair(self, parts: Collection[Part]) -> None:
        """Let go on what hangs, and start what does not run.

        Raises:
            LabError: the lab has no OVN, or a process does not answer.
        """
        if not self.is_made:
            raise LabError("the lab has no OVN; `cobalt lab up` gives it one")
        for part in parts:
            for process in processes.find(self._id, part.role):
                processes.send(process, self._id, signal.SIGCONT)
            await (self._northd() if part is Part.NORTHD else self._database(part))

    async def wait_for_chassis(self, name: str) -> None:
        """Wait until a host's controller has registered itself.

        Raises:
            LabError: it has not in time.
        """
        try:
            await self.sbctl("wait-until", "Chassis", name)
        except CommandError as error:
            raise LabError(
                f"host {name} has not registered with OVN in {_WAIT_SECONDS} s; does it reach "
                f"{self._address}:{SOUTHBOUND_PORT}? A packet filter or an `ip rule` here may be "
                f"in the way; see `cobalt lab exec {name} journalctl -u {CONTROLLER}`"
            ) from error

    async def forget(self, name: str) -> None:
        """Remove what a host's controller has registered: the next host may get its address.

        Raises:
            CommandError: the database does not answer.
        """
        await self.sbctl("--if-exists", "chassis-del", name)


async def join(host: Host, southbound: str) -> None:
    """Make the integration bridge of a host and connect its controller; safe to repeat.

    Its tunnels go out by `bond`.

    Raises:
        LabError: the host is off, or a command fails.
    """
    settings = {
        "ovn-remote": southbound,
        "ovn-encap-type": "geneve",
        "ovn-encap-ip": host.identity.tunnel_address,
        "system-id": host.name,
        "hostname": host.name,
    }
    # The kernel has no Open vSwitch module to count on: bridges run in user space.
    await host.run(
        "ovs-vsctl", f"--timeout={_WAIT_SECONDS}",
        "--may-exist", "add-br", INTEGRATION_BRIDGE,
        "--", "set", "bridge", INTEGRATION_BRIDGE, "datapath_type=netdev", "fail-mode=secure",
        "--", "set", "open_vswitch", ".", *(f"external-ids:{k}={v}" for k, v in settings.items()),
    )  # fmt: skip
    await services.start(host, CONTROLLER, folder=services.DISTRIBUTION)
