"""The definitions of a host's domains are in its Secret, whatever happens to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec.structs import replace as with_fields
from tests.following import background
from tests.integration.runtime.scripted import eventually
from tests.sockets import left_to_the_collector

from hypercobalt.adapters.libvirt.events import Connected, Lost
from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Devices, Disk, Domain, DomainDocument, DomainState
from hypercobalt.adapters.libvirt.port import LibvirtRefusedError
from hypercobalt.adapters.libvirt.vocabulary import Stopped
from hypercobalt.api.core import Secret
from hypercobalt.api.definitions import HostDefinitions, definitions, secret_name
from hypercobalt.api.fencing import Fencing, FencingMethod, FencingPhase
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.node_agent.libvirt.stored_definitions import (
    RESYNC,
    StoredDefinitions,
    directories_of,
)
from hypercobalt.runtime import Informer, Kube, Metrics
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.write_cache import Latest

from .conftest import NODE

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPACE, BOOT = "default", "b1"
DEADLINE = 10.0
A, B = "00000000-0000-4000-8000-00000000000a", "00000000-0000-4000-8000-00000000000b"


def domain(uuid: str, *paths: str) -> Domain:
    disks = tuple(Disk(f"vd{number}", path=path) for number, path in enumerate(paths))
    off = DomainState.SHUTOFF
    return Domain(uuid, f"vm-{uuid[-1]}", active=False, state=off, devices=Devices(disks))


class Gated(FakeLibvirt):
    """Its documents are given while its gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.waits = asyncio.Event(), asyncio.Event()
        self.gate.set()

    async def document(self, uuid: str, *, running: bool = False) -> DomainDocument:
        if not self.gate.is_set():
            self.waits.set()
        await self.gate.wait()
        return await super().document(uuid)


class Host:
    """A libvirt in memory, whose events reach who stores the definitions."""

    def __init__(
        self, kube: Kube, own: Hypervisor, cache: Latest[Hypervisor], resync: timedelta
    ) -> None:
        self.kube, self.own, self.libvirt, self.cache = kube, own, Gated(), cache
        self.stored = StoredDefinitions(
            kube,
            self.libvirt,
            cache,
            namespace=SPACE,
            boot=BOOT,
            settle=timedelta(0),
            resync=resync,
        )

    async def follow(self) -> None:
        async for event in self.libvirt.events():
            self.stored.on_event(event)

    async def secret(self) -> Secret | None:
        return await self.kube.get(Secret, secret_name(NODE), SPACE)

    async def fence(self, fencing: Fencing) -> None:
        """Have the operator write `status.fencing`, and the agent see it."""
        stored = await self.kube.get(Hypervisor, NODE)
        assert stored
        await self.kube.patch_status(stored, with_fields(stored.status, fencing=fencing))
        seen = self.cache.value
        async with asyncio.timeout(DEADLINE):
            while seen is None or seen.status.fencing != fencing:
                seen = await self.cache.changed(seen)

    async def has(self, right: Callable[[HostDefinitions], bool]) -> HostDefinitions:
        """Wait until the right definitions are stored."""
        last: list[HostDefinitions] = []

        async def found() -> bool:
            if (secret := await self.secret()) is not None:
                last[:] = [definitions(secret)]
            return bool(last) and right(last[0])

        await eventually(found, seconds=DEADLINE)
        return last[0]

    async def settled(self) -> None:
        """Wait until everything that was due has been read."""
        read = self.libvirt.calls["domains"]
        self.stored.on_event(Lost())
        await eventually(lambda: self.libvirt.calls["domains"] > read, seconds=DEADLINE)


@asynccontextmanager
async def host(kube: Kube, resync: timedelta = RESYNC) -> AsyncIterator[Host]:
    own = await kube.create(Hypervisor(metadata=ObjectMeta(name=NODE)))
    selection = Selection(Hypervisor, fields=f"metadata.name={NODE}")
    informer = Informer(kube, selection, metrics=Metrics())
    made = Host(kube, own, Latest(informer), resync)
    with left_to_the_collector():
        async with background(informer.run, made.follow, made.stored.run):
            yield made
    await kube.delete(Secret, secret_name(NODE), SPACE)


