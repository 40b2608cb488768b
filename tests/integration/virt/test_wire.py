"""Handler and launcher over a real Unix socket, with peers that are broken or slow."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hypercobalt.errors import TerminalError, TransientError
from hypercobalt.virt.wire import client, server
from hypercobalt.virt.wire.client import LauncherError, LauncherRefusedError, connect
from hypercobalt.virt.wire.frames import LONGEST, frame, read_frame
from hypercobalt.virt.wire.messages import (
    AnyCall,
    DomainReport,
    GetDomain,
    Kill,
    Pause,
    Ping,
    Reset,
    Sync,
    decode_from_launcher,
)
from hypercobalt.virt.wire.server import LauncherServer
from hypercobalt.vmi.phases import LifeCycle

ME = os.getuid()
RUNNING, PAUSED = DomainReport(LifeCycle.RUNNING), DomainReport(LifeCycle.PAUSED)
BOUND = 10.0


class Launcher:
    """Answers calls as the test has set it."""

    def __init__(self) -> None:
        self.calls: list[AnyCall] = []
        self.go_on = asyncio.Event()

    async def answer(self, call: AnyCall) -> DomainReport | None:
        self.calls.append(call)
        match call:
            case Sync():
                await self.go_on.wait()
                return RUNNING
            case Pause():
                raise TerminalError("spec.x: cannot be", reason="Invalid")
            case Kill():
                raise TransientError("libvirt is not connected")
            case GetDomain():
                return PAUSED
            case Reset():
                raise ValueError("a fault of ours")
            case _:
                return None


class Site:
    """A launcher's server in a directory."""

    def __init__(self, path: Path, launcher: Launcher, served: LauncherServer) -> None:
        self.path, self.launcher, self.served = path, launcher, served


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    launcher = Launcher()
    served = LauncherServer(launcher.answer, peers=(ME,), patience=0.2)
    async with served.serve(tmp_path / "sock"):
        yield Site(tmp_path / "sock", launcher, served)


async def test_present_state_comes_first_and_then_each_change(site: Site) -> None:
    site.served.report(RUNNING)
    async with asyncio.timeout(BOUND), connect(site.path, uid=ME) as launcher:
        reports = launcher.reports()
        assert await anext(reports) == RUNNING
        site.served.report(RUNNING)
        site.served.report(PAUSED)
        assert await anext(reports) == PAUSED
        assert launcher.peer == (os.getpid(), ME, os.getgid())


async def test_calls_are_answered_while_another_is_under_way(site: Site) -> None:
    async with asyncio.timeout(BOUND), connect(site.path, uid=ME) as launcher:
        sync = asyncio.create_task(launcher.call(Sync(msgspec.Raw(b"{}")), deadline=BOUND))
        assert await launcher.call(Ping(), deadline=BOUND) is None
        assert await launcher.call(GetDomain(), deadline=BOUND) == PAUSED
        site.launcher.go_on.set()
        assert await sync == RUNNING


async def test_errors_show_whether_a_repetition_can_help(site: Site) -> None:
    async with connect(site.path, uid=ME) as launcher:
        with pytest.raises(LauncherRefusedError, match=r"Pause: spec\.x: cannot be"):
            await launcher.call(Pause(), deadline=BOUND)
        with pytest.raises(LauncherError, match="Kill: libvirt is not connected"):
            await launcher.call(Kill(), deadline=BOUND)
        with pytest.raises(LauncherError, match="Reset: the launcher: ValueError"):
            await launcher.call(Reset(), deadline=BOUND)
        with pytest.raises(LauncherError, match=r"Sync: no answer within 0\.01 s"):
            await launcher.call(Sync(msgspec.Raw(b"{}")), deadline=0.01)
        huge = Sync(msgspec.Raw(msgspec.json.encode("x" * LONGEST)))
        with pytest.raises(LauncherError, match="Sync: a frame of"):
            await launcher.call(huge, deadline=BOUND)
        assert await launcher.call(Ping(), deadline=BOUND) is None


async def test_call_goes_on_when_its_handler_is_gone(site: Site) -> None:
    async with connect(site.path, uid=ME) as launcher:
        with pytest.raises(LauncherError):
            await launcher.call(Sync(msgspec.Raw(b"{}")), deadline=0.01)
    async with asyncio.timeout(BOUND), connect(site.path, uid=ME) as launcher:
        reports = launcher.reports()
        await anext(reports)
        site.launcher.go_on.set()
        assert await launcher.call(Ping(), deadline=BOUND) is None


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(garbage=st.binary(min_size=1, max_size=200), framed=st.booleans())
def test_garbage_ends_its_own_connection_at_most(
    tmp_path: Path, garbage: bytes, *, framed: bool
) -> None:
    async def attack() -> None:
        served = LauncherServer(Launcher().answer, peers=(ME,), patience=0.05)
        path = tmp_path / "fuzz"
        async with served.serve(path), connect(path, uid=ME) as launcher:
            _, writer = await asyncio.open_unix_connection(path)
            writer.write(frame(garbage) if framed else garbage)
            writer.write_eof()
            assert await launcher.call(GetDomain(), deadline=BOUND) == PAUSED
            writer.transport.abort()

    asyncio.run(attack())


