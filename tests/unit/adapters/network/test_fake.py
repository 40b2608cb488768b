"""The fakes of networks keep the contracts that the kernel keeps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.contracts.networks import GUEST_NICS, MASQUERADE, POD_NETWORKS, RANGE, PodWorld

from hypercobalt.adapters.network.bridging import PodIdentity
from hypercobalt.adapters.network.fake import FakeGuestNics, FakePodNetworks
from hypercobalt.adapters.network.model import NetworkError
from hypercobalt.adapters.network.port import GuestNics, PodNetworks


class PodInMemory(PodWorld):
    def __init__(self) -> None:
        self.fake = FakeGuestNics()
        super().__init__(self.fake)
        self._made = 0

    async def bare(self) -> Path:
        return Path("/run/netns/bare")

    async def pod(self) -> Path:
        self._made += 1
        path = Path(f"/run/netns/{self._made}")
        self.fake.pods[path] = PodIdentity(self.ADDRESS, self.MAC, self.MTU, self.GATEWAY)
        return path

    def restarted(self) -> GuestNics:
        return self.fake


@pytest.mark.parametrize("contract", POD_NETWORKS, ids=lambda contract: contract.__name__)
async def test_fake_pod_networks_keep_the_contract(
    contract: Callable[[PodNetworks], Awaitable[None]],
) -> None:
    await contract(FakePodNetworks(RANGE))


@pytest.mark.parametrize("contract", GUEST_NICS, ids=lambda contract: contract.__name__)
async def test_fake_guest_nics_keep_the_contract(
    contract: Callable[[PodWorld], Awaitable[None]],
) -> None:
    await contract(PodInMemory())


async def test_fakes_raise_the_error_that_a_test_sets() -> None:
    networks, world = FakePodNetworks(RANGE), PodInMemory()
    networks.error = world.fake.error = NetworkError("no")
    for attempt in (networks.attach, networks.find, networks.detach):
        with pytest.raises(NetworkError):
            await attempt("a")
    with pytest.raises(NetworkError):
        await networks.uids()
    with pytest.raises(NetworkError):
        await world.nics.connect(await world.pod(), MASQUERADE)