async def test_definitions_follow_the_domains(kube: Kube) -> None:
    async with host(kube) as kvm:
        kvm.libvirt.add(domain(A))
        found = await kvm.has(lambda now: A in now.domains)
        assert (found.bootID, found.domains[A].name) == (BOOT, "vm-a")
        assert f"<uuid>{A}</uuid>" in found.domains[A].xml
        assert not found.domains[A].active

        kvm.libvirt.start(A)
        await kvm.has(lambda now: now.domains[A].active)
        kvm.libvirt.stop(A, Stopped.CRASHED)
        await kvm.has(lambda now: not now.domains[A].active)
        await kvm.libvirt.undefine(A)
        await kvm.has(lambda now: not now.domains)


async def test_the_secret_goes_with_its_hypervisor(kube: Kube) -> None:
    async with host(kube) as kvm:
        await kvm.has(lambda now: not now.domains)
        secret = await kvm.secret()
        assert secret
        (owner,) = secret.metadata.ownerReferences
    assert (owner.kind, owner.uid) == ("Hypervisor", kvm.own.metadata.uid)


async def test_unchanged_definition_is_not_written(kube: Kube) -> None:
    async with host(kube) as kvm:
        kvm.libvirt.add(domain(A))
        kvm.libvirt.start(A)
        await kvm.has(lambda now: A in now.domains and now.domains[A].active)
        before = await kvm.secret()
        for _ in range(3):
            kvm.libvirt.suspend(A)
            await kvm.libvirt.resume(A)
            kvm.stored.on_event(Connected(kvm.libvirt.versions))
            await kvm.settled()
        after = await kvm.secret()

    assert before
    assert after
    assert after.metadata.resourceVersion == before.metadata.resourceVersion


async def test_deleted_secret_is_written_again(kube: Kube) -> None:
    async with host(kube, resync=timedelta(milliseconds=100)) as kvm:
        kvm.libvirt.add(domain(A))
        await kvm.has(lambda now: A in now.domains)
        await kube.delete(Secret, secret_name(NODE), SPACE)
        await kvm.has(lambda now: A in now.domains)


async def test_changes_of_one_moment_are_read_together(kube: Kube) -> None:
    async with host(kube) as kvm:
        await kvm.settled()
        kvm.libvirt.delays["domains"] = 0.05
        before = kvm.libvirt.calls["domains"]
        for number in range(100):
            uuid = f"00000000-0000-4000-8000-{number:012}"
            kvm.libvirt.add(domain(uuid))
            kvm.libvirt.start(uuid)
        await kvm.has(lambda now: len(now.domains) == 100)

        assert kvm.libvirt.calls["domains"] - before <= 3


async def test_read_of_a_libvirt_that_fails_is_repeated(
    kube: Kube, caplog: pytest.LogCaptureFixture
) -> None:
    async with host(kube) as kvm:
        kvm.libvirt.failures["domains"] = LibvirtRefusedError("not now")
        kvm.libvirt.add(domain(A))
        await eventually(lambda: "definitions_not_stored" in caplog.text, seconds=DEADLINE)
        del kvm.libvirt.failures["domains"]
        await kvm.has(lambda now: A in now.domains)


async def test_a_domain_is_left_out_while_its_document_is_refused(kube: Kube) -> None:
    async with host(kube) as kvm:
        kvm.libvirt.add(domain(A))
        await kvm.has(lambda now: A in now.domains)
        kvm.libvirt.failures["document"] = LibvirtRefusedError("Domain not found")
        kvm.libvirt.add(domain(B))
        await kvm.has(lambda now: not now.domains)
        del kvm.libvirt.failures["document"]
        kvm.libvirt.start(A)

        await kvm.has(lambda now: now.domains.keys() == {A, B})


