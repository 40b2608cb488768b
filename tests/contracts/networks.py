"""What every class behind `PodNetworks` and `GuestNics` does; run on fakes and on the kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path
from uuid import uuid4

import pytest

from hypercobalt.adapters.network.addressing import PodRange
from hypercobalt.adapters.network.model import NetworkError, NetworkValueError
from hypercobalt.adapters.network.port import GuestBinding, GuestNics, PodNetworks, WantedNic

RANGE = PodRange(IPv4Network("10.98.7.0/28"), "contract", 1400)
LAUNCHER = 107
MASQUERADE = WantedNic(binding=GuestBinding.MASQUERADE, owner=LAUNCHER)
BRIDGE = WantedNic(binding=GuestBinding.BRIDGE, owner=LAUNCHER)


def some_uid() -> str:
    return str(uuid4())


async def a_pod_gets_an_address_of_the_range_and_keeps_it(networks: PodNetworks) -> None:
    uid = some_uid()
    assert await networks.find(uid) is None
    made = await networks.attach(uid)
    assert IPv4Address(made.ip) in RANGE.network
    assert IPv4Address(made.ip) != RANGE.gateway.ip
    assert await networks.attach(uid) == made
    assert await networks.find(uid) == made
    await networks.detach(uid)


async def pods_have_addresses_and_namespaces_of_their_own(networks: PodNetworks) -> None:
    uids = [some_uid() for _ in range(4)]
    made = [await networks.attach(uid) for uid in uids]
    assert len({one.ip for one in made}) == len({one.namespace for one in made}) == len(uids)
    for uid in uids:
        await networks.detach(uid)


async def what_is_there_is_listed_until_it_is_removed(networks: PodNetworks) -> None:
    first, second = some_uid(), some_uid()
    await networks.attach(first)
    await networks.attach(second)
    assert {first, second} <= await networks.uids()
    await networks.detach(first)
    assert first not in await networks.uids()
    assert await networks.find(first) is None
    await networks.detach(first)
    await networks.detach(second)
    assert not {first, second} & await networks.uids()


async def a_range_that_is_full_gives_no_address_until_a_pod_is_removed(
    networks: PodNetworks,
) -> None:
    uids = [some_uid() for _ in range(RANGE.network.num_addresses - 3)]
    for uid in uids:
        await networks.attach(uid)
    late = some_uid()
    with pytest.raises(NetworkError, match="all 13 addresses are taken"):
        await networks.attach(late)
    await networks.detach(uids[0])
    await networks.attach(late)
    for uid in (*uids, late):
        await networks.detach(uid)


async def an_invalid_uid_is_refused(networks: PodNetworks) -> None:
    for uid in ("", "../a", "a b", "-a", "a" * 64):
        for attempt in (networks.attach, networks.find, networks.detach):
            with pytest.raises(NetworkValueError):
                await attempt(uid)


POD_NETWORKS: tuple[Callable[[PodNetworks], Awaitable[None]], ...] = (
    a_pod_gets_an_address_of_the_range_and_keeps_it,
    pods_have_addresses_and_namespaces_of_their_own,
    what_is_there_is_listed_until_it_is_removed,
    a_range_that_is_full_gives_no_address_until_a_pod_is_removed,
    an_invalid_uid_is_refused,
)


class PodWorld(ABC):
    """A pod, with the NIC that its runtime has made."""

    ADDRESS = IPv4Interface("10.98.7.5/28")
    GATEWAY = IPv4Address("10.98.7.1")
    MTU = 1400
    MAC = "0a:00:00:00:00:05"

    def __init__(self, nics: GuestNics) -> None:
        self.nics = nics

    @abstractmethod
    async def bare(self) -> Path:
        """A namespace without eth0."""

    @abstractmethod
    async def pod(self) -> Path:
        """A namespace with eth0."""

    @abstractmethod
    def restarted(self) -> GuestNics:
        """What a new process would use."""


async def a_masqueraded_guest_has_the_private_address(world: PodWorld) -> None:
    made = await world.nics.connect(await world.pod(), MASQUERADE)
    assert (made.tap, made.bridge, made.mac, made.mtu) == ("tap0", "k6t-eth0", "", world.MTU)
    assert str(made.address) == "10.0.2.2/24"
    assert (str(made.server), str(made.gateway), made.routes) == ("10.0.2.1", "10.0.2.1", ())


async def a_bridged_guest_has_what_its_pod_had(world: PodWorld) -> None:
    made = await world.nics.connect(await world.pod(), BRIDGE)
    assert (made.tap, made.bridge, made.mac, made.mtu) == (
        *("tap0", "k6t-eth0"),
        *(world.MAC, world.MTU),
    )
    assert (made.address, made.gateway, made.routes) == (world.ADDRESS, world.GATEWAY, ())
    assert str(made.server) == "169.254.75.10"


async def connecting_again_gives_the_same(world: PodWorld) -> None:
    for wanted in (MASQUERADE, BRIDGE):
        pod = await world.pod()
        made = await world.nics.connect(pod, wanted)
        assert await world.nics.connect(pod, wanted) == made
        assert await world.restarted().connect(pod, wanted) == made


async def a_pod_without_a_nic_is_an_error(world: PodWorld) -> None:
    bare = await world.bare()
    for wanted in (MASQUERADE, BRIDGE):
        with pytest.raises(NetworkError, match="eth0"):
            await world.nics.connect(bare, wanted)


GUEST_NICS: tuple[Callable[[PodWorld], Awaitable[None]], ...] = (
    a_masqueraded_guest_has_the_private_address,
    a_bridged_guest_has_what_its_pod_had,
    connecting_again_gives_the_same,
    a_pod_without_a_nic_is_an_error,
)
