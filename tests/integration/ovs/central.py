"""OVN's databases and northd, beside the switch of a worker."""

from __future__ import annotations

from pathlib import Path

import trustme

from tests.integration.ovs.daemons import OVN_CONTROLLER, Daemons, Processes

NORTHBOUND, SOUTHBOUND, NORTHD = "nb", "sb", "northd"
CHASSIS = "kvm-1"
TLS = "ssl:6642"
_DATABASES = {NORTHBOUND: "OVN_Northbound", SOUTHBOUND: "OVN_Southbound"}
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
        """The remote of the southbound database."""
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
        tls = tuple(
            f"--{option}=db:{_DATABASES[name]},SSL,{option.replace('-', '_')}"
            for option in ("private-key", "certificate", "ca-cert")
        )
        file = str(self.folder / f"{name}.db")
        self.spawn(name, "ovsdb-server", file, socket, control, *tls)

    def serve_tls(self, authority: trustme.CA) -> tuple[str, ...]:
        """Serve the southbound database over TLS, and return key, certificate and authority.

        The files are for the server and for a chassis.
        """
        issued = authority.issue_cert("central", "kvm-1")
        files = tuple(str(self.folder / name) for name in ("key.pem", "cert.pem", "ca.pem"))
        issued.private_key_pem.write_to_path(files[0])
        issued.cert_chain_pems[0].write_to_path(files[1])
        authority.cert_pem.write_to_path(files[2])
        self.sbctl("set-ssl", *files)
        self.appctl(SOUTHBOUND, "ovsdb-server/add-remote", f"p{TLS}:127.0.0.1")
        return files

    def join(self, *options: str, remote: str = "") -> None:
        """Have the switch's controller register itself, and wait until flows are made."""
        self.daemons.vsctl(
            *("set", "Open_vSwitch", ".", f"external_ids:ovn-remote={remote or self.remote}"),
            *(f"external_ids:system-id={CHASSIS}", "external_ids:ovn-encap-type=geneve"),
            *(
                "external_ids:ovn-encap-ip=127.0.0.1",
                "external_ids:ovn-bridge-datapath-type=netdev",
            ),
        )
        self.daemons.start(OVN_CONTROLLER, *options)
        self.sbctl("wait-until", "Chassis", CHASSIS)
        self.synchronize()

    def leave(self) -> None:
        """End the controller, and take away what it and tests have made here."""
        self.daemons.kill(OVN_CONTROLLER)  # it would register itself again
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
