"""Changes that libvirt reports by no event: the pass every five minutes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.following import background

from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Domain, DomainState, HostCell
from hypercobalt.adapters.libvirt.port import LibvirtError
from hypercobalt.adapters.libvirt.vocabulary import Lifecycle
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.node_agent.libvirt.state import RESYNC, LibvirtState
from hypercobalt.node_agent.status.parts import Board, Inventory
from hypercobalt.runtime import FakeClock

pytestmark = pytest.mark.looptime

GIB = 1024**3
MINUTE = 60.0
READ = 1.0  # far more than a pass takes here
RETRIED = 10.0  # the longest wait for another attempt
FULL = RESYNC.total_seconds()


class Host:
    """A libvirt, and the agent's view of it."""

    def __init__(self) -> None:
        self.libvirt, self.board = FakeLibvirt(), Board(FakeClock())
        for uuid in ("a", "b"):
            self.libvirt.put(Domain(uuid, uuid, True, DomainState.RUNNING, GIB, 1))

    @property
    def inventory(self) -> Inventory:
        assert self.board.parts.inventory is not None
        return self.board.parts.inventory

    def gain_memory(self) -> None:
        cell = HostCell(0, 16 * GIB, frozenset(range(4)), 4)
        self.libvirt.host = replace(self.libvirt.host, cells=(cell,))

    @property
    def connection(self) -> str:
        report = self.board.parts.conditions[HypervisorConditionType.LIBVIRT_CONNECTION]
        assert report is not None
        return report.status

    @property
    def known_memory(self) -> int:
        return self.inventory.host.memory_bytes


@asynccontextmanager
async def running() -> AsyncGenerator[Host]:
    made = Host()
    async with background(LibvirtState(made.libvirt, made.board).run):
        await asyncio.sleep(READ)
        yield made


def lose_a_domain(host: Host) -> None:
    host.libvirt.forget("a")


def grow_a_domain(host: Host) -> None:
    host.libvirt.put(Domain("a", "a", True, DomainState.RUNNING, 2 * GIB, 1))


def stop_a_domain(host: Host) -> None:
    host.libvirt.put(Domain("a", "a", False, DomainState.SHUTOFF, GIB, 1))


def gain_memory(host: Host) -> None:
    host.gain_memory()


def gain_a_device(host: Host) -> None:
    host.libvirt.offers = replace(host.libvirt.offers, devices=("rng",))


@pytest.mark.parametrize(
    "change", [lose_a_domain, grow_a_domain, stop_a_domain, gain_memory, gain_a_device]
)
async def test_a_change_without_event_is_seen_within_five_minutes(
    change: Callable[[Host], None],
) -> None:
    assert timedelta(minutes=5) == RESYNC
    async with running() as host:
        before = host.inventory
        change(host)

        await asyncio.sleep(FULL - 2 * READ)
        assert host.inventory == before

        await asyncio.sleep(2 * READ)
        domains = await host.libvirt.domains()
        now = Inventory(before.versions, host.libvirt.host, host.libvirt.offers, domains)
        assert host.inventory == now != before


async def test_a_host_whose_domains_come_and_go_is_still_read_whole() -> None:
    async with running() as host:
        host.gain_memory()

        for _ in range(int(FULL / MINUTE)):
            assert host.known_memory == 8 * GIB
            host.libvirt.lifecycle("b", Lifecycle.STARTED)
            await asyncio.sleep(MINUTE)

        assert host.known_memory == 16 * GIB


async def test_an_idle_host_is_read_once_in_five_minutes() -> None:
    async with running() as host:
        before = host.libvirt.calls.copy()

        await asyncio.sleep(10 * FULL)

        made = host.libvirt.calls - before
    assert made == {"domains": 10, "capabilities": 10, "domain_capabilities": 10}


async def test_a_pass_that_fails_is_made_up_for() -> None:
    async with running() as host:
        host.libvirt.failures["capabilities"] = LibvirtError("cannot")
        host.gain_memory()
        await asyncio.sleep(FULL)
        assert host.known_memory == 8 * GIB

        del host.libvirt.failures["capabilities"]
        await asyncio.sleep(RETRIED)

        assert host.known_memory == 16 * GIB


async def test_all_domains_are_read_after_an_absence_longer_than_a_pass() -> None:
    async with running() as host:
        host.libvirt.disconnect()
        await asyncio.sleep(3 * FULL)
        host.gain_memory()
        host.libvirt.connect()

        await asyncio.sleep(READ)
        assert host.known_memory == 16 * GIB
        lose_a_domain(host)
        await asyncio.sleep(FULL)
        assert [domain.uuid for domain in host.inventory.domains] == ["b"]


async def test_connection_is_shown_once_the_domains_were_read_by_it() -> None:
    """What has come while libvirt was away is not in the list from before."""
    async with running() as host:
        host.libvirt.disconnect()
        await asyncio.sleep(READ)
        assert host.connection == "False"
        host.libvirt.delays["domains"] = MINUTE
        host.libvirt.put(Domain("c", "c", True, DomainState.RUNNING, GIB, 1))
        host.libvirt.connect()

        await asyncio.sleep(MINUTE / 2)
        assert len(host.inventory.domains) == 2
        assert host.connection == "False"

        await asyncio.sleep(MINUTE)
        assert len(host.inventory.domains) == 3
        assert host.connection == "True"
