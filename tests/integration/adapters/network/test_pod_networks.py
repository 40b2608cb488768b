"""Networks of pods, as the kernel makes them, on a host that is a namespace."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from tests.contracts.networks import POD_NETWORKS, RANGE, some_uid
from tests.integration.adapters.network.kit import ask, fresh, hold, links, run, serve

from hypercobalt.adapters.network.addressing import PodRange, host_link
from hypercobalt.adapters.network.model import NetworkError
from hypercobalt.adapters.network.pod_networks import KernelPodNetworks
from hypercobalt.adapters.network.port import PodNetworks


async def networks(stack: AsyncExitStack, host: Path, pods: PodRange = RANGE) -> KernelPodNetworks:
    """Networks whose pods are removed at the end."""
    made = KernelPodNetworks(pods, host)
    before = await made.uids()

    async def clear() -> None:
        for uid in await made.uids() - before:
            await made.detach(uid)

    stack.push_async_callback(clear)
    return made


@pytest.mark.parametrize("contract", POD_NETWORKS, ids=lambda contract: contract.__name__)
async def test_the_kernel_keeps_the_contract(
    stack: AsyncExitStack, contract: Callable[[PodNetworks], Awaitable[None]]
) -> None:
    await contract(await networks(stack, await fresh(stack)))


async def test_pods_reach_each_other_and_the_host(stack: AsyncExitStack) -> None:
    host = await fresh(stack)
    made = await networks(stack, host)
    first, second = await made.attach(some_uid()), await made.attach(some_uid())
    await serve(stack, second.namespace, "tcp", 80)
    await serve(stack, host, "tcp", 80)

    assert await ask(first.namespace, "tcp", second.ip, 80) == first.ip
    assert await ask(first.namespace, "tcp", str(RANGE.gateway.ip), 80) == first.ip
    assert await ask(host, "tcp", second.ip, 80) == str(RANGE.gateway.ip)
    inside = await links(first.namespace)
    assert inside["eth0"]["mtu"] == RANGE.mtu
    assert inside["lo"]["operstate"] == "UNKNOWN"  # it is up


async def test_pods_made_at_once_have_different_addresses(stack: AsyncExitStack) -> None:
    made = await networks(stack, await fresh(stack))
    found = await asyncio.gather(*(made.attach(some_uid()) for _ in range(5)))
    assert len({one.ip for one in found}) == 5


async def test_a_network_that_was_cut_half_way_is_completed(stack: AsyncExitStack) -> None:
    host = await fresh(stack)
    made = await networks(stack, host)
    uid = some_uid()
    whole = await made.attach(uid)
    name = host_link(uid)
    for cut in (
        ("link", "set", name, "nomaster"),
        ("link", "set", name, "down"),
        ("link", "set", name, "alias", ""),
        ("link", "delete", name),
    ):
        await run(host, "ip", *cut)
        again = await KernelPodNetworks(RANGE, host).attach(uid)
        assert again == whole
        await serve_once(host, again.namespace, again.ip)
    await run(whole.namespace, "ip", "route", "delete", "default")
    await run(whole.namespace, "ip", "address", "flush", "dev", "eth0")
    assert await made.attach(uid) == whole
    await serve_once(host, whole.namespace, whole.ip)


async def serve_once(host: Path, pod: Path, ip: str) -> None:
    async with AsyncExitStack() as stack:
        await serve(stack, pod, "tcp", 80)
        assert await ask(host, "tcp", ip, 80) == str(RANGE.gateway.ip)


async def test_a_namespace_that_has_lost_its_name_is_made_anew(stack: AsyncExitStack) -> None:
    host = await fresh(stack)
    made = await networks(stack, host)
    uid = some_uid()
    whole = await made.attach(uid)
    await hold(stack, whole.namespace)
    await run(None, "ip", "netns", "delete", whole.namespace.name)
    assert await made.find(uid) is None
    assert uid in await made.uids()
    assert await made.attach(uid) == whole
    await serve_once(host, whole.namespace, whole.ip)


async def test_a_file_that_is_no_namespace_yet_is_replaced(stack: AsyncExitStack) -> None:
    made = await networks(stack, await fresh(stack))
    uid = some_uid()
    Path(f"/run/netns/pod-{uid}").touch()
    assert uid in await made.uids()
    assert await made.find(uid) is None
    await made.attach(uid)
    assert await made.find(uid)


async def test_a_link_of_another_pod_is_not_taken(stack: AsyncExitStack) -> None:
    host = await fresh(stack)
    made = await networks(stack, host)
    uid, other = some_uid(), some_uid()
    await made.attach(other)
    alias = f"pod={other},address=10.98.7.3/28"
    await run(host, "ip", "link", "add", host_link(uid), "type", "bridge")
    await run(host, "ip", "link", "set", host_link(uid), "alias", alias)
    with pytest.raises(NetworkError, match=f"is that of pod {other}"):
        await made.attach(uid)
    await made.detach(uid)
    assert host_link(uid) in await links(host)
    await run(host, "ip", "link", "delete", host_link(uid))


async def test_a_pod_keeps_its_address_when_the_range_of_its_host_changes_around_it(
    stack: AsyncExitStack,
) -> None:
    host = await fresh(stack)
    made = await networks(stack, host)
    uid = some_uid()
    whole = await made.attach(uid)
    wider = KernelPodNetworks(PodRange(IPv4Network("10.98.7.0/24"), RANGE.bridge, 1400), host)
    assert (await wider.attach(uid)).ip == whole.ip
