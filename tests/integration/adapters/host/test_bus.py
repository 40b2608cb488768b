"""The host's services as they may be at their worst, on a private D-Bus."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from dbus_fast.message import Message
from dbus_fast.signature import Variant
from tests.integration.adapters.host.conftest import DEADLINE, Bus, Join, Peer

from hypercobalt.adapters.host.bus import reach
from hypercobalt.adapters.host.model import OperatingSystem, UnitNameError, UnitState
from hypercobalt.adapters.host.port import HostError
from hypercobalt.adapters.host.shutdown import LogindShutdown
from hypercobalt.adapters.host.system import HostSystem
from hypercobalt.adapters.host.units import SystemdUnits

SYSTEMD, LOGIND, HOSTNAMED = (
    "org.freedesktop.systemd1",
    "org.freedesktop.login1",
    "org.freedesktop.hostname1",
)
PATH, LOGIND_PATH = "/org/freedesktop/systemd1", "/org/freedesktop/login1"
UNIT, UNIT_PATH = "libvirtd.service", "/org/freedesktop/systemd1/unit/libvirtd_2eservice"
JOB = "/org/freedesktop/systemd1/job/1"
CHANGED = "org.freedesktop.DBus.Properties.PropertiesChanged"
GRACE = timedelta(milliseconds=50)

News = tuple[UnitState, ...] | HostError


def set_state(systemd: Peer, active: str, load: str = "loaded") -> None:
    row = [UNIT, "text", load, active, "sub", "", UNIT_PATH, 0, "", "/"]
    systemd.returns("ListUnitsByNames", "a(ssssssouso)", [[row]])


async def join_systemd(join: Join) -> Peer:
    systemd = await join(None)
    systemd.returns("Subscribe")
    systemd.returns("StartUnit", "o", [JOB])
    systemd.returns("TryRestartUnit", "o", [JOB])
    set_state(systemd, "active")
    await systemd.bus.request_name(SYSTEMD)
    return systemd


@asynccontextmanager
async def watching(bus: Bus) -> AsyncGenerator[AsyncGenerator[News]]:
    async with (
        asyncio.timeout(DEADLINE),
        aclosing(SystemdUnits(bus.address, grace=GRACE).watch([UNIT])) as news,
    ):
        yield news


async def active(news: AsyncGenerator[News]) -> str:
    """The next active state; fails if systemd is away instead."""
    states = await anext(news)
    assert isinstance(states, tuple), states
    return states[0].active


async def changed(systemd: Peer, state: str) -> None:
    set_state(systemd, state)
    await systemd.signal(UNIT_PATH, CHANGED, "sa{sv}as", [f"{SYSTEMD}.Unit", {}, []])


async def test_states_are_read_after_each_hint(bus: Bus, join: Join) -> None:
    systemd = await join_systemd(join)
    async with watching(bus) as news:
        assert await active(news) == "active"
        for state in ("deactivating", "failed", "activating"):
            await changed(systemd, state)
            assert await active(news) == state


async def test_already_subscribed_is_no_error(bus: Bus, join: Join) -> None:
    systemd = await join_systemd(join)
    systemd.refuses("Subscribe", f"{SYSTEMD}.AlreadySubscribed")
    async with watching(bus) as news:
        assert await active(news) == "active"


async def test_hints_of_others_cause_nothing(bus: Bus, join: Join) -> None:
    systemd = await join_systemd(join)
    stranger = await join(None)
    async with watching(bus) as news:
        assert await active(news) == "active"
        reads = systemd.calls.count("ListUnitsByNames")
        number = int(str(stranger.bus.unique_name).rpartition(".")[2])
        for client in range(number + 2):  # the watcher is one of them
            await stranger.signal(
                UNIT_PATH, CHANGED, "sa{sv}as", [f"{SYSTEMD}.Unit", {}, []], to=f":1.{client}"
            )
        await stranger.signal(UNIT_PATH, CHANGED, "sa{sv}as", [f"{SYSTEMD}.Unit", {}, []])

        await changed(systemd, "failed")
        assert await active(news) == "failed"
        assert systemd.calls.count("ListUnitsByNames") == reads + 1


async def test_systemd_that_leaves_the_bus_is_reported_away_once(bus: Bus, join: Join) -> None:
    systemd = await join_systemd(join)
    async with watching(bus) as news:
        assert await active(news) == "active"

        await systemd.leave()
        assert isinstance(await anext(news), HostError)
        systemd = await join_systemd(join)
        assert await active(news) == "active"


async def test_states_come_again_after_the_bus_was_killed(bus: Bus, join: Join) -> None:
    await join_systemd(join)
    async with watching(bus) as news:
        assert await active(news) == "active"

        await bus.kill()
        error = await anext(news)
        assert isinstance(error, HostError)
        assert "system bus" in str(error)

        await bus.start()
        systemd = await join_systemd(join)
        assert await active(news) == "active"
        await changed(systemd, "failed")
        assert await active(news) == "failed"


async def test_a_bus_that_hangs_is_noticed_without_any_signal(bus: Bus, join: Join) -> None:
    await join_systemd(join)
    units = SystemdUnits(bus.address, grace=GRACE, ping=GRACE)
    async with asyncio.timeout(3 * DEADLINE), aclosing(units.watch([UNIT])) as news:
        assert await active(news) == "active"
        bus.freeze()
        try:
            assert isinstance(await anext(news), HostError)
        finally:
            bus.thaw()
        assert await active(news) == "active"


async def test_a_service_that_answers_pings_stays_connected(bus: Bus, join: Join) -> None:
    systemd = await join_systemd(join)
    systemd.refuses("Ping", "org.freedesktop.DBus.Error.AccessDenied")  # an answer as well
    units = SystemdUnits(bus.address, grace=GRACE, ping=GRACE)
    async with asyncio.timeout(DEADLINE), aclosing(units.watch([UNIT])) as news:
        assert await active(news) == "active"
        waiting = asyncio.ensure_future(anext(news))
        await systemd.called("Ping", times=3)
        assert systemd.calls.count("Subscribe") == 1
        await changed(systemd, "failed")
        states = await waiting
        assert isinstance(states, tuple)
        assert states[0].active == "failed"


async def test_a_socket_that_is_missing_is_named(tmp_path: Path) -> None:
    units = SystemdUnits(f"unix:path={tmp_path}/none")
    with pytest.raises(
        HostError, match=r"org\.freedesktop\.systemd1: cannot connect to the system bus"
    ):
        await units.state(UNIT)


async def test_a_service_that_does_not_answer_is_given_up(bus: Bus, join: Join) -> None:
    systemd = await join_systemd(join)
    systemd.answers["Subscribe"] = lambda _: None
    async with reach(SYSTEMD, bus.address) as service:
        with pytest.raises(HostError, match=r"Subscribe: no answer within 0\.05 s"):
            await service.call(PATH, f"{SYSTEMD}.Manager.Subscribe", deadline=GRACE)


@pytest.mark.parametrize(
    ("signature", "body"),
    [("", []), ("s", ["?"]), ("a(ssssssouso)", [[]]), ("as", [["a"]])],
)
async def test_an_answer_of_another_shape_is_an_error(
    bus: Bus, join: Join, signature: str, body: list[object]
) -> None:
    systemd = await join_systemd(join)
    systemd.returns("ListUnitsByNames", signature, body)
    with pytest.raises(HostError, match="ListUnitsByNames"):
        await SystemdUnits(bus.address).state(UNIT)


async def test_a_refused_call_gives_the_reason(bus: Bus, join: Join) -> None:
    systemd = await join_systemd(join)
    systemd.refuses("StartUnit", "org.freedesktop.DBus.Error.AccessDenied", "not you")
    with pytest.raises(HostError, match=r"StartUnit: not you .*AccessDenied"):
        await SystemdUnits(bus.address).start(UNIT)


def job_removed(result: str, job: str = JOB) -> tuple[str, str, str, list[object]]:
    return PATH, f"{SYSTEMD}.Manager.JobRemoved", "uoss", [1, job, UNIT, result]


async def test_a_job_is_waited_for_even_if_it_ends_before_the_answer(bus: Bus, join: Join) -> None:
    systemd = await join_systemd(join)
    pending: list[asyncio.Task[None]] = []

    def start(call: Message) -> Message:
        pending.append(asyncio.ensure_future(systemd.signal(*job_removed("done"))))
        return Message.new_method_return(call, "o", [JOB])

    systemd.answers["StartUnit"] = start
    async with asyncio.timeout(DEADLINE):
        await SystemdUnits(bus.address).start(UNIT)
    await asyncio.gather(*pending)


@pytest.mark.parametrize("result", ["failed", "canceled", "timeout", "dependency", "skipped"])
async def test_a_job_that_is_not_done_is_an_error(bus: Bus, join: Join, result: str) -> None:
    systemd = await join_systemd(join)
    stranger = await join(None)
    restart = asyncio.create_task(SystemdUnits(bus.address).restart(UNIT))
    await systemd.called("TryRestartUnit")
    # Neither another job's end nor a stranger's word counts.
    await systemd.signal(*job_removed("done", f"{JOB}1"))
    number = int(str(stranger.bus.unique_name).rpartition(".")[2])
    for client in range(number + 2):
        await stranger.signal(*job_removed("done"), to=f":1.{client}")
    await stranger.bus.introspect("org.freedesktop.DBus", "/org/freedesktop/DBus")  # all is sent

    await systemd.signal(*job_removed(result))

    with pytest.raises(HostError, match=f"ended with {result}"):
        async with asyncio.timeout(DEADLINE):
            await restart


async def test_a_job_is_not_waited_for_for_ever(bus: Bus, join: Join) -> None:
    await join_systemd(join)
    with pytest.raises(HostError, match="not done within"):
        await SystemdUnits(bus.address).start(UNIT, deadline=timedelta(milliseconds=30))


async def test_waiting_for_a_job_ends_when_systemd_restarts(bus: Bus, join: Join) -> None:
    systemd = await join_systemd(join)
    start = asyncio.create_task(SystemdUnits(bus.address).start(UNIT))
    async with asyncio.timeout(DEADLINE):
        await systemd.called("StartUnit")
        await systemd.leave()
        with pytest.raises(HostError, match="left the bus"):
            await start


async def test_a_hostile_name_is_not_sent(bus: Bus, join: Join) -> None:
    systemd = await join_systemd(join)
    with pytest.raises(UnitNameError):
        await SystemdUnits(bus.address).begin("../../reboot.target")
    assert systemd.calls == []


# -- logind ------------------------------------------------------------------------------------


class Logind:
    """A logind that gives inhibitors and records which are still held."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self._readers: list[int] = []
        peer.answers["Inhibit"] = self._inhibit
        self.requests: list[object] = []

    def _inhibit(self, call: Message) -> Message:
        self.requests.append(call.body)
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self._readers.append(reader)
        asyncio.get_running_loop().call_later(1, os.close, writer)  # once it was sent
        return Message.new_method_return(call, "h", [0], [writer])

    def preparing(self, value: bool) -> None:
        self.peer.returns("Get", "v", [Variant("b", value)])

    async def prepare(self, value: bool) -> None:
        self.preparing(value)
        signal = f"{LOGIND}.Manager.PrepareForShutdown"
        await self.peer.signal(LOGIND_PATH, signal, "b", [value])

    async def until_let_go(self, number: int) -> None:
        """Wait until the inhibitor of that number is closed."""
        loop, gone = asyncio.get_running_loop(), asyncio.Event()
        reader = self._readers[number]
        loop.add_reader(reader, gone.set)
        async with asyncio.timeout(DEADLINE):
            await gone.wait()
        loop.remove_reader(reader)
        assert os.read(reader, 1) == b""

    def close(self) -> None:
        for reader in self._readers:
            os.close(reader)


