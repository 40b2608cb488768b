"""Hosts in memory, as the contracts of the compute service `direct` see them."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.contracts.direct import A, B, Storage

from hypercobalt.adapters.libvirt.fake import FakeDaemons, FakeLibvirt
from hypercobalt.adapters.libvirt.model import Devices, Disk, Domain, DomainState
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.ports import NoPorts
from hypercobalt.compute.direct.service import DirectService
from hypercobalt.compute.model import Size
from hypercobalt.compute.port import ComputeService

C = "kvm-3"
DIRECTORIES = {"shared": "/shared/vms", "local": "/local/vms"}


class Memory:
    """Hosts in memory, as a `World`."""

    def __init__(self) -> None:
        self.daemons = FakeDaemons()
        self.daemons.shared.add("/shared/vms")
        self.places = {name: place(name) for name in (A, B, C)}

    def host(self, name: str) -> FakeLibvirt:
        return self.daemons.at(self.places[name].control)

    async def add(
        self, name: str, *, disk: Storage | None = None, runs: bool = True, slow: bool = False
    ) -> None:
        disks = (Disk("vda", path=f"{DIRECTORIES[disk]}/{name}.img"),) if disk else ()
        made = Domain(
            uuid=identity(name),
            name=name,
            state=DomainState.RUNNING if runs else DomainState.SHUTOFF,
            active=runs,
            memory_bytes=1024**3,
            vcpus=1,
            devices=Devices(disks),
        )
        self.host(A).put(made)
        self.daemons.seconds[made.uuid] = 60 if slow else 1

    async def copy_definition(self, name: str) -> None:
        self.host(B).here[identity(name)] = self.host(A).here[identity(name)]

    async def set_autostart(self, name: str) -> None:
        self.host(A).autostarted.add(identity(name))

    async def where(self) -> list[tuple[str, str, str]]:
        return sorted(
            (domain.name, name, "running" if domain.active else "shut off")
            for name in self.places
            for domain in self.host(name).here.values()
        )

    async def autostarts(self, host: str) -> list[str]:
        there = self.host(host)
        return [there.here[uuid].name for uuid in there.autostarted]

    async def local_files(self, name: str) -> list[str]:
        return [host for host in self.places if f"/local/vms/{name}.img" in self.host(host).files]

    @asynccontextmanager
    async def service(self) -> AsyncIterator[ComputeService]:
        made = DirectService(Fixed(*self.places.values()), self.daemons, NoPorts())
        try:
            yield made
        finally:
            await made.close()


class Fixed:
    """A directory that a test has written."""

    def __init__(self, *places: Place) -> None:
        self._places = places

    def places(self) -> tuple[Place, ...]:
        return self._places


def place(name: str) -> Place:
    uri = f"qemu+tcp://{name}/system"
    return Place(name, f"id-{name}", uri, uri, uuid=identity(uri), capacity=Size(8, 8192))


def identity(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))
