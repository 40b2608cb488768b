"""What a host has of its pods, where systemd reports late or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from tests.unit.lab.pods.running.objects import SETTINGS, UID

from hypercobalt.adapters.host.fake_transient import FakeTransientUnits
from hypercobalt.adapters.host.port import HostError
from hypercobalt.adapters.host.transient_model import TransientUnit, UnitRun
from hypercobalt.adapters.network.addressing import PodRange
from hypercobalt.adapters.network.fake import FakePodNetworks
from hypercobalt.adapters.network.model import NetworkError
from hypercobalt.lab.pods.running.directories import PodDirectories
from hypercobalt.lab.pods.running.host import PodHost
from hypercobalt.lab.pods.running.unit import PREFIX, unit_name

UNIT = TransientUnit(name=unit_name(UID), command=("/bin/true",))


class LateUnits(FakeTransientUnits):
    """A systemd whose watch of all pods shows nothing but what was there when it began."""

    async def watch(self, prefix: str) -> AsyncGenerator[tuple[UnitRun, ...] | HostError]:
        async for now in super().watch(prefix):
            yield now
            if prefix == PREFIX:
                await asyncio.Event().wait()


@asynccontextmanager
async def following(units: LateUnits, directory: Path) -> AsyncIterator[PodHost]:
    directories = PodDirectories(directory, directory / "images")
    networks = FakePodNetworks(PodRange(IPv4Network(SETTINGS.network)))
    host = PodHost(units, networks, directories, SETTINGS, lambda _: None)
    stop = asyncio.Event()
    task = asyncio.create_task(host.follow(stop))
    try:
        assert await host.run_of(UID) is None  # the watch has begun
        volume = directory / "pods" / UID / "volumes/kubernetes.io~empty-dir/sockets"
        volume.mkdir(parents=True)
        (volume / "launcher-sock").touch()  # so the launcher has begun
        yield host
    finally:
        stop.set()
        await task


async def test_pod_whose_unit_the_watch_does_not_show_yet_is_not_lost(tmp_path: Path) -> None:
    units = LateUnits()
    async with following(units, tmp_path) as host:
        await units.start(UNIT)
        run = await host.run_of(UID)
        assert run is not None
        assert not run.over


async def test_pod_is_lost_once_systemd_has_no_unit_of_it(tmp_path: Path) -> None:
    async with following(LateUnits(), tmp_path) as host:
        assert await host.run_of(UID) is None


async def test_pod_is_not_lost_while_systemd_cannot_be_asked(tmp_path: Path) -> None:
    units = LateUnits()
    async with following(units, tmp_path) as host:
        units.leave()
        with pytest.raises(HostError):
            await host.run_of(UID)


async def test_pods_are_followed_though_their_networks_cannot_be_read_at_first(
    tmp_path: Path,
) -> None:
    units, changed = FakeTransientUnits(), asyncio.Queue[str]()
    networks = FakePodNetworks(PodRange(IPv4Network(SETTINGS.network)))
    networks.error = NetworkError("ip: no answer")
    directories = PodDirectories(tmp_path, tmp_path / "images")
    host = PodHost(units, networks, directories, SETTINGS, changed.put_nowait)
    stop = asyncio.Event()
    task = asyncio.create_task(host.follow(stop))
    try:
        assert await host.run_of(UID) is None
        await units.start(UNIT)
        assert await changed.get() == UID
        units.end(UNIT.name, exit_code=1)
        assert await changed.get() == UID
        networks.error = None
        assert await changed.get() == UID  # all that there are, late
    finally:
        stop.set()
        await task


async def test_host_whose_units_cannot_be_followed_is_not_served_on(tmp_path: Path) -> None:
    class BrokenUnits(FakeTransientUnits):
        async def watch(self, prefix: str) -> AsyncGenerator[tuple[UnitRun, ...] | HostError]:
            async for _ in super().watch(prefix):
                raise ValueError("a fault of the adapter")
            yield ()

    networks = FakePodNetworks(PodRange(IPv4Network(SETTINGS.network)))
    directories = PodDirectories(tmp_path, tmp_path / "images")
    host = PodHost(BrokenUnits(), networks, directories, SETTINGS, lambda _: None)
    with pytest.raises(ExceptionGroup, match="unhandled errors") as raised:
        await host.follow(asyncio.Event())
    assert "a fault of the adapter" in str(raised.value.exceptions)
