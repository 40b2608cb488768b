"""The definitions of a host's domains are stored and sealed, whatever happens to them."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
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
from hypercobalt.api.definitions import HostDefinitions, pack
from hypercobalt.api.fencing import Fencing, FencingMethod, FencingPhase
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.sealed_definitions import SealedDefinitions
from hypercobalt.api.sealing import KeyRing, Owner, PrivateKey
from hypercobalt.node_agent.libvirt.stored_definitions import (
    RESYNC,
    StoredDefinitions,
    directories_of,
    is_kept,
)
from hypercobalt.node_agent.status.parts import Board
from hypercobalt.operator.definitions.reader import opened
from hypercobalt.runtime import Informer, Kube, Metrics, SystemClock
from hypercobalt.runtime.client.patch import JsonObject
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.client.watch import WatchEvent
from hypercobalt.runtime.write_cache import Latest

from .conftest import NODE

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPACE, BOOT = "default", "b1"
KEY, NEXT = PrivateKey.make(), PrivateKey.make()
TYPE = "DefinitionsStored"
DEADLINE = 30.0
DOWN = datetime(2026, 11, 21, tzinfo=UTC)
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


class Watched(Informer[Hypervisor]):
    """Its watch shows nothing more while it is deaf: its connection is dead."""

    deaf = False

    def take(self, event: WatchEvent[Hypervisor]) -> None:
        if not self.deaf:
            super().take(event)


class Host:
    """A libvirt in memory, whose events reach who stores the definitions."""

    def __init__(self, kube: Kube, own: Hypervisor, informer: Watched, resync: timedelta) -> None:
        self.kube, self.own, self.libvirt = kube, own, Gated()
        self.informer, self.cache = informer, Latest(informer)
        self.board = Board(SystemClock())
        self.stored = StoredDefinitions(
            kube,
            self.libvirt,
            self.cache,
            self.board,
            namespace=SPACE,
            boot=BOOT,
            settle=timedelta(0),
            resync=resync,
        )

    async def follow(self) -> None:
        async for event in self.libvirt.events():
            self.stored.on_event(event)

    async def object(self) -> SealedDefinitions | None:
        return await self.kube.get(SealedDefinitions, NODE, SPACE)

    async def reads(self, reason: str) -> str:
        """Wait until the condition has a reason, and return its message."""
        async with asyncio.timeout(DEADLINE):
            while True:
                parts = self.board.parts
                found = parts.conditions.get(TYPE)
                if found is not None and found.reason == reason:
                    return found.message
                await self.board.changed(parts)

    async def publish(self, key: PrivateKey | None) -> None:
        """Have the operator publish a key."""
        stored = await self.kube.get(Hypervisor, NODE)
        assert stored
        text = key and key.public.text
        await self.kube.patch_status(stored, with_fields(stored.status, definitionsKey=text))

    async def record(self, fencing: Fencing) -> None:
        """Have the operator write `status.fencing`."""
        stored = await self.kube.get(Hypervisor, NODE)
        assert stored
        await self.kube.patch_status(stored, with_fields(stored.status, fencing=fencing))

    async def fence(self, fencing: Fencing) -> None:
        """Have the operator write `status.fencing`, and the agent see it."""
        await self.record(fencing)
        seen = self.cache.value
        async with asyncio.timeout(DEADLINE):
            while seen is None or seen.status.fencing != fencing:
                seen = await self.cache.changed(seen)

    async def has(self, right: Callable[[HostDefinitions], bool]) -> HostDefinitions:
        """Wait until the right definitions are stored."""
        last: list[HostDefinitions] = []

        async def found() -> bool:
            if (stored := await self.object()) is not None:
                last[:] = [opened(stored, self.owner, KeyRing(KEY, (NEXT,)))]
            return bool(last) and right(last[0])

        await eventually(found, seconds=DEADLINE)
        return last[0]

    @property
    def owner(self) -> Owner:
        return Owner(NODE, self.own.metadata.uid)

    async def settled(self) -> None:
        """Wait until everything that was due has been read."""
        read = self.libvirt.calls["domains"]
        self.stored.on_event(Lost())
        await eventually(lambda: self.libvirt.calls["domains"] > read, seconds=DEADLINE)


@asynccontextmanager
async def host(
    kube: Kube, resync: timedelta = RESYNC, key: PrivateKey | None = KEY
) -> AsyncIterator[Host]:
    own = await kube.create(Hypervisor(metadata=ObjectMeta(name=NODE)))
    if key is not None:
        status = with_fields(own.status, definitionsKey=key.public.text)
        own = await kube.patch_status(own, status)
    selection = Selection(Hypervisor, fields=f"metadata.name={NODE}")
    informer = Watched(kube, selection, metrics=Metrics())
    made = Host(kube, own, informer, resync)
    with left_to_the_collector():
        async with background(informer.run, made.follow, made.stored.run):
            yield made
    await kube.delete(SealedDefinitions, NODE, SPACE)


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


async def test_what_is_stored_goes_with_its_hypervisor(kube: Kube) -> None:
    async with host(kube) as kvm:
        await kvm.has(lambda now: not now.domains)
        found = await kvm.object()
        assert found
        (owner,) = found.metadata.ownerReferences
    assert (owner.kind, owner.uid) == ("Hypervisor", kvm.own.metadata.uid)


async def test_unchanged_definition_is_not_written(kube: Kube) -> None:
    async with host(kube) as kvm:
        kvm.libvirt.add(domain(A))
        kvm.libvirt.start(A)
        await kvm.has(lambda now: A in now.domains and now.domains[A].active)
        before = await kvm.object()
        for _ in range(3):
            kvm.libvirt.suspend(A)
            await kvm.libvirt.resume(A)
            kvm.stored.on_event(Connected(kvm.libvirt.versions))
            await kvm.settled()
        after = await kvm.object()

    assert before
    assert after
    assert after.metadata.resourceVersion == before.metadata.resourceVersion


async def test_what_its_owner_has_suspended_is_stored_as_halted(kube: Kube) -> None:
    async with host(kube) as kvm:
        kvm.libvirt.add(domain(A))
        kvm.libvirt.start(A)
        await kvm.has(lambda now: A in now.domains and not now.domains[A].halted)
        kvm.libvirt.suspend(A)
        await kvm.has(lambda now: now.domains[A].halted and now.domains[A].active)
        await kvm.libvirt.resume(A)
        await kvm.has(lambda now: not now.domains[A].halted)


@pytest.mark.parametrize(
    ("ended", "crashed"),
    [(Stopped.CRASHED, True), (Stopped.DESTROYED, False), (Stopped.SHUTDOWN, False)],
)
async def test_what_has_crashed_is_not_stored_as_stopped_by_its_owner(
    kube: Kube, ended: Stopped, *, crashed: bool
) -> None:
    async with host(kube) as kvm:
        kvm.libvirt.add(domain(A))
        kvm.libvirt.start(A)
        await kvm.has(lambda now: A in now.domains and now.domains[A].is_to_run)
        kvm.libvirt.stop(A, ended)
        await kvm.has(lambda now: not now.domains[A].active)
        await kvm.has(lambda now: now.domains[A].is_to_run is crashed)


async def test_deleted_object_is_written_again(kube: Kube) -> None:
    async with host(kube, resync=timedelta(milliseconds=100)) as kvm:
        kvm.libvirt.add(domain(A))
        await kvm.has(lambda now: A in now.domains)
        await kube.delete(SealedDefinitions, NODE, SPACE)
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


async def test_domain_that_libvirt_lists_is_named_while_its_document_is_refused(kube: Kube) -> None:
    """What is not named counts as having left its host."""
    async with host(kube) as kvm:
        kvm.libvirt.add(domain(A))
        await kvm.has(lambda now: A in now.domains)
        kvm.libvirt.failures["document"] = LibvirtRefusedError("internal error: cannot format")
        kvm.libvirt.add(domain(B))
        named = await kvm.has(lambda now: not now.domains)
        assert named.left_out == {A: "vm-a", B: "vm-b"}
        assert await kvm.reads("LeftOut") == "libvirt gives no definition of vm-a, vm-b"
        del kvm.libvirt.failures["document"]
        kvm.libvirt.start(A)

        now = await kvm.has(lambda now: now.domains.keys() == {A, B})
        assert not now.left_out


async def test_domain_that_is_gone_once_its_document_is_read_is_not_named(kube: Kube) -> None:
    async with host(kube) as kvm:
        kvm.libvirt.add(domain(A))
        await kvm.has(lambda now: A in now.domains)
        kvm.libvirt.gate.clear()
        kvm.libvirt.add(domain(B))
        await kvm.libvirt.waits.wait()
        kvm.libvirt.forget(A)
        kvm.libvirt.gate.set()

        now = await kvm.has(lambda now: B in now.domains)
        assert (set(now.domains), set(now.left_out)) == ({B}, set())


@pytest.mark.parametrize("boot", [BOOT, "b0"], ids=["this boot", "the boot before"])
@pytest.mark.parametrize(
    ("phase", "down"),
    [
        pytest.param(FencingPhase.ATTEMPTING, None, id="an attempt"),
        pytest.param(FencingPhase.FENCED, None, id="a proof"),
        pytest.param(FencingPhase.FAILED, DOWN, id="declared dead, next attempt failed"),
    ],
)
async def test_definition_of_a_running_instance_stays_stored_while_its_host_is_fenced(
    kube: Kube, phase: FencingPhase, down: datetime | None, boot: str
) -> None:
    async with host(kube) as kvm:
        kvm.libvirt.add(domain(A))
        kvm.libvirt.start(A)
        await kvm.has(lambda now: A in now.domains and now.domains[A].active)
        method = FencingMethod.AGENT
        await kvm.fence(Fencing(phase=phase, method=method, bootID=boot, forcedDownAt=down))
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
        before = await kvm.object()
        kvm.libvirt.gate.clear()
        kvm.libvirt.stop(A, Stopped.DESTROYED)
        async with asyncio.timeout(DEADLINE):
            await kvm.libvirt.waits.wait()
        await kvm.fence(Fencing(phase=FencingPhase.FENCED, bootID=BOOT))
        kvm.libvirt.gate.set()
        kvm.libvirt.start(A)
        await kvm.fence(Fencing(phase=FencingPhase.RELEASED, bootID=BOOT))
        await kvm.settled()
        after = await kvm.object()

    assert before
    assert after
    assert after.metadata.resourceVersion == before.metadata.resourceVersion


async def test_guests_that_end_by_an_order_which_the_watch_does_not_show_yet_stay_stored(
    kube: Kube,
) -> None:
    """A host that was cut off reads the order itself, and its watch shows it later."""
    order = Fencing(phase=FencingPhase.FENCED, method=FencingMethod.BMC, bootID=BOOT)
    async with host(kube) as kvm:
        kvm.libvirt.add(domain(A))
        kvm.libvirt.start(A)
        await kvm.has(lambda now: A in now.domains and now.domains[A].active)
        before = await kvm.object()
        kvm.informer.deaf = True
        await kvm.record(order)
        kvm.libvirt.stop(A, Stopped.DESTROYED)

        async def is_decided() -> bool:
            own = kvm.cache.value
            return await kvm.object() != before or (own is not None and is_kept(own))

        await eventually(is_decided, seconds=DEADLINE)
        after = await kvm.object()

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
        (Disk("vda", path="/vms/a.img", backing=("/base/b.img",)), {"/vms", "/base"}),
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


async def test_what_is_stored_shows_nothing_of_a_domain(kube: Kube) -> None:
    async with host(kube) as kvm:
        kvm.libvirt.add(domain(A, "/vms/a.img"))
        await kvm.has(lambda now: A in now.domains)
        found = await kvm.object()
        assert found
        shown = msgspec.json.encode(found).decode()
        assert (found.spec.key, found.spec.hypervisorUID) == (KEY.public.id, kvm.owner.uid)
        assert base64.b64decode(found.spec.sealed)
        assert not [one for one in (A, "/vms") if one in shown]
        assert await kvm.reads("Stored") == f"Sealed for key {KEY.public.id}"


async def test_an_agent_without_a_key_waits_and_reports_it(kube: Kube) -> None:
    async with host(kube, key=None) as kvm:
        kvm.libvirt.add(domain(A, "/vms/a.img"))
        assert "published no key" in await kvm.reads("NoKey")
        assert await kvm.object() is None
        await kvm.publish(KEY)
        await kvm.has(lambda now: A in now.domains)
        await kvm.reads("Stored")


async def test_another_key_has_everything_sealed_again_at_once(kube: Kube) -> None:
    async with host(kube) as kvm:
        kvm.libvirt.add(domain(A))
        await kvm.has(lambda now: A in now.domains)
        await kvm.publish(NEXT)

        async def is_sealed_anew() -> bool:
            found = await kvm.object()
            return found is not None and found.spec.key == NEXT.public.id

        await eventually(is_sealed_anew, seconds=DEADLINE)
        assert (await kvm.has(lambda now: A in now.domains)).domains[A].name == "vm-a"


@pytest.mark.parametrize("text", ["no key", "A" * 43 + "="], ids=["no key", "one of no use"])
async def test_a_key_of_no_use_is_reported(kube: Kube, text: str) -> None:
    async with host(kube, key=None) as kvm:
        kvm.libvirt.add(domain(A))
        status: JsonObject = {"status": {"definitionsKey": text}}
        await kube.merge_patch(Hypervisor, NODE, status, subresource="status")
        assert "status.definitionsKey" in await kvm.reads("NotStored")
        assert await kvm.object() is None


async def test_an_object_of_before_is_replaced_after_the_api_s_data_were_restored(
    kube: Kube,
) -> None:
    async with host(kube, resync=timedelta(milliseconds=100)) as kvm:
        kvm.libvirt.add(domain(A))
        await kvm.has(lambda now: A in now.domains)
        sealed = KEY.public.seal(pack(HostDefinitions("old")).data, kvm.owner)
        spec: JsonObject = {"spec": {"sealed": base64.b64encode(sealed).decode()}}
        await kube.merge_patch(SealedDefinitions, NODE, spec, SPACE)
        await kvm.has(lambda now: now.bootID == BOOT)
