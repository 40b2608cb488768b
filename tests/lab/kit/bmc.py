"""The lab's BMC over a machine of files, as a process of its own: pyghmi has one server in each.

    python -m tests.lab.kit.bmc FOLDER

prints its port once it serves. FOLDER holds `power` (`on` or `off`), `orders` (those that were
carried out) and `fault`.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

from hypercobalt import pki
from hypercobalt.adapters.fencing.agents import AgentDevice
from hypercobalt.adapters.fencing.devices import Device
from hypercobalt.adapters.fencing.port import Credentials
from hypercobalt.lab.bmc.board import USER, Board
from hypercobalt.lab.bmc.boards import Protocol
from hypercobalt.lab.bmc.faults import FaultFile
from tests.pages import ROOT

ADDRESS = "127.0.0.1"
SYSTEM = UUID("4c4c4544-0035-4d10-8046-b7c04f4a3732")
PASSWORD = "s3cret with a space"  # IPMI takes 20 bytes
AGENTS = {
    Protocol.REDFISH: ("fence_redfish", {"ssl_insecure": "1"}),
    Protocol.IPMI: ("fence_ipmilan", {"lanplus": "1"}),
}


def device(protocol: Protocol, port: int, password: str) -> AgentDevice:
    """The fence device by which the operator reaches a BMC at an address."""
    agent, options = AGENTS[protocol]
    where = {"ip": ADDRESS, "ipport": str(port), **options}
    return AgentDevice(Device("bmc", agent, where), Credentials(USER, password))


class FileChassis:
    """A machine whose power is a word in a file."""

    def __init__(self, folder: Path) -> None:
        self._power, self._orders = folder / "power", folder / "orders"

    def is_on(self) -> bool:
        return self._power.read_text() == "on"

    def off(self) -> None:
        self._switch("off")

    def on(self) -> None:
        self._switch("on")

    def _switch(self, power: str) -> None:
        with self._orders.open("a") as orders:
            orders.write(f"{power}\n")
        self.is_now(power)

    # -- for tests -----------------------------------------------------------------------------

    def is_now(self, power: str) -> None:
        new = self._power.with_suffix(".new")
        new.write_text(power)
        new.replace(self._power)

    @property
    def orders(self) -> list[str]:
        return self._orders.read_text().split()

    def begin(self) -> None:
        """Begin with the power on and no order."""
        self._orders.write_text("")
        self.is_now("on")


@contextlib.contextmanager
def served(folder: Path) -> Iterator[int]:
    """Serve the machine of a folder, and yield the port."""
    FileChassis(folder).begin()
    command = [sys.executable, "-m", "tests.lab.kit.bmc", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout
            yield int(process.stdout.readline())
        finally:
            process.kill()


def authority_of(folder: Path) -> str:
    """The certificate, in PEM, by which that of the BMC of a folder is verified."""
    return pki.prepare(folder / "pki", ADDRESS).ca.decode()


def free_port() -> int:
    """A port that neither TCP nor UDP has in use."""
    while True:
        with socket.socket(type=socket.SOCK_DGRAM) as udp, socket.socket() as tcp:
            udp.bind((ADDRESS, 0))
            with contextlib.suppress(OSError):
                tcp.bind(udp.getsockname())
                return int(udp.getsockname()[1])


def _main(folder: Path) -> None:
    # Not for the process of the tests, in which pyghmi's variables would stay.
    from hypercobalt.lab.bmc.server import BmcServer  # noqa: PLC0415

    board = Board("kvm-1", SYSTEM, PASSWORD, FileChassis(folder), FaultFile(folder / "fault").read)
    tls = pki.server_context(pki.prepare(folder / "pki", ADDRESS))
    port = free_port()
    server = BmcServer(board, (ADDRESS, port), tls)
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
