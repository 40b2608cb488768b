"""A connection on demand is closed when it is not used, and opened again when it broke."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.unit.adapters.libvirt.made_up import MadeUpDaemon, error, made_up

from hypercobalt.adapters.libvirt.on_demand import OnDemandConnection
from hypercobalt.adapters.libvirt.per_subject import MOST
from hypercobalt.adapters.libvirt.port import DomainHungError, LibvirtError, LibvirtRefusedError
from hypercobalt.adapters.libvirt.rpc import protocol
from hypercobalt.adapters.libvirt.rpc.client import Client
from hypercobalt.adapters.libvirt.rpc.numbers import ErrorCode
from hypercobalt.adapters.libvirt.rpc.protocol import Version, Void

SECONDS, BRIEF, IDLE = 5.0, 0.05, 0.05
NINE = Version(9_000_000)


@pytest.fixture
async def daemon() -> AsyncIterator[MadeUpDaemon]:
    async with made_up() as daemon:
        daemon.answers[protocol.GET_LIB_VERSION.number] = NINE
        yield daemon


async def version(client: Client) -> Version:
    return await client.call(protocol.GET_LIB_VERSION, Void())


async def test_calls_share_a_connection_that_is_closed_after_them(daemon: MadeUpDaemon) -> None:
    on_demand = OnDemandConnection(daemon.uri, idle=IDLE)
    calls = (on_demand.run("version", version, SECONDS) for _ in range(3))
    assert await asyncio.gather(*calls) == [NINE] * 3
    assert daemon.connections == 1
    await daemon.until(lambda: daemon.open == 0)

    assert await on_demand.run("version", version, SECONDS) == NINE
    assert daemon.connections == 2
    on_demand.close()
    await daemon.until(lambda: daemon.open == 0)


async def test_a_connection_stays_while_a_call_is_under_way(daemon: MadeUpDaemon) -> None:
    del daemon.answers[protocol.GET_LIB_VERSION.number]
    on_demand = OnDemandConnection(daemon.uri, idle=0)
    long = asyncio.create_task(on_demand.run("long", version, SECONDS))
    await daemon.until(lambda: bool(daemon.of(protocol.GET_LIB_VERSION)))
    with pytest.raises(LibvirtError, match=r"short: libvirt did not answer within 0\.05 s"):
        await on_demand.run("short", version, BRIEF)

    daemon.answer(daemon.of(protocol.GET_LIB_VERSION)[0], NINE)
    assert await long == NINE
    await daemon.until(lambda: daemon.open == 0)


async def test_a_daemon_that_is_silent_from_the_start_ends_the_call_at_its_deadline(
    daemon: MadeUpDaemon,
) -> None:
    del daemon.answers[protocol.AUTH_LIST.number]
    on_demand = OnDemandConnection(daemon.uri)
    with pytest.raises(LibvirtError, match=r"version: libvirt did not answer within 0\.05 s"):
        await on_demand.run("version", version, BRIEF)

    await daemon.until(lambda: daemon.open == 0)
    on_demand.close()


async def test_a_refusal_keeps_the_connection(daemon: MadeUpDaemon) -> None:
    on_demand = OnDemandConnection(daemon.uri)
    daemon.answers[protocol.GET_LIB_VERSION.number] = error(ErrorCode.SYSTEM_ERROR, "not now")
    with pytest.raises(LibvirtRefusedError, match=r"^version: not now$"):
        await on_demand.run("version", version, SECONDS)

    daemon.answers[protocol.GET_LIB_VERSION.number] = NINE
    assert await on_demand.run("version", version, SECONDS) == NINE
    assert daemon.connections == 1
    on_demand.close()


async def test_a_connection_that_broke_is_opened_again(daemon: MadeUpDaemon) -> None:
    del daemon.answers[protocol.GET_LIB_VERSION.number]
    on_demand = OnDemandConnection(daemon.uri)
    call = asyncio.create_task(on_demand.run("version", version, SECONDS))
    await daemon.until(lambda: bool(daemon.of(protocol.GET_LIB_VERSION)))
    daemon.hang_up()
    with pytest.raises(LibvirtError, match="version: libvirt closed the connection") as broken:
        await call
    assert not isinstance(broken.value, LibvirtRefusedError)

    daemon.answers[protocol.GET_LIB_VERSION.number] = NINE
    assert await on_demand.run("version", version, SECONDS) == NINE
    on_demand.close()


async def test_calls_that_hang_leave_room_for_those_about_other_subjects(
    daemon: MadeUpDaemon,
) -> None:
    del daemon.answers[protocol.GET_LIB_VERSION.number]
    on_demand = OnDemandConnection(daemon.uri, most=2 * MOST)
    for number in range(2 * MOST):
        with pytest.raises(DomainHungError):
            await on_demand.run("hung", version, BRIEF, subject=str(number))
    assert daemon.connections == 2, "each takes as many as the daemon serves"
    with pytest.raises(LibvirtError, match=r"6 calls about other domains hang"):
        await on_demand.run("one more", version, BRIEF, subject="more")

    daemon.answers[protocol.GET_LIB_VERSION.number] = NINE
    assert await on_demand.run("version", version, SECONDS) == NINE
    assert daemon.connections == 2
    on_demand.close()
    await daemon.until(lambda: daemon.open == 0)


async def test_further_connection_is_closed_with_the_last_call_that_needed_it(
    daemon: MadeUpDaemon,
) -> None:
    del daemon.answers[protocol.GET_LIB_VERSION.number]
    on_demand = OnDemandConnection(daemon.uri, most=2 * MOST)
    for number in range(MOST):
        with pytest.raises(DomainHungError):
            await on_demand.run("hung", version, BRIEF, subject=str(number))
    daemon.answers[protocol.GET_LIB_VERSION.number] = NINE
    assert await on_demand.run("version", version, SECONDS, subject="well") == NINE
    await daemon.until(lambda: daemon.open == 1)
    assert daemon.connections == 2
    on_demand.close()
