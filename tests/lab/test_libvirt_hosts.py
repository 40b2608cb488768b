"""The libvirt of real hosts over TCP, through their power and their services."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from time import monotonic

import pytest
import trustme

from hypercobalt.adapters.libvirt.connection import connect
from hypercobalt.adapters.libvirt.events import Disconnected
from hypercobalt.adapters.libvirt.greeting import greet
from hypercobalt.lab.host import Host
from tests.integration.libvirt.contract import Listener, listening
from tests.lab.conftest import TakeHosts
from tests.lab.kit.tls import client_files, serve_tls

pytestmark = pytest.mark.timeout(180)


def uri_of(host: Host) -> str:
    return f"qemu+tcp://{host.address}/system"


async def disconnected(listener: Listener) -> Disconnected:
    while not isinstance(event := await listener.next(), Disconnected):
        pass
    return event


@pytest.mark.timed
async def test_a_frozen_host_is_noticed_within_a_second_and_so_is_its_return(
    hosts: TakeHosts,
) -> None:
    (host,) = await hosts(1)
    async with connect(uri_of(host)) as subject, listening(subject) as listener:
        frozen = monotonic()
        await host.freeze()
        await disconnected(listener)
        assert monotonic() - frozen < 0.95

        thawed = monotonic()
        await host.thaw()
        await listener.connected()
        assert monotonic() - thawed < 0.95


@pytest.mark.timed
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "restarted"])
async def test_libvirtd_comes_back_by_its_unit(hosts: TakeHosts, how: signal.Signals) -> None:
    (host,) = await hosts(1)
    async with connect(uri_of(host)) as subject, listening(subject) as listener:
        if how is signal.SIGKILL:
            await host.run("systemctl", "kill", "-s", "KILL", "libvirtd.service")
        else:
            await host.run("systemctl", "restart", "libvirtd.service")
        lost = monotonic()
        await disconnected(listener)
        assert monotonic() - lost < 0.95
        await listener.connected()

        assert await subject.domains() == ()


@pytest.mark.timed
async def test_a_host_whose_power_was_cut_is_connected_to_when_it_is_up_again(
    hosts: TakeHosts,
) -> None:
    (host,) = await hosts(1)
    async with connect(uri_of(host)) as subject, listening(subject) as listener:
        await host.crash()
        cut = monotonic()
        await disconnected(listener)
        assert monotonic() - cut < 0.95
        await hosts(1)
        await listener.connected()

        assert (await subject.capabilities()).arch


async def test_tls_accepts_the_right_and_refuses_a_foreign_certificate(
    hosts: TakeHosts, tmp_path: Path
) -> None:
    (host,) = await hosts(1)
    ours, strange = trustme.CA(), trustme.CA()
    await serve_tls(host, ours)
    uri = f"qemu+tls://{host.address}/system?pkipath="

    files = client_files(tmp_path, ours)
    async with connect(f"{uri}{files}") as subject, listening(subject):
        assert await subject.domains() == ()

    files = client_files(tmp_path, strange)
    async with connect(f"{uri}{files}") as subject:
        listener = Listener(events := subject.events())
        assert "certificate" in (await disconnected(listener)).reason
        await events.aclose()
    await host.crash()  # the next test gets a fresh one


async def test_only_a_host_whose_programs_run_answers(hosts: TakeHosts) -> None:
    async def answers(host: Host) -> bool:
        try:
            async with asyncio.timeout(3):
                await greet(host.address, 16509, tls=False)
        except (OSError, EOFError):
            return False
        return True

    frozen, crashed = await hosts(2)
    assert await answers(frozen)
    assert await answers(crashed)

    await asyncio.gather(frozen.freeze(), crashed.crash())
    _, writer = await asyncio.open_connection(frozen.address, 16509)  # by its kernel
    writer.close()
    assert not await answers(frozen)
    assert not await answers(crashed)

    await frozen.thaw()
    assert await answers(frozen)