async def join_logind(join: Join) -> Logind:
    logind = Logind(await join(None))
    logind.preparing(False)
    await logind.peer.bus.request_name(LOGIND)
    return logind


async def test_an_inhibitor_is_held_until_it_is_left(bus: Bus, join: Join) -> None:
    logind = await join_logind(join)
    async with LogindShutdown(bus.address).delay(who="us", why="because"):
        assert logind.requests == [["shutdown", "us", "because", "delay"]]  # once, and not sleep
    await logind.until_let_go(0)
    logind.close()


async def test_an_inhibitor_is_taken_from_a_new_logind_before_the_old_is_let_go(
    bus: Bus, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "hypercobalt.adapters.host.shutdown.FIRST_RETRY", timedelta(milliseconds=10)
    )
    old = await join_logind(join)
    async with LogindShutdown(bus.address).delay(who="us", why="because"):
        await old.peer.leave()
        new = await join_logind(join)
        await old.until_let_go(0)
        assert new.requests
    await new.until_let_go(0)
    old.close()
    new.close()


async def test_an_inhibitor_that_cannot_be_had_is_an_error(bus: Bus, join: Join) -> None:
    shutdown = LogindShutdown(bus.address)
    with pytest.raises(HostError, match="login1"):
        async with shutdown.delay(who="us", why="because"):
            pytest.fail("entered")

    logind = await join(LOGIND)
    logind.refuses("Inhibit", "org.freedesktop.login1.OperationInProgress", "too late")
    with pytest.raises(HostError, match="too late"):
        async with shutdown.delay(who="us", why="because"):
            pytest.fail("entered")
    logind.returns("Inhibit", "s", ["no descriptor"])
    with pytest.raises(HostError, match="no file descriptor"):
        async with shutdown.delay(who="us", why="because"):
            pytest.fail("entered")


