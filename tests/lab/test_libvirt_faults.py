"""A real libvirtd is killed, stopped, hung and restarted; nothing is missed, nothing invented."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from time import monotonic

import pytest

from hypercobalt.adapters.libvirt.connection import MOST_HUNG, LibvirtConnection, connect
from hypercobalt.adapters.libvirt.events import Connected, Disconnected, DomainEvent
from hypercobalt.adapters.libvirt.model import ControlInfo, Domain
from hypercobalt.adapters.libvirt.port import DomainHungError, LibvirtError
from hypercobalt.adapters.libvirt.statistics import DomainStats
from hypercobalt.adapters.libvirt.vocabulary import ControlState, Lifecycle, Stopped
from tests.integration.libvirt.contract import BOUND, Listener
from tests.lab.kit.hand import Hand
from tests.lab.kit.libvirtd import Daemon

# What the agent needs to have both in its status within a second.
NOTICED = 0.95


@asynccontextmanager
async def connected(
    uri: str, deadline: float = 10
) -> AsyncIterator[tuple[LibvirtConnection, Listener]]:
    """A connection that stands, and its listener."""
    async with connect(uri, deadline=deadline) as subject:
        events = subject.events()
        listener = Listener(events)
        await listener.connected()
        yield subject, listener
        await events.aclose()


async def disconnected(listener: Listener) -> Disconnected:
    while not isinstance(event := await listener.next(), Disconnected):
        pass
    return event


def truth(uri: str) -> set[tuple[str, bool]]:
    """Name and activity of every domain, by a connection of its own."""
    hand = Hand(uri)
    active = hand.names()
    return {(name, name in active) for name in hand.names("--all")}


def running_by_name(domains: tuple[Domain, ...]) -> set[tuple[str, bool]]:
    return {(one.name, one.active) for one in domains}


def start_guests(daemon: Daemon, names: list[str]) -> None:
    hand = Hand(daemon.uri)
    hand.define(*(daemon.guest(name) for name in names))
    hand("; ".join(f"start {name}" for name in names))


@pytest.mark.timed
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
async def test_loss_and_return_are_noticed_within_a_second(
    libvirtd: Daemon, how: signal.Signals
) -> None:
    async with connected(libvirtd.uri) as (subject, listener):
        begun = monotonic()
        await asyncio.to_thread(libvirtd.stop, how)
        assert (await disconnected(listener)).reason
        assert monotonic() - begun < NOTICED
        with pytest.raises(LibvirtError, match="libvirt is not connected: "):
            await subject.domains()

        await asyncio.to_thread(libvirtd.start)
        await asyncio.to_thread(truth, libvirtd.uri)  # another client is served
        back = monotonic()
        await listener.connected()
        assert monotonic() - back < NOTICED
        assert await subject.domains() == ()


@pytest.mark.timed
async def test_a_hung_daemon_is_noticed_within_a_second_and_so_is_its_return(
    libvirtd: Daemon,
) -> None:
    await asyncio.to_thread(start_guests, libvirtd, ["a"])
    async with connected(libvirtd.uri) as (subject, listener):
        before = await subject.domains()
        hung = monotonic()
        libvirtd.send(signal.SIGSTOP)
        assert "has not answered" in (await disconnected(listener)).reason
        assert monotonic() - hung < NOTICED
        begun = monotonic()
        with pytest.raises(LibvirtError, match="has not answered"):
            await subject.domains()
        assert monotonic() - begun < 0.1

        back = monotonic()
        libvirtd.send(signal.SIGCONT)
        await listener.connected()
        assert monotonic() - back < NOTICED
        assert await subject.domains() == before


async def test_guests_that_change_while_the_daemon_hangs_are_reported(libvirtd: Daemon) -> None:
    await asyncio.to_thread(start_guests, libvirtd, ["a", "b"])
    async with connected(libvirtd.uri) as (subject, listener):
        uuids = {one.name: one.uuid for one in await subject.domains()}
        libvirtd.send(signal.SIGSTOP)
        await disconnected(listener)
        libvirtd.kill_guest("a")
        libvirtd.send(signal.SIGCONT)

        await listener.lifecycle(uuids["a"], Lifecycle.STOPPED)
        assert running_by_name(await subject.domains()) == {("a", False), ("b", True)}


async def test_a_daemon_that_hangs_and_then_dies_is_connected_to_again(libvirtd: Daemon) -> None:
    async with connected(libvirtd.uri) as (subject, listener):
        libvirtd.send(signal.SIGSTOP)
        await disconnected(listener)
        await asyncio.to_thread(libvirtd.stop, signal.SIGKILL)
        await asyncio.to_thread(libvirtd.start)
        await listener.connected()

        assert await subject.domains() == ()


def attempts() -> list[asyncio.Task[object]]:
    """Attempts to connect that are under way."""
    return [one for one in asyncio.all_tasks() if one.get_name() == "libvirt-attempt"]


async def test_one_attempt_waits_for_a_daemon_that_hangs_at_the_start(libvirtd: Daemon) -> None:
    libvirtd.send(signal.SIGSTOP)
    async with connect(libvirtd.uri) as subject:
        listener = Listener(events := subject.events())
        assert await listener.next() == Disconnected("libvirt has not answered for 3 s")
        assert len(attempts()) == 1

        libvirtd.send(signal.SIGCONT)
        assert isinstance(await listener.next(), Connected)
        await asyncio.to_thread(start_guests, libvirtd, ["a"])
        assert isinstance(await listener.next(), DomainEvent)  # it comes once
        await events.aclose()


@pytest.mark.timed
async def test_leaving_a_hung_daemon_does_not_take_long(libvirtd: Daemon) -> None:
    async with connected(libvirtd.uri) as (_, listener):
        libvirtd.send(signal.SIGSTOP)
        await disconnected(listener)
        left = monotonic()

    assert monotonic() - left < 2


@pytest.mark.timeout(180)
async def test_a_restart_under_fifty_guests_of_which_five_die_misses_and_invents_nothing(
    libvirtd: Daemon,
) -> None:
    names = [f"guest-{number:02}" for number in range(50)]
    dying = names[::10]
    await asyncio.to_thread(start_guests, libvirtd, names)
    async with connected(libvirtd.uri) as (subject, listener):
        assert running_by_name(await subject.domains()) == {(name, True) for name in names}

        await asyncio.to_thread(libvirtd.stop, signal.SIGKILL)
        for name in dying:
            libvirtd.kill_guest(name)
        await asyncio.to_thread(libvirtd.start)
        await listener.connected()
        # libvirtd itself finds out after it listens: what the list lacks, an event brings.
        uuids = {one.name: one.uuid for one in await subject.domains()}
        while running_by_name(await subject.domains()) != (
            expected := await _truth_of(libvirtd, dying)
        ):
            await listener.lifecycle(uuids[dying[-1]], Lifecycle.STOPPED)

        assert expected == {(name, name not in dying) for name in names}
        assert running_by_name(await subject.domains()) == expected


async def _truth_of(daemon: Daemon, dying: list[str]) -> set[tuple[str, bool]]:
    async with asyncio.timeout(10):
        while True:
            found = await asyncio.to_thread(truth, daemon.uri)
            if all((name, False) in found for name in dying):
                return found
            await asyncio.sleep(0.02)


async def test_a_guest_that_dies_is_reported_with_the_way_it_ended(libvirtd: Daemon) -> None:
    await asyncio.to_thread(start_guests, libvirtd, ["a"])
    async with connected(libvirtd.uri) as (subject, listener):
        (domain,) = await subject.domains()
        libvirtd.kill_guest("a")
        (event,) = await listener.lifecycle(domain.uuid, Lifecycle.STOPPED)

    assert event.detail == 5  # VIR_DOMAIN_EVENT_STOPPED_FAILED


async def test_a_call_to_a_daemon_that_hangs_ends_at_its_deadline(libvirtd: Daemon) -> None:
    async with connected(libvirtd.uri, deadline=0.2) as (subject, _):
        libvirtd.send(signal.SIGSTOP)
        with pytest.raises(LibvirtError, match=r"list of domains on .*: .* within 0.2 s"):
            await subject.domains()
        libvirtd.send(signal.SIGCONT)
        assert await subject.domains() == ()


async def test_emulators_that_hang_hold_up_only_calls_to_them(libvirtd: Daemon) -> None:
    await asyncio.to_thread(start_guests, libvirtd, list("abcde"))
    async with connected(libvirtd.uri, deadline=1) as (subject, listener):
        uuids = {one.name: one.uuid for one in await subject.domains()}
        for name in "abcd":
            libvirtd.send_guest(name, signal.SIGSTOP)
        for _ in range(5):  # more often than libvirtd takes calls of one connection
            with pytest.raises(DomainHungError, match="counters of domains"):
                await subject.stats()
            assert len(await subject.domains()) == 5
            assert await subject.job_stats(uuids["e"]) is None
        libvirtd.kill_guest("e")
        await listener.lifecycle(uuids["e"], Lifecycle.STOPPED)

        for name in "abcd":
            libvirtd.send_guest(name, signal.SIGCONT)
        assert len(await stats_again(subject)) == 4


async def test_an_emulator_that_hangs_is_found_by_a_probe_and_called_once(libvirtd: Daemon) -> None:
    await asyncio.to_thread(start_guests, libvirtd, list("ab"))
    async with connected(libvirtd.uri, deadline=1) as (subject, listener):
        uuids = {one.name: one.uuid for one in await subject.domains()}
        libvirtd.send_guest("a", signal.SIGSTOP)
        unasked = await subject.control_info(uuids["a"])
        with pytest.raises(DomainHungError, match="within 1 s"):
            await subject.block_stats(uuids["a"])
        found = await subject.control_info(uuids["a"])
        assert unasked == ControlInfo(ControlState.OK)
        assert found
        assert found.state is ControlState.OCCUPIED
        assert 0.5 < found.seconds < BOUND

        assert await subject.block_stats(uuids["b"])
        with pytest.raises(DomainHungError):
            await subject.disk_errors(uuids["a"])

        await subject.destroy(uuids["a"])
        (stopped,) = await listener.lifecycle(uuids["a"], Lifecycle.STOPPED)
        assert stopped.detail == Stopped.DESTROYED


async def test_an_emulator_that_hangs_among_others_is_called_once_and_found(
    libvirtd: Daemon,
) -> None:
    await asyncio.to_thread(start_guests, libvirtd, list("abc"))
    async with connected(libvirtd.uri, deadline=1) as (subject, listener):
        uuids = {one.name: one.uuid for one in await subject.domains()}
        assert (await subject.block_stats_of(uuids.values())).keys() == {*uuids.values()}
        libvirtd.send_guest("b", signal.SIGSTOP)
        with pytest.raises(DomainHungError, match=r"disks of 3 domains.* within 1 s"):
            await subject.block_stats_of(uuids.values())
        with pytest.raises(DomainHungError, match="has been silent"):
            await subject.block_stats(uuids["b"])
        states = {name: await subject.control_info(uuids[name]) for name in "abc"}
        assert [one and one.state.name for one in states.values()] == ["OK", "OCCUPIED", "OK"]
        assert await subject.block_stats(uuids["a"])
        assert await subject.block_stats(uuids["c"]), "it is behind the one that hangs"
        well = [uuids["a"], uuids["c"]]
        assert (await subject.block_stats_of(well)).keys() == {*well}
        await subject.destroy(uuids["b"])
        await listener.lifecycle(uuids["b"], Lifecycle.STOPPED)
        assert (await subject.block_stats_of(uuids.values())).keys() == {*well}


async def test_an_emulator_that_hangs_does_not_hold_up_a_list_with_jobs(libvirtd: Daemon) -> None:
    await asyncio.to_thread(start_guests, libvirtd, list("ab"))
    async with connected(libvirtd.uri, deadline=4) as (subject, _):
        uuids = {one.name: one.uuid for one in await subject.domains()}
        libvirtd.send_guest("a", signal.SIGSTOP)
        with pytest.raises(DomainHungError, match="within"):
            await subject.block_stats(uuids["a"])
        for _again in range(6):  # more often than libvirtd takes calls of one connection
            assert len(await subject.domains(jobs=True)) == 2


async def test_emulators_that_hang_are_found_up_to_a_number_and_the_rest_is_served(
    libvirtd: Daemon,
) -> None:
    names = [f"g{number}" for number in range(MOST_HUNG + 2)]
    hung, one_more, well = names[:MOST_HUNG], *names[MOST_HUNG:]
    await asyncio.to_thread(start_guests, libvirtd, names)
    async with connected(libvirtd.uri, deadline=1) as (subject, listener):
        uuids = {one.name: one.uuid for one in await subject.domains()}
        for name in hung:
            libvirtd.send_guest(name, signal.SIGSTOP)
        for name in hung[:-1]:
            with pytest.raises(DomainHungError):
                await subject.block_stats(uuids[name])
        assert await subject.block_stats(uuids[well]), "with one place left"
        with pytest.raises(DomainHungError):
            await subject.block_stats(uuids[hung[-1]])
        libvirtd.send_guest(one_more, signal.SIGSTOP)
        for name in (one_more, well):
            with pytest.raises(LibvirtError, match="calls about other domains hang"):
                await subject.block_stats(uuids[name])

        states = {name: await subject.control_info(uuids[name]) for name in names}
        assert {name for name, one in states.items() if one and one.state.name == "OCCUPIED"} == {
            *hung
        }
        assert len(await subject.domains()) == len(names)
        await subject.destroy(uuids[hung[0]])
        await listener.lifecycle(uuids[hung[0]], Lifecycle.STOPPED)
        with pytest.raises(DomainHungError):
            await subject.block_stats(uuids[one_more])
        for name in names:
            if name != hung[0]:
                libvirtd.send_guest(name, signal.SIGCONT)


async def stats_again(subject: LibvirtConnection) -> tuple[DomainStats, ...]:
    """The counters, once libvirtd has answered the earlier calls."""
    async with asyncio.timeout(30):
        while True:
            with suppress(DomainHungError):
                return await subject.stats()
