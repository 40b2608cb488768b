"""The BMCs of a lab: one process for each host, and what the operator needs to call them.

The same process serves what cuts its host off from the shared disks. The operator uses that for the
hosts whose Node has the label `STORAGE_LABEL`; else it would hide what a dead BMC leads to.
"""

from __future__ import annotations

import secrets
import sys
from enum import StrEnum
from pathlib import Path
from typing import Final

from hypercobalt.apiserver.access import pki
from hypercobalt.lab import processes
from hypercobalt.lab.bmc.board import USER
from hypercobalt.lab.bmc.faults import FaultFile
from hypercobalt.lab.state import Layout, State

PORT_LABEL: Final = "lab.cobalt/bmc-port"
"""Label of a Node: the port of its host's BMC, on the machine's address."""
PROTOCOL_LABEL: Final = "lab.cobalt/bmc"
"""Label of a Node: by which protocol the operator speaks to its host's BMC."""
CREDENTIALS: Final = "lab-bmc"
"""Name of the Secret with the user and the password of every BMC."""
STORAGE_PORT_LABEL: Final = "lab.cobalt/storage-fence-port"
"""Label of a Node: the port of what cuts its host off from the shared disks."""
STORAGE_LABEL: Final = "lab.cobalt/storage-fence"
"""Label of a Node: "true" has the operator use that."""
_FIRST_PORT: Final = 7000
_FIRST_STORAGE_PORT: Final = 7500
_PASSWORD_BYTES: Final = 15  # of random: 20 characters, and IPMI takes no more

_DEVICES: Final = """\
devices:
- name: redfish
  agent: fence_redfish
  nodes: {{{protocol}: redfish}}
  parameters:
    ip: {address}
    ipport: "{{labels[{port}]}}"
    systems_uri: /redfish/v1/Systems/{{name}}
    ssl_insecure: "1"
  secret: {secret}
  timeoutSeconds: 30
- name: ipmi
  agent: fence_ipmilan
  nodes: {{{protocol}: ipmi}}
  parameters:
    ip: {address}
    ipport: "{{labels[{port}]}}"
    lanplus: "1"
  secret: {secret}
  timeoutSeconds: 30
- name: storage
  agent: fence_redfish
  cuts: storage
  nodes: {{{storage_use}: "true"}}
  parameters:
    ip: {address}
    ipport: "{{labels[{storage_port}]}}"
    systems_uri: /redfish/v1/Systems/{{name}}
    ssl_insecure: "1"
  secret: {secret}
  timeoutSeconds: 30
"""


class Protocol(StrEnum):
    """What a BMC speaks."""

    REDFISH = "redfish"
    IPMI = "ipmi"


def port(index: int) -> int:
    """Where the BMC of the host with that number listens: TCP for Redfish, UDP for IPMI."""
    return _FIRST_PORT + index


def protocol(index: int) -> Protocol:
    """By which the operator speaks to the BMC of the host with that number: hosts take turns."""
    return Protocol.REDFISH if index % 2 else Protocol.IPMI


def storage_port(index: int) -> int:
    """Where what cuts that host off from the shared disks listens."""
    return _FIRST_STORAGE_PORT + index


def labels(index: int) -> dict[str, str]:
    """What the Node of the host with that number carries for the fence devices."""
    return {
        PORT_LABEL: str(port(index)),
        PROTOCOL_LABEL: protocol(index),
        STORAGE_PORT_LABEL: str(storage_port(index)),
    }


class Boards:
    """The BMCs of a lab; each lives while its host is dead."""

    def __init__(self, layout: Layout, state: State) -> None:
        self._layout, self._state = layout, state

    @property
    def _folder(self) -> Path:
        return self._layout.data / "bmc"

    def address(self, name: str) -> tuple[str, int]:
        """Where a host's BMC listens."""
        return self._state.address, port(self._state.host(name).index)

    def storage_address(self, name: str) -> tuple[str, int]:
        """Where what cuts a host off from the shared disks listens."""
        return self._state.address, storage_port(self._state.host(name).index)

    def fault(self, name: str) -> FaultFile:
        """The fault of a host's BMC."""
        return FaultFile(self._folder / f"{name}.fault")

    def password(self) -> str:
        """The password of every BMC's user; generated at the first call."""
        file = self._folder / "password"
        try:
            return file.read_text()
        except FileNotFoundError:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            made = secrets.token_urlsafe(_PASSWORD_BYTES)
            pki.write_secret(file, made.encode())
            return made

    def certificates(self) -> pki.Pki:
        return pki.prepare(self._folder / "pki", self._state.address)

    async def start(self, name: str) -> None:
        """Start a host's BMC where it does not run.

        Raises:
            LabError: it ends at once.
        """
        self.password()
        self.certificates()  # by one process, before there are several
        if not processes.find(self._state.id, _role(name)):
            await processes.spawn(
                (sys.executable, "-m", "hypercobalt.lab.bmc", str(self._layout.data), name),
                lab_id=self._state.id,
                role=_role(name),
                log=self._layout.log / f"bmc-{name}.log",
            )

    async def remove(self, name: str) -> None:
        """End a host's BMC, and forget what was wrong with it.

        Raises:
            LabError: it does not end.
        """
        await processes.kill(self._state.id, lambda process: process.role == _role(name))
        self.fault(name).forget()

    def devices(self) -> str:
        """The document of fence devices for the operator."""
        return _DEVICES.format(
            address=self._state.address,
            port=PORT_LABEL,
            protocol=PROTOCOL_LABEL,
            storage_port=STORAGE_PORT_LABEL,
            storage_use=STORAGE_LABEL,
            secret=CREDENTIALS,
        )

    def secret(self) -> dict[str, str]:
        """The data of the Secret that the document names."""
        return {"username": USER, "password": self.password()}


def _role(name: str) -> str:
    return f"bmc/{name}"
