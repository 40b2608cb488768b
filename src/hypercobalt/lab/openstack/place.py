"""Paths and ports of the environment: pure.

Every service has its well-known port, on the lab's own address: environments cannot collide.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hypercobalt.lab.commands import PATH

PASSWORD: Final = "secret"  # noqa: S105 - of every account: the network has no other users
REGION: Final = "RegionOne"
DATABASES: Final = (
    "keystone",
    "placement",
    "glance",
    "nova_api",
    "nova_cell0",
    "nova_cell1",
    "neutron",
    "cinder",
)


@dataclass(frozen=True, slots=True)
class Service:
    """One OpenStack service.

    Args:
        name: of the project.
        kind: in the service catalogue.
        port: of its API.
        path: of its API's root.
        application: the module whose `application` is its API.
    """

    name: str
    kind: str
    port: int
    path: str
    application: str


KEYSTONE: Final = Service("keystone", "identity", 5000, "/v3", "keystone.wsgi.api")
PLACEMENT: Final = Service("placement", "placement", 8778, "", "placement.wsgi.api")
GLANCE: Final = Service("glance", "image", 9292, "", "glance.wsgi.api")
NOVA: Final = Service("nova", "compute", 8774, "/v2.1", "nova.wsgi.osapi_compute")
NEUTRON: Final = Service("neutron", "network", 9696, "", "neutron.wsgi.api")
CINDER: Final = Service("cinder", "block-storage", 8776, "/v3", "cinder.wsgi.api")
SERVICES: Final = (KEYSTONE, PLACEMENT, GLANCE, NOVA, NEUTRON, CINDER)


@dataclass(frozen=True, slots=True)
class OpenStackPlace:
    """An environment: its lab's id and address, its folder, and the programs it runs.

    Args:
        lab_id: marks its processes.
        address: of the machine on the lab's network.
        folder: for configuration, databases and whatever the services write.
        log: for their logs.
        programs: the virtual environment of OpenStack.
        silence: seconds until Nova shows a silent service as down.
    """

    lab_id: str
    address: str
    folder: Path
    log: Path
    programs: Path
    silence: int = 60

    @property
    def etc(self) -> Path:
        """Configuration of the services on the machine."""
        return self.folder / "etc"

    @property
    def databases(self) -> Path:
        return self.folder / "mysql"

    @property
    def keys(self) -> Path:
        """Keystone's keys, for tokens and credentials; they belong to its database."""
        return self.folder / "keys"

    @property
    def socket(self) -> Path:
        """The socket of the database server."""
        return self.folder / "mysql.sock"

    @property
    def number(self) -> int:
        """Distinguish what several environments on one machine would share."""
        return ipaddress.IPv4Address(self.address).packed[2]

    @property
    def python(self) -> Path:
        return self.programs / "bin" / "python"

    def program(self, name: str) -> str:
        return str(self.programs / "bin" / name)

    def state(self, service: str) -> Path:
        """What a service keeps on disk."""
        return self.folder / service

    def url(self, service: Service) -> str:
        return f"http://{self.address}:{service.port}{service.path}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the processes: without proxies and personal settings."""
        return {
            "PATH": f"{self.programs}/bin:{PATH}",
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "SPT_NOENV": "1",  # setproctitle would write over the mark in the environment
        }
