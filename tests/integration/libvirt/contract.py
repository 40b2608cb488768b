"""What every `Libvirt` keeps: cases for the fake, the test driver and a real libvirtd."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import pytest

from hypercobalt.adapters.libvirt.documents.domain import parse
from hypercobalt.adapters.libvirt.documents.evacuated import NAMESPACE, TAG
from hypercobalt.adapters.libvirt.events import Connected, DomainEvent, Event, EventKind
from hypercobalt.adapters.libvirt.model import Devices, Domain, DomainState, Evacuated
from hypercobalt.adapters.libvirt.port import Control, GuestControl, Libvirt, LibvirtRefusedError
from hypercobalt.adapters.libvirt.vocabulary import (
    ControlState,
    Lifecycle,
    PausedReason,
    RunningReason,
    Shutdown,
    ShutoffReason,
    Stopped,
)
from tests.lab.kit.hand import Hand

BOUND = 20.0
UNKNOWN = "00000000-0000-4000-8000-000000000000"
MIB = 1024**2


class Subject(GuestControl, Libvirt, Control, Protocol):
    """The libvirt under test."""


class World(ABC):
    """A daemon, and a second hand that changes its domains. Domains are named by their uuid."""

    def __init__(self, subject: Subject) -> None:
        self.libvirt = subject

    @abstractmethod
    async def define(self, name: str, *, memory_mib: int = 1) -> str:
        """Define a domain, again if there is one of this name, and return its uuid."""

    @abstractmethod
    async def start(self, uuid: str) -> None: ...

    @abstractmethod
    async def suspend(self, uuid: str) -> None: ...

    @abstractmethod
    async def resume(self, uuid: str) -> None: ...

    @abstractmethod
    async def destroy(self, uuid: str) -> None: ...

    @abstractmethod
    async def undefine(self, uuid: str) -> None: ...


class DaemonWorld(World):
    """A libvirtd that is changed by virsh.

    Args:
        subject: under test.
        uri: of the daemon.
        document: gives domain XML for a name, a uuid and MiB of memory.
    """

    def __init__(
        self, subject: Subject, uri: str, document: Callable[[str, str, int], str]
    ) -> None:
        super().__init__(subject)
        self._hand, self._document = Hand(uri), document
        self._uuids: dict[str, str] = {}

    async def define(self, name: str, *, memory_mib: int = 1) -> str:
        uuid = self._uuids.setdefault(name, str(uuid4()))
        document = self._document(name, uuid, memory_mib)
        await asyncio.to_thread(self._hand.define, document)
        return uuid

    async def start(self, uuid: str) -> None:
        await self._run("start", uuid)

    async def suspend(self, uuid: str) -> None:
        await self._run("suspend", uuid)

    async def resume(self, uuid: str) -> None:
        await self._run("resume", uuid)

    async def destroy(self, uuid: str) -> None:
        await self._run("destroy", uuid)

    async def undefine(self, uuid: str) -> None:
        await self._run("undefine", uuid)

    async def _run(self, *words: str) -> None:
        await asyncio.to_thread(self._hand, *words)


class Listener:
    """Reads events."""

    def __init__(self, events: AsyncIterator[Event]) -> None:
        self._events = events

    async def next(self) -> Event:
        async with asyncio.timeout(BOUND):
            return await anext(self._events)

    async def connected(self) -> Connected:
        while not isinstance(event := await self.next(), Connected):
            pass
        return event

    async def lifecycle(self, uuid: str, *wanted: Lifecycle) -> list[DomainEvent]:
        """Take events until the last wanted event, and return the wanted events in order."""
        found: list[DomainEvent] = []
        while True:
            event = await self.next()
            if (
                isinstance(event, DomainEvent)
                and event.kind is EventKind.LIFECYCLE
                and event.uuid == uuid
                and event.type in wanted
            ):
                found.append(event)
                if event.type == wanted[-1]:
                    return found


@asynccontextmanager
async def listening(subject: Libvirt) -> AsyncIterator[Listener]:
    """A listener that gets everything from `Connected` on."""
    events = subject.events()
    listener = Listener(events)
    await listener.connected()
    try:
        yield listener
    finally:
        await events.aclose()


class Contract:
    """The cases; a subclass gives the fixture `world`."""

    async def test_the_connection_is_reported_with_its_versions(self, world: World) -> None:
        events = world.libvirt.events()
        connected = await Listener(events).connected()
        await events.aclose()

        assert connected.versions.libvirt.count(".") == 2
        assert connected.versions.hypervisor.count(".") == 2

    async def test_a_new_reader_receives_the_present_state(self, world: World) -> None:
        for _ in range(2):
            async with listening(world.libvirt):
                pass
        events = world.libvirt.events()

        assert isinstance(await anext(events), Connected)
        await events.aclose()

    async def test_the_list_follows_every_event(self, world: World) -> None:
        async def now(uuid: str) -> Domain | None:
            listed = {one.uuid: one for one in await world.libvirt.domains()}
            found = listed.get(uuid)
            return replace(found, devices=Devices(), reason=0, id=-1) if found else None

        async with listening(world.libvirt) as listener:
            uuid = await world.define("a", memory_mib=2)
            await listener.lifecycle(uuid, Lifecycle.DEFINED)
            assert await now(uuid) == Domain(
                uuid, "a", active=False, state=DomainState.SHUTOFF, memory_bytes=2 * MIB, vcpus=1
            )

            await world.start(uuid)
            await listener.lifecycle(uuid, Lifecycle.STARTED)
            assert await now(uuid) == Domain(
                uuid, "a", active=True, state=DomainState.RUNNING, memory_bytes=2 * MIB, vcpus=1
            )

            await world.suspend(uuid)
            await listener.lifecycle(uuid, Lifecycle.SUSPENDED)
            paused = await now(uuid)
            assert paused
            assert (paused.active, paused.state) == (True, DomainState.PAUSED)

            await world.resume(uuid)
            await listener.lifecycle(uuid, Lifecycle.RESUMED)
            await world.destroy(uuid)
            (stopped,) = await listener.lifecycle(uuid, Lifecycle.STOPPED)
            assert stopped.name == "a"
            gone = await now(uuid)
            assert gone
            assert (gone.active, gone.state) == (False, DomainState.SHUTOFF)

            await world.undefine(uuid)
            await listener.lifecycle(uuid, Lifecycle.UNDEFINED)
            assert await now(uuid) is None

    async def test_a_new_definition_is_seen(self, world: World) -> None:
        async with listening(world.libvirt) as listener:
            for memory in (2, 3):
                uuid = await world.define("a", memory_mib=memory)
                await listener.lifecycle(uuid, Lifecycle.DEFINED)
                listed = {one.uuid: one for one in await world.libvirt.domains()}
                assert listed[uuid].memory_bytes == memory * MIB

    async def test_active_domains_are_listed_first_and_each_by_name(self, world: World) -> None:
        async with listening(world.libvirt) as listener:
            uuids = {name: await world.define(name) for name in ("d", "b", "c", "a")}
            for name in ("d", "b"):
                await world.start(uuids[name])
                await listener.lifecycle(uuids[name], Lifecycle.STARTED)
            listed = await world.libvirt.domains()
            counted = await world.libvirt.stats()

        assert [one.name for one in listed if one.uuid in uuids.values()] == ["b", "d", "a", "c"]
        assert {one.name for one in counted if one.uuid in uuids.values()} == {"b", "d"}
        assert {one.state for one in counted} == {DomainState.RUNNING}

    async def test_a_domain_without_a_job_and_no_domain_have_none(self, world: World) -> None:
        async with listening(world.libvirt) as listener:
            uuid = await world.define("a")
            await listener.lifecycle(uuid, Lifecycle.DEFINED)

            for completed in (False, True):
                assert await world.libvirt.job_stats(uuid, completed=completed) is None
                assert await world.libvirt.job_stats(UNKNOWN, completed=completed) is None

    async def test_a_host_has_cells_with_memory_and_cpus(self, world: World) -> None:
        async with listening(world.libvirt):
            host = await world.libvirt.capabilities()

        assert host.cells
        assert host.memory_bytes > 0
        assert host.cpu_count > 0

    async def test_a_host_reports_what_it_offers_to_domains(self, world: World) -> None:
        async with listening(world.libvirt):
            offered = await world.libvirt.domain_capabilities()
            host = await world.libvirt.capabilities()

        assert offered.arch == host.arch
        assert offered.hypervisor_type in {"kvm", "qemu", "test"}

    async def test_a_paused_domain_is_resumed(self, world: World) -> None:
        async with listening(world.libvirt) as listener:
            uuid = await world.define("a")
            await world.start(uuid)
            await world.suspend(uuid)
            await listener.lifecycle(uuid, Lifecycle.SUSPENDED)

            await world.libvirt.resume(uuid)

            await listener.lifecycle(uuid, Lifecycle.RESUMED)
            (domain,) = [one for one in await world.libvirt.domains(jobs=True) if one.uuid == uuid]
        assert (domain.state, domain.job) == (DomainState.RUNNING, None)
        assert (domain.held, domain.moving_in, domain.moving_out) == (False, False, False)

    async def test_each_start_has_an_id_and_each_state_its_reason(self, world: World) -> None:
        async def now(uuid: str) -> tuple[bool, int]:
            (found,) = [one for one in await world.libvirt.domains() if one.uuid == uuid]
            ids.append(found.id)
            return found.id >= 0, found.reason

        ids: list[int] = []
        async with listening(world.libvirt) as listener:
            uuid = await world.define("a")
            await listener.lifecycle(uuid, Lifecycle.DEFINED)
            await now(uuid)
            await world.start(uuid)
            (started,) = await listener.lifecycle(uuid, Lifecycle.STARTED)
            assert await now(uuid) == (True, RunningReason.BOOTED)
            await world.suspend(uuid)
            await listener.lifecycle(uuid, Lifecycle.SUSPENDED)
            assert await now(uuid) == (True, PausedReason.USER)
            await world.resume(uuid)
            await listener.lifecycle(uuid, Lifecycle.RESUMED)
            assert await now(uuid) == (True, RunningReason.UNPAUSED)
            await world.destroy(uuid)
            await listener.lifecycle(uuid, Lifecycle.STOPPED)
            await now(uuid)
            await world.start(uuid)
            (again,) = await listener.lifecycle(uuid, Lifecycle.STARTED)
            await now(uuid)

        off, first, paused, resumed, stopped, second = ids
        assert off == stopped == -1
        assert first == paused == resumed == started.domain_id
        assert second == again.domain_id != first

    async def test_a_domain_is_destroyed(self, world: World) -> None:
        async with listening(world.libvirt) as listener:
            uuid = await world.define("a")
            await world.start(uuid)
            await listener.lifecycle(uuid, Lifecycle.STARTED)

            await world.libvirt.destroy(uuid)

            (stopped,) = await listener.lifecycle(uuid, Lifecycle.STOPPED)
            (domain,) = [one for one in await world.libvirt.domains() if one.uuid == uuid]
            await world.libvirt.destroy(uuid)
            await world.libvirt.destroy(UNKNOWN)
        assert stopped.detail == Stopped.DESTROYED
        assert (domain.active, domain.reason) == (False, ShutoffReason.DESTROYED)

    async def test_absent_and_stopped_domains_have_nothing_to_probe(self, world: World) -> None:
        async with listening(world.libvirt) as listener:
            uuid = await world.define("a")
            await listener.lifecycle(uuid, Lifecycle.DEFINED)
            for off in (uuid, UNKNOWN):
                assert await world.libvirt.control_info(off) is None
                assert await world.libvirt.block_stats(off) is None
                assert await world.libvirt.block_stats_of([off]) == {}
                assert await world.libvirt.disk_errors(off) == ()
                assert await world.libvirt.agent_answers(off) is None

    async def test_calls_for_an_unknown_domain_are_refused(self, world: World) -> None:
        async with listening(world.libvirt):
            for call in (world.libvirt.resume, world.libvirt.document):
                with pytest.raises(LibvirtRefusedError):
                    await call(UNKNOWN)
            await world.libvirt.undefine(UNKNOWN)

    async def test_a_document_defines_its_domain_again(self, world: World) -> None:
        async with listening(world.libvirt) as listener:
            uuid = await world.define("a", memory_mib=2)
            document = await world.libvirt.document(uuid)
            await world.undefine(uuid)
            await listener.lifecycle(uuid, Lifecycle.UNDEFINED)

            await world.libvirt.define(replace(document, autostart=True))

            await listener.lifecycle(uuid, Lifecycle.DEFINED)
            (domain,) = [one for one in await world.libvirt.domains() if one.uuid == uuid]
            again = await world.libvirt.document(uuid)
        assert (document.autostart, again.autostart) == (False, True)
        assert (domain.name, domain.active, domain.memory_bytes) == ("a", False, 2 * MIB)


class QemuContract(Contract):
    """More cases, which libvirt's test driver does not support."""

    async def test_a_domain_is_undefined(self, world: World) -> None:
        async with listening(world.libvirt) as listener:
            uuid = await world.define("a")
            await world.libvirt.undefine(uuid)
            await listener.lifecycle(uuid, Lifecycle.UNDEFINED)
            assert uuid not in {one.uuid for one in await world.libvirt.domains()}

    async def test_process_keeps_the_definition_of_its_start(self, world: World) -> None:
        async def now(uuid: str) -> Evacuated | None:
            (found,) = [one for one in await world.libvirt.domains() if one.uuid == uuid]
            return found.evacuated

        mark = Evacuated("kvm-1", "boot-1")
        element = f"<{TAG} xmlns:hypercobalt='{NAMESPACE}' host='{mark.host}' boot='{mark.boot}'/>"
        async with listening(world.libvirt) as listener:
            uuid = await world.define("a")
            await world.start(uuid)
            await listener.lifecycle(uuid, Lifecycle.STARTED)
            document = await world.libvirt.document(uuid)
            marked = document.xml.replace(
                "<devices>", f"<metadata>{element}</metadata><devices>", 1
            )
            await world.libvirt.define(replace(document, xml=marked))
            running = await world.libvirt.document(uuid, running=True)
            assert parse(running.xml).evacuated is None
            assert parse((await world.libvirt.document(uuid)).xml).evacuated == mark
            assert await now(uuid) is None
            await world.destroy(uuid)
            await listener.lifecycle(uuid, Lifecycle.STOPPED)
            assert await now(uuid) == mark

    async def test_an_order_of_the_host_shuts_down_first(self, world: World) -> None:
        async with listening(world.libvirt) as listener:
            uuid = await world.define("a")
            await world.start(uuid)
            await listener.lifecycle(uuid, Lifecycle.STARTED)
            await world.libvirt.destroy(uuid)
            wanted = Lifecycle.SHUTDOWN, Lifecycle.STOPPED
            found = await listener.lifecycle(uuid, *wanted)
        assert [(one.type, one.detail) for one in found] == [
            (Lifecycle.SHUTDOWN, Shutdown.HOST),
            (Lifecycle.STOPPED, Stopped.DESTROYED),
        ]

    async def test_a_healthy_domain_is_reported_healthy(self, world: World) -> None:
        async with listening(world.libvirt) as listener:
            uuid = await world.define("a")
            await world.start(uuid)
            await listener.lifecycle(uuid, Lifecycle.STARTED)
            control = await world.libvirt.control_info(uuid)
            assert control
            assert (control.state, control.seconds) == (ControlState.OK, 0)
            counted = await world.libvirt.block_stats(uuid)
            assert counted is not None
            assert await world.libvirt.block_stats_of([UNKNOWN, uuid]) == {uuid: counted}
            assert await world.libvirt.disk_errors(uuid) == ()
            assert await world.libvirt.agent_answers(uuid) is None

    async def test_aborting_without_a_job_is_no_error(self, world: World) -> None:
        async with listening(world.libvirt) as listener:
            uuid = await world.define("a")
            await world.start(uuid)
            await listener.lifecycle(uuid, Lifecycle.STARTED)
            await world.libvirt.abort(uuid)

    async def test_a_guest_starts_paused_and_is_paused_and_resumed(self, world: World) -> None:
        async def now(uuid: str) -> tuple[DomainState, int]:
            (found,) = [one for one in await world.libvirt.domains() if one.uuid == uuid]
            return found.state, found.reason

        async with listening(world.libvirt) as listener:
            uuid = await world.define("a")
            await world.libvirt.boot(uuid, paused=True)
            assert await now(uuid) == (DomainState.PAUSED, PausedReason.USER)
            await world.libvirt.resume(uuid)
            await listener.lifecycle(uuid, Lifecycle.RESUMED)
            await world.libvirt.pause(uuid)
            await listener.lifecycle(uuid, Lifecycle.SUSPENDED)
            assert await now(uuid) == (DomainState.PAUSED, PausedReason.USER)

    async def test_a_guest_that_was_reset_runs_on(self, world: World) -> None:
        async with listening(world.libvirt) as listener:
            uuid = await world.define("a")
            await world.start(uuid)
            (started,) = await listener.lifecycle(uuid, Lifecycle.STARTED)
            await world.libvirt.reset(uuid)
            while getattr(await listener.next(), "kind", None) is not EventKind.REBOOT:
                pass
            await world.libvirt.reboot(uuid)
            (domain,) = [one for one in await world.libvirt.domains() if one.uuid == uuid]
        assert (domain.state, domain.id) == (DomainState.RUNNING, started.domain_id)

    async def test_a_guest_is_ended_by_sigterm_alone(self, world: World) -> None:
        async with listening(world.libvirt) as listener:
            uuid = await world.define("a")
            await world.start(uuid)
            await world.libvirt.destroy(uuid, graceful=True)
            (stopped,) = await listener.lifecycle(uuid, Lifecycle.STOPPED)
            for off in (uuid, UNKNOWN):
                await world.libvirt.destroy(off, graceful=True)
                await world.libvirt.shutdown(off)
        assert stopped.detail == Stopped.DESTROYED

    async def test_what_needs_a_running_guest_is_refused(self, world: World) -> None:
        control = world.libvirt
        async with listening(control) as listener:
            uuid = await world.define("a")
            await listener.lifecycle(uuid, Lifecycle.DEFINED)
            for call in (control.pause, control.reset, control.reboot):
                for off in (uuid, UNKNOWN):
                    with pytest.raises(LibvirtRefusedError):
                        await call(off)

    async def test_metadata_is_replaced_by_its_namespace(self, world: World) -> None:
        control, space = world.libvirt, "http://example.org/a"
        async with listening(control) as listener:
            uuid = await world.define("a")
            await listener.lifecycle(uuid, Lifecycle.DEFINED)
            assert await control.metadata(uuid, space) is None
            assert await control.metadata(UNKNOWN, space) is None
            for text in ("1", "2"):
                await control.set_metadata(uuid, space, "a", f"<mark>{text}</mark>")
                assert await control.metadata(uuid, space) == f"<mark>{text}</mark>"
            assert await control.metadata(uuid, "http://example.org/b") is None
            with pytest.raises(LibvirtRefusedError):
                await control.set_metadata(UNKNOWN, space, "a", "<mark/>")

    async def test_files_are_put_found_and_deleted(self, world: World, tmp_path: Path) -> None:
        directory, control = str(tmp_path / "vms & more"), world.libvirt
        async with listening(control):
            assert not await control.has_file(directory, "a")
            await control.make_directory(directory)
            assert not await control.has_file(directory, "a")
            await control.mark(directory, "a")
            assert await control.has_file(directory, "a")
            await control.delete_file(directory, "a")
            await control.delete_file(directory, "a")
            assert not await control.has_file(directory, "a")