@pytest.mark.parametrize("boot", [BOOT, "b0"], ids=["this boot", "the boot before"])
@pytest.mark.parametrize("phase", [FencingPhase.ATTEMPTING, FencingPhase.FENCED])
async def test_definition_of_a_running_instance_stays_stored_while_its_host_is_fenced(
    kube: Kube, phase: FencingPhase, boot: str
) -> None:
    async with host(kube) as kvm:
        kvm.libvirt.add(domain(A))
        kvm.libvirt.start(A)
        await kvm.has(lambda now: A in now.domains and now.domains[A].active)
        await kvm.fence(Fencing(phase=phase, method=FencingMethod.AGENT, bootID=boot))
        read = kvm.libvirt.calls["domains"]
        kvm.libvirt.stop(A, Stopped.DESTROYED)
        for _ in range(10):
            assert (await kvm.has(lambda now: A in now.domains)).domains[A].active
        assert kvm.libvirt.calls["domains"] == read

        await kvm.fence(Fencing(phase=FencingPhase.RELEASED, bootID=boot))
        await kvm.has(lambda now: not now.domains[A].active)


async def test_guests_that_end_by_order_while_they_are_read_stay_stored(kube: Kube) -> None:
    async with host(kube) as kvm:
        kvm.libvirt.add(domain(A))
        kvm.libvirt.start(A)
        await kvm.has(lambda now: A in now.domains and now.domains[A].active)
        before = await kvm.secret()
        kvm.libvirt.gate.clear()
        kvm.libvirt.stop(A, Stopped.DESTROYED)
        async with asyncio.timeout(DEADLINE):
            await kvm.libvirt.waits.wait()
        await kvm.fence(Fencing(phase=FencingPhase.FENCED, bootID=BOOT))
        kvm.libvirt.gate.set()
        kvm.libvirt.start(A)
        await kvm.fence(Fencing(phase=FencingPhase.RELEASED, bootID=BOOT))
        await kvm.settled()
        after = await kvm.secret()

    assert before
    assert after
    assert after.metadata.resourceVersion == before.metadata.resourceVersion


async def test_a_mark_is_left_once_where_the_disks_are(kube: Kube) -> None:
    async with host(kube) as kvm:
        kvm.libvirt.failures["mark"] = LibvirtRefusedError("Permission denied")
        kvm.libvirt.add(domain(A, "/vms/a.img", "/vms/a2.img", "/more/a.img"))
        found = await kvm.has(lambda now: A in now.domains)
        del kvm.libvirt.failures["mark"]
        for _ in range(3):
            await kvm.settled()
        marks = {file for file in kvm.libvirt.files if file.endswith(found.mark)}
        made = kvm.libvirt.calls["mark"]
        await kvm.settled()

        assert found.mark == f".hypercobalt-{kvm.own.metadata.uid}"
        assert marks == {f"/vms/{found.mark}", f"/more/{found.mark}"}
        assert kvm.libvirt.calls["mark"] == made


@pytest.mark.parametrize(
    ("disk", "marked"),
    [
        (Disk("vda", path="/vms/a.img"), {"/vms"}),
        (Disk("vda", path="/dev/mapper/a", block=True), set[str]()),
        (Disk("sda", "cdrom", path="/media/a.iso"), set[str]()),
        (Disk("vda", path="/vms/a.img", readonly=True), set[str]()),
        (Disk("vda"), set[str]()),
    ],
)
async def test_directories_are_those_of_files_that_are_written(
    disk: Disk, marked: set[str]
) -> None:
    plain = domain(A)
    with_nvram = replace(plain, devices=Devices((disk,), nvram="/nvram/a.fd"))
    assert directories_of(replace(plain, devices=Devices((disk,)))) == marked
    assert directories_of(with_nvram) == marked | {"/nvram"}
