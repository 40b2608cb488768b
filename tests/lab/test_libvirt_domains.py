"""Domains of a real libvirtd: many, odd, tuned, migrating, behind a network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

import pytest

from hypercobalt.adapters.libvirt.connection import LibvirtConnection, connect
from hypercobalt.adapters.libvirt.events import Disconnected, DomainEvent, EventKind
from hypercobalt.adapters.libvirt.model import DomainState, JobStats, JobType, MemoryNode
from hypercobalt.adapters.libvirt.vocabulary import Lifecycle
from tests.integration.libvirt.contract import MIB, Listener, listening
from tests.lab.kit.hand import Hand, HandError
from tests.lab.kit.libvirtd import Daemon, private_libvirtd


@pytest.fixture
def hand(libvirtd: Daemon) -> Hand:
    return Hand(libvirtd.uri)


def tuned(daemon: Daemon, name: str, *, metadata: str = "") -> str:
    """A guest bound to host cell 0 and CPU 0, with guest cells."""
    return (
        daemon.guest(name, memory="4 MiB")
        .replace(
            "<vcpu>1</vcpu>", "<vcpu>2</vcpu><cputune><vcpupin vcpu='0' cpuset='0'/></cputune>"
        )
        .replace(
            "<features>",
            "<numatune><memory mode='strict' nodeset='0'/></numatune>"
            "<cpu><numa><cell id='0' cpus='0' memory='2' unit='MiB'/>"
            "<cell id='1' cpus='1' memory='2' unit='MiB'/></numa></cpu><features>",
        )
        .replace("<memory ", f"<metadata>{metadata}</metadata><memory ", 1)
    )


async def test_a_pass_over_two_hundred_domains_reads_each_document_once(
    libvirtd: Daemon, hand: Hand
) -> None:
    hand.define(*(tuned(libvirtd, f"guest-{number:03}") for number in range(200)))
    async with connect(libvirtd.uri) as subject, listening(subject):
        first = await subject.domains()
        started = monotonic()
        second = await subject.domains()
        took = monotonic() - started

    assert len(first) == 200
    assert first == second
    assert first[7].memory_nodes == (MemoryNode(2 * MIB, frozenset({0})),) * 2
    assert took < 0.15


async def test_a_huge_and_odd_document_is_one_domain_among_others(
    libvirtd: Daemon, hand: Hand
) -> None:
    notes = "".join(
        f"<note xmlns='urn:{n}'>&lt;vcpu&gt;9&lt;/vcpu&gt; é</note>" for n in range(9000)
    )
    hand.define(tuned(libvirtd, "huge", metadata=notes))
    hand.define(libvirtd.guest("näme <&> 'quoted'".replace("&", "&amp;").replace("<", "&lt;")))
    async with connect(libvirtd.uri) as subject, listening(subject):
        huge, odd = await subject.domains()

    assert (huge.name, huge.vcpus, huge.memory_bytes) == ("huge", 2, 4 * MIB)
    assert huge.pins == {0: {0}}
    assert (odd.name, odd.vcpus, odd.problem) == ("näme <&> 'quoted'", 1, None)


async def test_a_pin_that_is_changed_is_reported_and_listed(libvirtd: Daemon, hand: Hand) -> None:
    hand.create(libvirtd.guest("a"))
    async with connect(libvirtd.uri) as subject, listening(subject) as listener:
        (before,) = await subject.domains()
        hand("vcpupin", "a", "0", "1")
        await of_kind(listener, EventKind.DEVICE_CHANGED)
        (after,) = await subject.domains()

    assert before.pins == {}
    assert after.pins == {0: {1}}


async def test_the_cpus_of_a_whole_guest_are_those_of_each_vcpu_that_is_not_pinned(
    libvirtd: Daemon, hand: Hand
) -> None:
    for name, placement in (("a", "static"), ("b", "auto")):
        vcpus = f"<vcpu placement='{placement}' cpuset='0'>2</vcpu>"
        hand.define(libvirtd.guest(name).replace("<vcpu>1</vcpu>", vcpus))
    hand("start", "a")
    async with connect(libvirtd.uri) as subject, listening(subject) as listener:
        before = {domain.name: domain.pins for domain in await subject.domains()}
        hand("vcpupin", "a", "1", "1")
        await of_kind(listener, EventKind.DEVICE_CHANGED)
        after = {domain.name: domain.pins for domain in await subject.domains()}

    assert before == {"a": {0: {0}, 1: {0}}, "b": {}}
    assert after == {"a": {0: {0}, 1: {1}}, "b": {}}


async def of_kind(listener: Listener, kind: EventKind) -> DomainEvent:
    while True:
        event = await listener.next()
        if isinstance(event, DomainEvent) and event.kind is kind:
            return event


@asynccontextmanager
async def second_host() -> AsyncIterator[tuple[Daemon, LibvirtConnection]]:
    with private_libvirtd() as daemon:
        async with connect(daemon.uri) as subject, listening(subject):
            yield daemon, subject


async def migrate(hand: Hand, name: str, target: Daemon, *flags: str) -> None:
    channel = f"unix://{target.directory}/migration"
    words = ("migrate", "--live", "--p2p", name, target.uri, "--migrateuri", channel, *flags)
    await asyncio.to_thread(hand, *words)


async def test_a_migration_is_followed_on_both_sides(libvirtd: Daemon, hand: Hand) -> None:
    async with (
        connect(libvirtd.uri) as source,
        listening(source) as listener,
        second_host() as (target, destination),
    ):
        hand.create(diskless(libvirtd, "a", "64 MiB"))
        uuid = hand.uuid("a")
        await listener.lifecycle(uuid, Lifecycle.STARTED)
        moving = asyncio.create_task(migrate(hand, "a", target))
        job = await running_job(source, uuid)
        completed = await of_kind(listener, EventKind.JOB_COMPLETED)
        await moving

        assert (job.type, job.is_outgoing) == (JobType.UNBOUNDED, True)
        assert completed.stats
        assert completed.stats.type is JobType.COMPLETED
        assert completed.stats.values["operation"] == 5
        assert completed.stats.values["memory_total"] == 64 * MIB + 532480
        assert completed.stats.values["downtime"]
        assert await source.domains() == ()
        assert await source.job_stats(uuid, completed=True) is None
        (arrived,) = await destination.domains()
        assert (arrived.uuid, arrived.state) == (uuid, DomainState.RUNNING)
        for _ in range(2):  # reading does not use it up
            theirs = await destination.job_stats(uuid, completed=True)
            assert theirs
            assert (theirs.type, theirs.values["operation"]) == (JobType.COMPLETED, 4)


async def test_a_cancelled_migration_is_reported_and_leaves_a_domain_without_job(
    libvirtd: Daemon, hand: Hand
) -> None:
    async with (
        connect(libvirtd.uri) as source,
        listening(source) as listener,
        second_host() as (target, destination),
    ):
        hand.create(diskless(libvirtd, "a", "640 MiB"))
        uuid = hand.uuid("a")
        moving = asyncio.create_task(migrate(hand, "a", target, "--bandwidth", "1"))
        await of_kind(listener, EventKind.MIGRATION_ITERATION)
        aborting = asyncio.create_task(asyncio.to_thread(hand, "domjobabort", "a"))
        while (await of_kind(listener, EventKind.MIGRATION_STATUS)).reason != "cancelled":
            pass
        # QEMU's word: libvirt lists the job, and even as running, until its own thread has read it.
        await aborting
        with pytest.raises(HandError, match="cancel"):
            await moving

        assert await source.job_stats(uuid) is None
        (stayed,) = await source.domains()
        assert stayed.state is DomainState.RUNNING
        assert await destination.domains() == ()


def diskless(daemon: Daemon, name: str, memory: str) -> str:
    """A guest whose files the other host need not have."""
    document = daemon.guest(name, memory=memory)
    disk = document[document.index("<disk") : document.index("</disk>") + len("</disk>")]
    return document.replace(disk, "").replace("<boot dev='fd'/>", "")


async def running_job(subject: LibvirtConnection, uuid: str) -> JobStats:
    async with asyncio.timeout(10):
        while True:
            if job := await subject.job_stats(uuid):
                return job


class Cable:
    """A network before a Unix socket, which can be cut without a sign to either side."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._whole = asyncio.Event()
        self._whole.set()
        self._carrying: set[asyncio.Task[object]] = set()

    @asynccontextmanager
    async def laid(self) -> AsyncIterator[int]:
        """Carries what comes to the TCP port that it gives."""
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        async with server:
            yield server.sockets[0].getsockname()[1]
            self.repair()
        await asyncio.wait(self._carrying)  # they end with their connections

    def cut(self) -> None:
        self._whole.clear()

    def repair(self) -> None:
        self._whole.set()

    async def _carry(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        if task := asyncio.current_task():
            self._carrying.add(task)
        far, there = await asyncio.open_unix_connection(self._path)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pump(near, there))
            tasks.create_task(self._pump(far, back))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await self._whole.wait()
            writer.write(data)
        writer.close()
        await writer.wait_closed()


@pytest.mark.timed
async def test_a_cut_cable_is_noticed_and_events_follow_once_it_is_mended(
    libvirtd: Daemon, hand: Hand
) -> None:
    cable = Cable(f"{libvirtd.directory}/run/libvirt-sock")
    async with (
        cable.laid() as port,
        connect(f"qemu+tcp://127.0.0.1:{port}/system") as subject,
        listening(subject) as listener,
    ):
        cable.cut()
        cut = monotonic()
        while not isinstance(await listener.next(), Disconnected):
            pass
        assert monotonic() - cut < 0.95
        hand.define(libvirtd.guest("a"))
        uuid = hand.uuid("a")

        cable.repair()
        await listener.lifecycle(uuid, Lifecycle.DEFINED)
        (domain,) = await subject.domains()
        assert domain.name == "a"
