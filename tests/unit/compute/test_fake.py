"""The compute service in memory keeps the contracts that Nova's adapter keeps."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest
from tests.contracts import compute as contracts
from tests.contracts.compute import Site

from hypercobalt.compute.fake.moves import FakeMoves
from hypercobalt.compute.fake.registry import FakeCompute
from hypercobalt.compute.fake.script import Script
from hypercobalt.compute.model import Server, Size

_APART = {
    # The fakes of hosts and of moves share no state.
    contracts.a_disabled_host_is_no_candidate,
    contracts.a_move_without_a_valid_host_fails_with_the_reason,
    contracts.a_test_server_is_booted_found_and_deleted,
}
NAMES = {
    contract.__name__.replace("_", " "): contract
    for contract in contracts.CONTRACTS
    if contract not in _APART
}


class FakeSite:
    """Two empty hosts in memory."""

    zone = "zone"
    hosts = ("node1", "node2")

    def __init__(self) -> None:
        self._moves = FakeMoves(dict.fromkeys(self.hosts, Size(8, 4096, 100)))
        self.service = FakeCompute(lambda: datetime.now(UTC), moves=self._moves)
        for host in self.hosts:
            self.service.world.add_host(host)

    async def boot(self, host: str) -> str:
        return self._add(host, "ACTIVE", running=True)

    async def boot_stopped(self, host: str) -> str:
        return self._add(host, "SHUTOFF", running=False)

    async def crash(self, host: str) -> None:
        self.service.world.change_host(host, up=False)

    async def restore(self, host: str) -> None:
        self._moves.clean(host)
        self.service.world.change_host(host, up=True, servers=())

    async def aggregate(self, name: str, zone: str = "") -> None:
        self.service.world.add_aggregate(name, zone=zone)

    def _add(self, host: str, status: str, *, running: bool) -> str:
        id_ = str(uuid.uuid4())
        self._moves.add(Server(id_, "server", host, status, running=running, size=Size(1, 256, 1)))
        self._moves.script(id_, Script(seconds=0.05))
        world = self.service.world
        world.change_host(host, servers=(*world.hosts[host].servers, id_))
        return id_


@pytest.mark.parametrize("contract", NAMES.values(), ids=NAMES)
async def test_fake_compute_keeps_the_contract(contract: Callable[[Site], Awaitable[None]]) -> None:
    await contract(FakeSite())
