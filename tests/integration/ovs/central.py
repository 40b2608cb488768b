"""OVN's databases and northd, beside the switch of a worker."""

from __future__ import annotations

from pathlib import Path

from tests.integration.ovs.daemons import OVN_CONTROLLER, Daemons, Processes

NORTHBOUND, SOUTHBOUND, NORTHD = "nb", "sb", "northd"
CHASSIS = "kvm-1"
_SCHEMAS = Path("/usr/share/ovn")
_TIMEOUT = "--timeout=20"


class Central(Processes):
    """Both databases and northd, and the switch's ovn-controller.

    Args:
        folder: of its own.
        daemons: the switch.
    """

    def __init__(self, folder: Path, daemons: Daemons) -> None:
        super().__init__(folder, daemons.namespace)
        self.daemons = daemons

    @property
    def remote(self) -> str:
        """Of the southbound database."""
        return f"unix:{self.folder}/sb.sock"

    def create(self) -> None:
        for name in (NORTHBOUND, SOUTHBOUND):
            self.create_database(f"{name}.db", str(_SCHEMAS / f"ovn-{name}.ovsschema"))
            self.start(name)
        self.nbctl("init")
        self.sbctl("init")
        databases = (f"--ovn{name}-db=unix:{self.folder}/{name}.sock" for name in ("nb", "sb"))
        control = f"--unixctl={self.folder}/northd.ctl"
        self.spawn(NORTHD, "ovn-northd", *databases, control)

    def start(self, name: str) -> None:
        """Start a database that does not run."""
        socket = f"--remote=punix:{self.folder}/{name}.sock"
        control = f"--unixctl={self.folder}/{name}.ctl"
        self.spawn(name, "ovsdb-server", str(self.folder / f"{name}.db"), socket, control)

    def join(self) -> None:
        """Have the switch's controller register itself, and wait until flows are made."""
        self.daemons.vsctl(
            *("set", "Open_vSwitch", ".", f"external_ids:ovn-remote={self.remote}"),
            *(f"external_ids:system-id={CHASSIS}", "external_ids:ovn-encap-type=geneve"),
            *(
                "external_ids:ovn-encap-ip=127.0.0.1",
                "external_ids:ovn-bridge-datapath-type=netdev",
            ),
        )
        self.daemons.start(OVN_CONTROLLER)
        self.sbctl("wait-until", "Chassis", CHASSIS)
        self.synchronize()

    def leave(self) -> None:
        """Take away what the controller and tests have made here."""
        self.sbctl("--if-exists", "chassis-del", CHASSIS)
        self.nbctl("--if-exists", "ls-del", "net")

    def synchronize(self) -> None:
        """Wait until the controller has put the northbound configuration into effect."""
        self.nbctl("--wait=hv", "sync")

    def nbctl(self, *arguments: str) -> str:
        """What `ovn-nbctl` prints."""
        program = ("ovn-nbctl", f"--db=unix:{self.folder}/nb.sock", _TIMEOUT)
        return self.namespace.run(*program, *arguments, env=self.env)

    def sbctl(self, *arguments: str) -> str:
        """What `ovn-sbctl` prints."""
        program = ("ovn-sbctl", f"--db={self.remote}", _TIMEOUT)
        return self.namespace.run(*program, *arguments, env=self.env)

    def control(self, name: str) -> Path:
        return self.folder / f"{name}.ctl"