async def test_oversized_and_unfinished_frames_end_the_connection(site: Site) -> None:
    for data in ((LONGEST + 1).to_bytes(4, "big"), b"\0\0\0\x09{", frame(b"[]")):
        reader, writer = await asyncio.open_unix_connection(site.path)
        writer.write(data)
        async with asyncio.timeout(BOUND):
            assert await read_frame(reader) is not None
            assert not await reader.read()
        writer.close()


async def test_peer_that_does_not_read_is_dropped_and_others_are_not(site: Site) -> None:
    reader, writer = await asyncio.open_unix_connection(site.path, limit=64)
    async with asyncio.timeout(BOUND), connect(site.path, uid=ME) as launcher:
        reports = launcher.reports()
        await anext(reports)
        while len(site.served._connections) == 2:
            for machine in ("a" * 100_000, "b" * 100_000):
                site.served.report(DomainReport(LifeCycle.RUNNING, machine=machine))
                assert (await anext(reports)).machine == machine
    assert reader.at_eof() is False
    writer.transport.abort()


async def test_further_connections_displace_the_oldest(site: Site) -> None:
    async with AsyncExitStack() as stack:
        found = [
            await stack.enter_async_context(connect(site.path, uid=ME))
            for _ in range(server.CONNECTIONS + 1)
        ]
        async with asyncio.timeout(BOUND):
            assert "closed" in await found[0].closed or "broke" in found[0].closed.result()
            assert await found[-1].call(GetDomain(), deadline=BOUND) == PAUSED
            assert await found[1].call(GetDomain(), deadline=BOUND) == PAUSED


async def test_only_the_users_of_the_settings_are_served(tmp_path: Path) -> None:
    served = LauncherServer(Launcher().answer, peers=(ME + 1,))
    async with served.serve(tmp_path / "sock"), connect(tmp_path / "sock", uid=ME) as launcher:
        with pytest.raises(LauncherError):
            await launcher.call(Ping(), deadline=BOUND)


async def test_socket_of_another_user_is_not_used(site: Site) -> None:
    with pytest.raises(LauncherError, match=f"opened by user {ME}, not {ME + 1}"):
        async with connect(site.path, uid=ME + 1):
            pass


async def test_socket_appears_when_it_is_served_and_goes_with_its_server(tmp_path: Path) -> None:
    path = tmp_path / "sock"
    path.write_text("left over")
    served = LauncherServer(Launcher().answer, peers=(ME,))
    async with served.serve(path):
        assert path.is_socket()
        assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(LauncherError, match="No such file"):
        async with connect(path, uid=ME):
            pass


async def test_launcher_that_sends_garbage_loses_its_handler(tmp_path: Path) -> None:
    async def launcher(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frame(b'{"type":"domain"}'))
        writer.close()

    async with (
        await asyncio.start_unix_server(launcher, tmp_path / "sock"),
        asyncio.timeout(BOUND),
        connect(tmp_path / "sock", uid=ME) as broken,
    ):
        assert "cannot be read" in await broken.closed
        assert [one async for one in broken.reports()] == []
        with pytest.raises(LauncherError):
            await broken.call(Ping(), deadline=BOUND)


async def test_unread_reports_are_bounded(site: Site) -> None:
    async with asyncio.timeout(BOUND), connect(site.path, uid=ME) as launcher:
        await launcher.call(Ping(), deadline=BOUND)
        for number in range(3 * client._KEPT):
            site.served.report(DomainReport(LifeCycle.RUNNING, machine=str(number)))
        await launcher.call(Ping(), deadline=BOUND)
        first = await anext(launcher.reports())
    assert int(first.machine) == 2 * client._KEPT


async def test_unknown_call_is_refused_and_the_connection_goes_on(site: Site) -> None:
    reader, writer = await asyncio.open_unix_connection(site.path)
    await read_frame(reader)
    for id_, call in ((5, "Migrate"), (6, "Ping")):
        writer.write(frame(msgspec.json.encode({"id": id_, "call": {"call": call}})))
        reply = decode_from_launcher(await read_frame(reader) or b"")
        assert getattr(reply, "id", None) == id_
        assert getattr(reply, "problem", None) == ("UnknownCall" if call == "Migrate" else None)
    writer.close()


async def test_reply_to_the_last_call_is_sent_before_the_socket_goes(tmp_path: Path) -> None:
    over = asyncio.Event()

    async def answer(_: AnyCall) -> DomainReport | None:
        over.set()
        await asyncio.sleep(0.01)
        return PAUSED

    served = LauncherServer(answer, peers=(ME,))
    async with AsyncExitStack() as stack:
        serving = await stack.enter_async_context(AsyncExitStack())
        await serving.enter_async_context(served.serve(tmp_path / "sock"))
        launcher = await stack.enter_async_context(connect(tmp_path / "sock", uid=ME))
        last = asyncio.create_task(launcher.call(GetDomain(), deadline=BOUND))
        async with asyncio.timeout(BOUND):
            await over.wait()
            await serving.aclose()
            assert await last == PAUSED
            assert "closed" in await launcher.closed
