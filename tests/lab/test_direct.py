"""Moves without OpenStack, between real hosts: from libvirt to libvirt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from hypercobalt.lab.lab import Lab
from tests.contracts.direct import CONTRACTS, A, B, World, ended, named
from tests.lab.conftest import TakeFleet
from tests.lab.kit.direct import LabWorld

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.__name__)
async def test_direct_adapter_keeps_the_contract(
    fleet: TakeFleet, switched: Lab, contract: Callable[[World], Awaitable[None]]
) -> None:
    await contract(LabWorld(await fleet(2), switched))


async def test_disk_and_network_are_whole_after_a_move(fleet: TakeFleet, switched: Lab) -> None:
    world = LabWorld(await fleet(2), switched)
    await world.add("a", disk="local")
    written = await world.vms.order("a", "write-disk 4")

    async with world.service() as service:
        server = await named(service, A, "a")
        await service.moves.live_migrate(server, B)
        await ended(service, server)

    assert await world.vms.order("a", "read-disk 4") == written
    assert await world.bound_to("a") == (B,)
