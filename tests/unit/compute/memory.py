"""Hosts in memory, as the contracts of the compute service `direct` see them."""

from __future__ import annotations

import posixpath
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from tests.contracts.direct import CAPTURED, A, B, Storage

from hypercobalt.adapters.libvirt.documents.portable.allowed import Allowed
from hypercobalt.adapters.libvirt.fake import FakeDaemons, FakeLibvirt
from hypercobalt.adapters.libvirt.fake_domains import document_of
from hypercobalt.adapters.libvirt.model import Devices, Disk, Domain, DomainState
from hypercobalt.api.definitions import DomainDefinition, HostDefinitions
from hypercobalt.compute.direct.cold import moving_from
from hypercobalt.compute.direct.definitions import NotStoredError
from hypercobalt.compute.direct.directory import Place, distinct
from hypercobalt.compute.direct.ports import NoPorts
from hypercobalt.compute.direct.service import DirectService
from hypercobalt.compute.direct.starts import StartsInMemory, StartsUnderWay
from hypercobalt.compute.model import Size

C = "kvm-3"
BOOT = "boot-1"
KEY = b"of the operator"
MARK = f".hypercobalt-id-{A}"
DIRECTORIES = {"shared": "/shared/vms", "local": "/local/vms"}
ALLOWED = Allowed(shared=("/shared/vms", "/local/vms"), local=("/local/vms",))
"""Also the local directory: what tells the two apart is the mark that another host sees in it."""


class Memory:
    """Hosts in memory, as a `World`."""

    def __init__(self) -> None:
        self.daemons = FakeDaemons()
        self.daemons.shared.add("/shared/vms")
        self.places = {name: place(name) for name in (A, B, C)}
        self.stored: dict[str, HostDefinitions] = {}
        self.claimants: list[Place] = []
        self.starts: StartsUnderWay = StartsInMemory()

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
        copy = replace(self.host(A).here[identity(name)], evacuated=moving_from(A))
        self.host(B).here[identity(name)] = copy

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

    def store(self, host: str) -> None:
        """Have a host's agent store its definitions, and mark the directories of their disks."""
        there = self.host(host)
        self.stored[host] = HostDefinitions(
            BOOT,
            f".hypercobalt-{self.places[host].id}",
            {
                domain.uuid: DomainDefinition(
                    name=domain.name,
                    xml=document_of(there.definition(domain.uuid)),
                    active=domain.active,
                    autostart=domain.uuid in there.autostarted,
                    saved=domain.saved,
                    halted=domain.active and domain.halted,
                    crashed=domain.crashed,
                )
                for domain in there.here.values()
            },
        )
        for domain in there.here.values():
            for disk in domain.devices.disks:
                directory = posixpath.dirname(disk.path)
                shared = directory in self.daemons.shared
                files = self.daemons.shared_files if shared else there.files
                files.add(f"{directory}/.hypercobalt-{self.places[host].id}")

    def cut(self, host: str) -> None:
        """Cut a host's power: only its stored definitions can be read afterwards."""
        there = self.host(host)
        there.disconnect("no route to host")
        for one in list(there.here):
            if there.here[one].active:
                there.stop(one)
                there.here[one] = replace(there.here[one], reason=0)

    def fence(self, host: str) -> None:
        """Record the proof that a host is dead."""
        self.places[host] = replace(
            self.places[host], fenced=True, fenced_boot=BOOT, up=False, closed="it was fenced"
        )

    def boot(self, host: str) -> None:
        """Boot a host that was fenced, after the others' agents have stored what came to them."""
        for name, one in self.places.items():
            if name != host and one.up and not one.fenced and self.host(name).connected:
                self.store(name)
        self.host(host).connect()
        self.places[host] = replace(self.places[host], fenced=False, up=True)

    async def claim(self, host: str) -> None:
        found = self.places[host]
        self.claimants.append(replace(found, name=CAPTURED, id=CAPTURED, held_uuid=""))
        self.places[host] = replace(found, holds_address=True, held_uuid=found.uuid)

    async def lose(self, host: str) -> None:
        self.store(host)
        self.cut(host)
        self.fence(host)

    async def bring_back(self, host: str) -> None:
        self.boot(host)

    async def mark_keys(self) -> tuple[bytes, ...]:
        return (KEY,)

    async def of(self, host: str) -> HostDefinitions:
        if host not in self.stored:
            raise NotStoredError(f"host {host}: nothing is stored")
        return self.stored[host]

    @asynccontextmanager
    async def service(self) -> AsyncIterator[DirectService]:
        made = DirectService(
            Present(self.places, self.claimants),
            self.daemons,
            NoPorts(),
            stored=self,
            allowed=ALLOWED,
        )
        try:
            yield made
        finally:
            await made.close()


class Present:
    """A directory of hosts as a test has them now."""

    def __init__(self, places: Mapping[str, Place], claimants: Sequence[Place] = ()) -> None:
        self._places, self._claimants = places, claimants

    def places(self) -> tuple[Place, ...]:
        return distinct((*self._places.values(), *self._claimants))


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