async def test_preparations_follow_the_property_of_logind_and_not_the_signal(
    bus: Bus, join: Join
) -> None:
    logind = await join_logind(join)
    async with (
        asyncio.timeout(DEADLINE),
        aclosing(LogindShutdown(bus.address).preparations()) as preparations,
    ):
        assert await anext(preparations) is False
        beginning = asyncio.ensure_future(anext(preparations))
        await logind.peer.called("Get")
        signal = f"{LOGIND}.Manager.PrepareForShutdown"
        await logind.peer.signal(LOGIND_PATH, signal, "b", [True])  # but the property is false
        await logind.peer.called("Get", 2)
        assert not beginning.done()

        await logind.prepare(True)
        assert await beginning is True
        await logind.prepare(False)
        assert await anext(preparations) is False


async def test_a_shutdown_under_way_is_seen_at_once(bus: Bus, join: Join) -> None:
    logind = await join_logind(join)
    logind.preparing(True)
    async with (
        asyncio.timeout(DEADLINE),
        aclosing(LogindShutdown(bus.address).preparations()) as preparations,
    ):
        assert await anext(preparations) is True


@pytest.mark.parametrize(
    ("value", "limit"),
    [
        (Variant("t", 5_000_000), timedelta(seconds=5)),
        (Variant("t", 2**64 - 1), timedelta(days=1)),  # infinity
    ],
)
async def test_inhibitor_limit_is_that_of_logind(
    bus: Bus, join: Join, value: Variant, limit: timedelta
) -> None:
    logind = await join(LOGIND)
    logind.returns("Get", "v", [value])
    assert await LogindShutdown(bus.address).limit() == limit

    logind.returns("Get", "v", [Variant("s", "long")])
    with pytest.raises(HostError, match="InhibitDelayMaxUSec"):
        await LogindShutdown(bus.address).limit()


