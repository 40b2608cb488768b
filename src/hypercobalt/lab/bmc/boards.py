"""The BMCs of a lab: one process for each host, and what the operator needs to call them.

The same process serves what cuts its host off from the shared disks. The operator uses that for the
hosts whose Node has the label `STORAGE_LABEL`; else it would hide what a dead BMC leads to. It
serves the outlets of the host's two power feeds, too, for a Node whose `PROTOCOL_LABEL` has them.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

import yaml

from hypercobalt import pki
from hypercobalt.lab import processes
from hypercobalt.lab.bmc.board import USER
from hypercobalt.lab.bmc.faults import FaultFile
from hypercobalt.lab.state import LabState, Layout

PROTOCOL_LABEL: Final = "lab.node-restriction.kubernetes.io/bmc"
"""Label of a Node: by which protocol the operator speaks to its BMC. No kubelet writes it."""
STORAGE_LABEL: Final = "lab.node-restriction.kubernetes.io/storage-fence"
"""Label of a Node: "true" has the operator use what cuts its host off from the shared disks."""
OUTLETS: Final = "outlets"
"""Value of `PROTOCOL_LABEL`: by the outlets of its two power feeds, and not by its BMC."""
_FIRST_PORT: Final = 7000
_FIRST_STORAGE_PORT: Final = 7500
_OUTLET_SECONDS: Final = 10  # an outlet switches at once
_PASSWORD_BYTES: Final = 15  # of random: 20 characters, and IPMI takes no more


class Protocol(StrEnum):
    """What a BMC speaks."""

    REDFISH = "redfish"
    IPMI = "ipmi"


class Feed(StrEnum):
    """The power feeds of a host."""

    A = "feed-a"
    B = "feed-b"


_FIRST_FEED_PORTS: Final = {Feed.A: 7250, Feed.B: 7750}


def port(index: int) -> int:
    """Where the BMC of the host with that number listens: TCP for Redfish, UDP for IPMI."""
    return _FIRST_PORT + index


def protocol(index: int) -> Protocol:
    """Protocol of the operator to the BMC of the host with that number: hosts alternate."""
    return Protocol.REDFISH if index % 2 else Protocol.IPMI


def storage_port(index: int) -> int:
    """Port of the device that cuts the host with that number off from the shared disks."""
    return _FIRST_STORAGE_PORT + index


def feed_port(feed: Feed, index: int) -> int:
    """Where the outlet of a feed of the host with that number listens."""
    return _FIRST_FEED_PORTS[feed] + index


def labels(index: int) -> dict[str, str]:
    """What the Node of the host with that number carries for the fence devices."""
    return {PROTOCOL_LABEL: protocol(index)}


class Boards:
    """The BMCs of a lab; each lives while its host is dead."""

    def __init__(self, layout: Layout, state: LabState, oldest: processes.Oldest) -> None:
        self._layout, self._state, self._oldest = layout, state, oldest

    @property
    def _folder(self) -> Path:
        return self._layout.data / "bmc"

    def address(self, name: str) -> tuple[str, int]:
        """Where a host's BMC listens."""
        return self._state.address, port(self._state.host(name).index)

    def storage_address(self, name: str) -> tuple[str, int]:
        """Where what cuts a host off from the shared disks listens."""
        return self._state.address, storage_port(self._state.host(name).index)

    def outlet_address(self, name: str, feed: Feed) -> tuple[str, int]:
        """Where the outlet of a host's power feed listens."""
        return self._state.address, feed_port(feed, self._state.host(name).index)

    def fault(self, name: str) -> FaultFile:
        """The fault of a host's BMC."""
        return FaultFile(self._folder / f"{name}.fault")

    def outlet_fault(self, name: str, feed: Feed) -> FaultFile:
        """The fault of the outlet of a host's power feed."""
        return FaultFile(self._folder / f"{name}.{feed}.fault")

    def password(self, name: str) -> str:
        """The password of the user of a host's BMC; generated at the first call."""
        file = self._folder / f"{name}.password"
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
        self.password(name)
        self.certificates()  # by one process, before there are several
        if not self._oldest.find(role(name)):
            await processes.spawn(
                (sys.executable, "-m", "hypercobalt.lab.bmc", str(self._layout.data), name),
                lab_id=self._state.id,
                role=role(name),
                log=self._layout.log / f"bmc-{name}.log",
            )

    async def remove(self, name: str) -> None:
        """End a host's BMC, and forget what was wrong with it.

        Raises:
            LabError: it does not end.
        """
        await processes.kill(self._state.id, lambda process: process.role == role(name))
        self.fault(name).forget()
        for feed in Feed:
            self.outlet_fault(name, feed).forget()
        (self._folder / f"{name}.password").unlink(missing_ok=True)

    def devices(self) -> str:
        """The document of fence devices for the operator: it names each host of the lab."""
        redfish = {"systems_uri": "/redfish/v1/Systems/{name}"}
        templates = (
            _template("redfish", "fence_redfish", {PROTOCOL_LABEL: Protocol.REDFISH.value}, redfish)
            | {"hosts": self._hosts(port), "certificateAuthority": self._authority()},
            _template(
                "ipmi", "fence_ipmilan", {PROTOCOL_LABEL: Protocol.IPMI.value}, {"lanplus": "1"}
            )
            | {"hosts": self._hosts(port)},
            *(
                _template(feed.value, "fence_redfish", {PROTOCOL_LABEL: OUTLETS}, redfish)
                | {
                    "timeoutSeconds": _OUTLET_SECONDS,
                    "hosts": self._hosts(partial(feed_port, feed)),
                    "certificateAuthority": self._authority(),
                }
                for feed in Feed
            ),
            _template("storage", "fence_redfish", {STORAGE_LABEL: "true"}, redfish)
            | {
                "cuts": "storage",
                "hosts": self._hosts(storage_port),
                "certificateAuthority": self._authority(),
            },
        )
        return yaml.safe_dump({"devices": list(templates)}, sort_keys=False)

    def _hosts(self, port_of: Callable[[int], int]) -> dict[str, dict[str, str]]:
        return {
            host.name: {"ip": self._state.address, "ipport": str(port_of(host.index))}
            for host in self._state.hosts
        }

    def _authority(self) -> str:
        return self.certificates().ca.decode()

    def secrets(self) -> dict[str, dict[str, str]]:
        """The data of the Secrets that the document names, by their names."""
        return {
            f"bmc-{host.name}": {"username": USER, "password": self.password(host.name)}
            for host in self._state.hosts
        }


def _template(
    name: str, agent: str, nodes: dict[str, str], parameters: dict[str, str]
) -> dict[str, object]:
    return {
        "name": name,
        "agent": agent,
        "nodes": nodes,
        "parameters": {**parameters},  # YAML would refer from one to the other
        "secret": "bmc-{name}",
        "identity": "required",
        "timeoutSeconds": 30,
    }


def role(name: str) -> str:
    """Name the role of the process that serves a host's BMC."""
    return f"bmc/{name}"
