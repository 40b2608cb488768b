"""The top of rack: one Open vSwitch of the lab, which the data cables of all hosts end in.

It has daemons and a network namespace of its own, so the partner of a host's bond outlives the
host, and a host's bond outlives nothing of its own. The cables end with the namespace, as links do
when a switch loses power: `DataCables.plug` makes them again.

Source: ovs-vswitchd.conf.db(5), "Bonding Configuration"; ip-netns(8).
"""

from __future__ import annotations

from typing import Final

from hypercobalt.lab import ovs_daemons, processes
from hypercobalt.lab.commands import run
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.state import LabState, Layout

SWITCH: Final = "rack/switch"
"""Role of its ovs-vswitchd, which holds the network namespace."""
DATABASE: Final = "rack/database"
"""Role of its ovsdb-server."""
_BRIDGE: Final = "rack"
_SCHEMA: Final = "/usr/share/openvswitch/vswitch.ovsschema"
_WAIT_SECONDS: Final = 20
# A passive rack only answers, and a host whose partner was silent for a while sends each 30 s: for
# so long a repaired bond would carry nothing.
_BOND: Final = ("bond_mode=balance-tcp", "lacp=active", "other_config:lacp-time=fast")


class Rack:
    """The switch that the hosts' data cables end in."""

    def __init__(self, layout: Layout, state: LabState, oldest: processes.Oldest) -> None:
        self._folder, self._log = layout.rack, layout.log
        self._id, self._oldest = state.id, oldest

    @property
    def is_running(self) -> bool:
        return self._find() is not None

    @property
    def pid(self) -> int:
        """A process in its network namespace.

        Raises:
            LabError: it does not run.
        """
        if (found := self._find()) is None:
            raise LabError(
                "the lab has no top of rack that runs; `cobalt lab up` starts it and plugs the "
                "data cables of the hosts in"
            )
        return found

    def check(self) -> None:
        """Raise what `pid` raises, while it does not run.

        Raises:
            LabError: it does not run.
        """
        _ = self.pid

    def _find(self) -> int | None:
        found = self._oldest.find(SWITCH)
        return found.pid if found else None

    async def start(self) -> None:
        """Start what does not run of it, and wait until it answers.

        Raises:
            LabError: a daemon ends at once or does not answer.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        if not self._oldest.find(DATABASE):
            await self._start_database()
        if not self.is_running:
            switch = ("ovs-vswitchd", self._database, "--disable-system")
            await self._daemon(SWITCH, "unshare", "--net", *switch)
        await self.vsctl(
            *("--may-exist", "add-br", _BRIDGE),
            *("--", "set", "bridge", _BRIDGE, "datapath_type=netdev"),
        )

    async def _start_database(self) -> None:
        await ovs_daemons.create_database(self._id, self._folder, "conf.db", _SCHEMA)
        remote = f"--remote=p{self._database}"
        await self._daemon(DATABASE, "ovsdb-server", str(self._folder / "conf.db"), remote)
        await self.vsctl("--no-wait", "init")

    async def _daemon(self, role: str, *argv: str) -> None:
        name = role.replace("/", "-")
        control, log = self._folder / f"{name}.ctl", self._log / f"{name}.log"
        env = f"OVS_RUNDIR={self._folder}"
        await ovs_daemons.start(self._id, role, *argv, control=control, log=log, env=env)

    @property
    def _database(self) -> str:
        return f"unix:{self._folder}/db.sock"

    async def vsctl(self, *arguments: str) -> str:
        """Run `ovs-vsctl` and return its output.

        Raises:
            CommandError: it refuses, or the switch does not answer.
        """
        return await run(
            *("ovs-vsctl", f"--timeout={_WAIT_SECONDS}", f"--db={self._database}", *arguments)
        )

    async def ip(self, *arguments: str) -> str:
        """Run `ip` in the rack's network namespace and return its output.

        Raises:
            LabError: it does not run, or `ip` refuses.
        """
        namespace = ("nsenter", "--net", f"--target={self.pid}")
        return await run(*namespace, "ip", *arguments, env=processes.environment(self._id))

    async def interfaces(self) -> frozenset[str]:
        """What its ports consist of, by name; a port may be of a device that is gone.

        Raises:
            CommandError: the database does not answer.
        """
        return frozenset((await self.vsctl("list-ifaces", _BRIDGE)).split())

    async def add_port(self, port: str, interfaces: tuple[str, ...]) -> None:
        """Make a port that speaks LACP; a bond where it has several interfaces.

        Raises:
            CommandError: there is a port of that name, or the switch does not answer.
        """
        made = [f"--id=@i{n} create Interface name={name}" for n, name in enumerate(interfaces)]
        members = ",".join(f"@i{n}" for n in range(len(interfaces)))
        words = [word for one in made for word in ("--", *one.split())]
        await self.vsctl(
            *words[1:],
            *("--", "--id=@port", "create", "Port", f"name={port}", f"interfaces={members}"),
            *(*_BOND, "--", "add", "Bridge", _BRIDGE, "ports", "@port"),
        )

    async def remove_port(self, port: str) -> None:
        """Remove a port if it is there.

        Raises:
            CommandError: the switch does not answer.
        """
        await self.vsctl("--if-exists", "del-port", _BRIDGE, port)