# -- hostnamed ---------------------------------------------------------------------------------


async def described(bus: Bus, root: Path) -> OperatingSystem:
    system = HostSystem(bus.address, root=root)
    async with asyncio.timeout(DEADLINE), aclosing(system.watch()) as states:
        return await anext(states)


async def test_hostnamed_without_describe_is_read_by_properties(
    bus: Bus, join: Join, tmp_path: Path
) -> None:
    hostnamed = await join(HOSTNAMED)
    properties = {"HardwareModel": Variant("s", "M1"), "FirmwareDate": Variant("t", 1_700_000_000)}
    hostnamed.returns("GetAll", "a{sv}", [properties])

    found = await described(bus, tmp_path)

    assert found.hardware_model == "M1"
    assert hostnamed.calls == ["Describe", "GetAll"]


@pytest.mark.parametrize("answer", ['"text"', "[]", "{", '{"HardwareModel": {}}', "\x00"])
async def test_a_description_that_makes_no_sense_leaves_the_rest(
    bus: Bus, join: Join, tmp_path: Path, answer: str
) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text("PRETTY_NAME='An OS'")
    hostnamed = await join(HOSTNAMED)
    hostnamed.returns("Describe", "s", [answer.replace("\x00", "\ufffd")])

    found = await described(bus, tmp_path)

    assert (found.pretty_version, found.hardware_model) == ("An OS", "")


async def test_a_host_without_logind_is_logged_once(
    bus: Bus, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("hypercobalt.adapters.host.shutdown.FIRST_RETRY", timedelta(milliseconds=1))
    async with aclosing(LogindShutdown(bus.address).preparations()) as preparations:
        attempts = asyncio.create_task(anext(preparations))
        async with asyncio.timeout(20):
            while not caplog.records:
                await asyncio.wait([attempts], timeout=0.1)
        await asyncio.wait([attempts], timeout=0.3)  # some eight attempts more
        attempts.cancel()
        await asyncio.wait([attempts])

    assert [record.getMessage().split()[0] for record in caplog.records] == [
        "reconnecting_to_logind"
    ]
