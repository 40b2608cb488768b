"""A host that is cut off ends its own guests, and one that is not never does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from hypercobalt.adapters.host.fake import FakePods
from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.adapters.libvirt.port import LibvirtError
from hypercobalt.api.kubevirt.names import LAUNCHER_MODULE
from hypercobalt.node_agent.fencing.guests import AllGuests, Ended
from hypercobalt.node_agent.fencing.self_fencing import Outside, SelfFencing
from hypercobalt.node_agent.host.launchers import PodLaunchers
from hypercobalt.node_agent.status.parts import Board
from hypercobalt.runtime import FakeClock

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

WINDOW = timedelta(seconds=60)


@dataclass
class Watchdog:
    fed: int = 0
    disarmed: bool = False

    def feed(self) -> None:
        self.fed += 1

    def disarm(self) -> None:
        self.disarmed = True


@dataclass
class Site:
    """A host with one guest, its witness and its storage."""

    libvirt: FakeLibvirt
    board: Board
    pods: FakePods = field(default_factory=FakePods)
    api: bool = True
    witness: bool = True
    storage: bool = True
    probes: int = 0
    renewals: int = 0
    watchdog: Watchdog = field(default_factory=Watchdog)

    async def renew(self) -> None:
        while True:
            self.renewals += self.api
            await asyncio.sleep(10)

    async def probe_witness(self) -> bool:
        self.probes += 1
        return self.witness

    async def probe_storage(self) -> bool:
        return self.storage

    def cut(self, *names: str) -> None:
        for name in names:
            setattr(self, name, False)

    @property
    def runs(self) -> bool:
        return self.libvirt.here["a"].active


@asynccontextmanager
async def watched() -> AsyncIterator[Site]:
    clock = FakeClock(source=asyncio.get_running_loop().time)
    made = Site(FakeLibvirt(), Board(clock))
    made.libvirt.put(Domain("a", "a", True, DomainState.RUNNING))
    outside = Outside(lambda: made.renewals, made.probe_witness, made.probe_storage)
    concern = SelfFencing(
        WINDOW,
        outside,
        AllGuests(made.libvirt, PodLaunchers(made.pods)),
        made.board,
        boot="b1",
        ended=Ended(),
        watchdog=made.watchdog,
        clock=clock,
    )
    tasks = [asyncio.create_task(made.renew()), asyncio.create_task(concern.run())]
    yield made
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert made.watchdog.disarmed


async def test_healthy_host_probes_nothing_once_all_signs_were_seen() -> None:
    async with watched() as site:
        await asyncio.sleep(3600)
        assert site.runs
        assert site.probes == 1
        assert site.watchdog.fed > 700


@pytest.mark.parametrize(
    "left", [("api",), ("witness",), ("storage",), ("api", "witness"), ("witness", "storage")]
)
async def test_a_host_that_sees_anything_keeps_its_guests(left: tuple[str, ...]) -> None:
    async with watched() as site:
        await asyncio.sleep(60)
        site.cut(*({"api", "witness", "storage"} - set(left)))
        await asyncio.sleep(3600)
        assert site.runs


async def test_a_renewal_that_comes_late_is_sign_enough() -> None:
    async with watched() as site:
        await asyncio.sleep(60)
        site.cut("api")
        await asyncio.sleep(103)
        site.renewals, probes = site.renewals + 1, site.probes
        await asyncio.sleep(5)
        assert site.probes == probes > 2
        assert site.runs


async def test_a_host_that_is_cut_off_ends_its_guests_after_the_window() -> None:
    async with watched() as site:
        await asyncio.sleep(60)
        site.cut("api", "witness", "storage")
        await asyncio.sleep(60)
        assert site.runs
        await asyncio.sleep(60)
        assert not site.runs
        stopped = site.board.parts.guests_stopped
        assert stopped is not None
        assert (stopped.bootID, stopped.startedAt, stopped.count) == ("b1", None, 1)


async def test_host_that_is_cut_off_ends_the_guests_of_launcher_pods_too() -> None:
    async with watched() as site:
        site.pods.set("p", ("python3", "-m", LAUNCHER_MODULE, "{}"))
        await asyncio.sleep(60)
        assert site.pods.killed == []
        site.cut("api", "witness", "storage")
        await asyncio.sleep(120)
        assert site.pods.killed == ["p"]
        assert site.board.parts.guests_stopped is not None
        assert site.board.parts.guests_stopped.count == 2


async def test_a_sign_within_the_window_starts_it_again() -> None:
    async with watched() as site:
        await asyncio.sleep(60)
        site.cut("api", "witness", "storage")
        await asyncio.sleep(60)
        site.witness = True
        await asyncio.sleep(6)
        site.witness = False
        await asyncio.sleep(50)
        assert site.runs
        await asyncio.sleep(30)
        assert not site.runs


async def test_a_witness_that_was_never_seen_arms_nothing() -> None:
    async with watched() as site:
        site.cut("witness")
        await asyncio.sleep(60)
        site.cut("api", "storage")
        await asyncio.sleep(3600)
        assert site.runs


async def test_the_watchdog_is_not_fed_while_guests_cannot_be_ended() -> None:
    async with watched() as site:
        await asyncio.sleep(60)
        site.libvirt.failures["domains"] = LibvirtError("no connection")
        site.cut("api", "witness", "storage")
        await asyncio.sleep(120)
        fed = site.watchdog.fed
        await asyncio.sleep(600)
        assert site.watchdog.fed == fed
        assert site.runs
