"""The compute service `direct` on the hosts of a lab."""

from __future__ import annotations

import posixpath
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from dataclasses import replace as with_changes

from msgspec.structs import replace

from hypercobalt.adapters.libvirt.documents.evacuated import NAMESPACE, TAG
from hypercobalt.adapters.libvirt.documents.portable.allowed import Allowed
from hypercobalt.adapters.libvirt.on_demand import OnDemandDaemons
from hypercobalt.adapters.ovn.northbound import Northbound
from hypercobalt.adapters.ovs.remote import parse_remotes
from hypercobalt.api.definitions import DomainDefinition, HostDefinitions
from hypercobalt.compute.direct.cold import moving_from
from hypercobalt.compute.direct.definitions import NotStoredError
from hypercobalt.compute.direct.directory import Place, distinct
from hypercobalt.compute.direct.service import DirectService
from hypercobalt.compute.direct.shared_disks import files, mark_of
from hypercobalt.compute.direct.starts import StartsInMemory, StartsUnderWay
from hypercobalt.compute.model import Size
from hypercobalt.lab.disk import CONSOLES, LOCAL
from hypercobalt.lab.host import GUESTS, SHARED, Host
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.vms.fleet import Fleet
from hypercobalt.lab.vms.request import VMRequest
from tests.contracts.direct import CAPTURED, A, B, Storage

BOOT = "boot-1"
ALLOWED = Allowed(shared=(SHARED,), local=(LOCAL,), consoles=(CONSOLES,), kernels=(GUESTS,))
"""Allowed paths, as the lab's operator has them."""


@dataclass(slots=True)
class Proof:
    """A proof that a host is dead; it counts no more after the next boot."""

    holds: bool = True


class LabDirectory:
    """A lab's hosts, with room for everything."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.proofs: dict[str, Proof] = {}
        self.claimed = ""
        """Name of the host whose address and UUID `CAPTURED` lists too."""

    def places(self) -> tuple[Place, ...]:
        found = {host.name: self._place(host) for host in self._lab.hosts}
        if (known := found.get(self.claimed)) is not None:
            found[CAPTURED] = with_changes(known, name=CAPTURED, id=CAPTURED)
            found[known.name] = with_changes(known, holds_address=True, held_uuid=known.uuid)
        return distinct(tuple(found.values()))

    def _place(self, host: Host) -> Place:
        proof = self.proofs.get(host.name)
        if proof is None:
            return _place(host)
        return with_changes(
            _place(host), fenced=proof.holds, fenced_boot=BOOT, closed="it was fenced"
        )


def _place(host: Host) -> Place:
    uri = f"qemu+tcp://{host.identity.address}/system"
    return Place(
        name=host.name,
        id=str(host.identity.uuid),
        control=uri,
        migration=uri,
        stream=f"tcp://{host.identity.address}",
        uuid=str(host.identity.uuid),
        capacity=Size(64, 64 * 1024),
    )


async def stored(place: Place) -> HostDefinitions:
    """What a host's agent stores, with its mark in the directories of the disks."""
    daemons = OnDemandDaemons()
    daemon = daemons.at(place.control)
    kept, directories = dict[str, DomainDefinition](), set[str]()
    mark = mark_of(place)
    for one in await daemon.domains():
        document = await daemon.document(one.uuid)
        kept[one.uuid] = DomainDefinition(one.name, document.xml, active=one.active)
        directories |= {posixpath.dirname(disk.path) for disk in files(one)}
    for directory in directories:
        if not await daemon.has_file(directory, mark):
            await daemon.mark(directory, mark)
    await daemons.close()
    return HostDefinitions(BOOT, mark, kept)


class LabWorld:
    """Hosts of a lab, as a `World` of the contracts."""

    def __init__(self, vms: Fleet, lab: Lab) -> None:
        self.vms, self._lab = vms, lab
        self._directory = LabDirectory(lab)
        self._stored: dict[str, HostDefinitions] = {}
        self.starts: StartsUnderWay = StartsInMemory()

    async def add(
        self, name: str, *, disk: Storage | None = None, runs: bool = True, slow: bool = False
    ) -> None:
        await self.vms.add(VMRequest(name=name, host=A, disk=disk))
        if slow:
            await self.vms.host(A).run("virsh", "migrate-setspeed", name, "2")
        if not runs:
            await self.vms.stop(name)

    async def copy_definition(self, name: str) -> None:
        document = await self.vms.host(A).run("virsh", "dumpxml", "--inactive", name)
        mark = moving_from(A)
        attributes = f"host='{mark.host}' boot='{mark.boot}' pending='yes'"
        element = f"<{TAG} xmlns:hypercobalt='{NAMESPACE}' {attributes}/>"
        document = document.replace("<devices>", f"<metadata>{element}</metadata><devices>", 1)
        await self.vms.host(B).run("virsh", "define", "/dev/stdin", stdin=document)

    async def set_autostart(self, name: str) -> None:
        await self.vms.host(A).run("virsh", "autostart", name)

    async def where(self) -> list[tuple[str, str, str]]:
        vms = (await self.vms.inventory()).vms
        return sorted((vm.name, vm.host, vm.state) for vm in vms)

    async def autostarts(self, host: str) -> list[str]:
        listed = await self.vms.host(host).run("virsh", "list", "--all", "--autostart", "--name")
        return listed.split()

    async def local_files(self, name: str) -> list[str]:
        path = f"{LOCAL[1:]}/vms/{name}.img"
        return [
            host.name
            for host in self._lab.hosts
            if (self._lab.layout.root(host.name) / path).exists()
        ]

    @asynccontextmanager
    async def service(self) -> AsyncIterator[DirectService]:
        ports = Northbound(parse_remotes(self._lab.central.northbound))
        made = DirectService(
            self._directory, OnDemandDaemons(), ports, stored=self, allowed=ALLOWED
        )
        try:
            yield made
        finally:
            await made.close()

    async def claim(self, host: str) -> None:
        self._directory.claimed = host

    async def lose(self, host: str) -> None:
        self._stored[host] = await stored(_place(self.vms.host(host)))
        await self.vms.host(host).crash()
        self._directory.proofs[host] = Proof()

    async def bring_back(self, host: str) -> None:
        other = B if host == A else A
        self._stored[other] = await stored(_place(self.vms.host(other)))
        await self.vms.host(host).start(self._lab.addresses)
        self._directory.proofs[host].holds = False

    def stored(self, host: str) -> str:
        """The definition of the only machine of a host that was lost."""
        (one,) = self._stored[host].domains.values()
        return one.xml

    def store(self, host: str, xml: str) -> None:
        """Replace that definition, as whoever has the agent's token can."""
        kept = self._stored[host]
        (uuid,) = kept.domains
        domains = {uuid: replace(kept.domains[uuid], xml=xml)}
        self._stored[host] = replace(kept, domains=domains)

    async def mark_keys(self) -> tuple[bytes, ...]:
        return (b"of the operator",)

    async def of(self, host: str) -> HostDefinitions:
        if host not in self._stored:
            raise NotStoredError(f"host {host}: nothing is stored")
        return self._stored[host]

    async def bound_to(self, name: str) -> tuple[str, ...]:
        """Hosts that may have the machine's port."""
        column = ("--bare", "--columns=options", "find", "Logical_Switch_Port")
        options = await self._lab.central.nbctl(*column, f"external_ids:vm={name}")
        listed = dict(word.split("=", 1) for word in options.split())
        return tuple(listed.get("requested-chassis", "").split(","))
