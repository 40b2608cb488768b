"""Two Nodes whose names have the same first label, and one host of that name in Nova."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.operator.conftest import add_node, operator, reason, until
from tests.integration.operator.lifecycle import message, site, warnings
from tests.integration.operator.service import SKIP, in_service, is_ready
from tests.integration.runtime.scripted import eventually

from hypercobalt.api.core import Node
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.operator.shared.node_facts import HOSTNAME_LABEL
from hypercobalt.runtime import Kube

pytestmark = pytest.mark.asyncio(loop_scope="session")


def is_claimed(hypervisor: Hypervisor) -> bool:
    return reason(hypervisor, "Registered") == "False/Claimed"


async def label(kube: Kube, node: str, hostname: str) -> None:
    patch = {"metadata": {"labels": {HOSTNAME_LABEL: hostname}}}
    await kube.merge_patch(Node, node, patch)


async def test_host_stays_with_its_hypervisor_when_one_of_an_earlier_name_comes(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute, first, second = site(name), f"{name}.z.example.org", f"{name}.a.example.org"
    async with operator(kubeconfig, compute):
        await in_service(kube, first)
        await add_node(kube, second, labels=SKIP)
        claimed = await until(kube, Hypervisor, second, is_claimed)

        async def both_are_warned() -> bool:
            kept, turned_away = await warnings(kube, first), await warnings(kube, second)
            return any(second in note for note in kept) and any(
                first in note for note in turned_away
            )

        await eventually(both_are_warned)
        kept = await kube.get(Hypervisor, first)

    assert f"belongs to hypervisor {first}" in message(claimed, "Registered")
    assert claimed.status.serviceId is None
    assert kept is not None
    assert is_ready(kept)
    assert kept.status.serviceId == compute.world.hosts[name].service_id


async def test_label_of_another_host_takes_over_nothing(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute, first, second = site(name), f"{name}.z.example.org", f"a{name}.example.org"
    async with operator(kubeconfig, compute):
        await in_service(kube, first)
        await add_node(kube, second, labels=SKIP)
        await until(kube, Hypervisor, second, lambda hv: reason(hv, "Registered") != "")
        await label(kube, second, name)
        claimed = await until(kube, Hypervisor, second, is_claimed)
        kept = await kube.get(Hypervisor, first)

    assert f"belongs to hypervisor {first}" in message(claimed, "Registered")
    assert kept is not None
    assert is_ready(kept)


async def test_status_of_another_host_takes_over_nothing(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute, older, holder = site(name), f"a{name}.example.org", f"{name}.z.example.org"
    async with operator(kubeconfig, compute):
        await add_node(kube, older, labels=SKIP)
        await until(kube, Hypervisor, older, lambda hv: reason(hv, "Registered") != "")
        await in_service(kube, holder)
        stolen = {"status": {"serviceId": compute.world.hosts[name].service_id}}
        await kube.merge_patch(Hypervisor, older, stolen, subresource="status")
        await label(kube, older, name)
        await until(kube, Hypervisor, older, is_claimed)
        kept = await kube.get(Hypervisor, holder)

    assert kept is not None
    assert is_ready(kept)


@pytest.mark.parametrize("way", ["its Node is deleted", "its label changes"])
async def test_host_goes_to_the_next_when_its_hypervisor_lets_go(
    kube: Kube, kubeconfig: Path, name: str, way: str
) -> None:
    compute, first, second = site(name), f"z{name}.example.org", f"{name}.a.example.org"
    async with operator(kubeconfig, compute):
        await add_node(kube, first, labels=SKIP | {HOSTNAME_LABEL: name})
        held = await until(kube, Hypervisor, first, lambda hv: bool(hv.status.serviceId))
        await add_node(kube, second, labels=SKIP)
        await until(kube, Hypervisor, second, is_claimed)
        if way == "its Node is deleted":
            await kube.delete(Node, first)
            await kube.delete(Hypervisor, first)
        else:
            await label(kube, first, first)
        taken = await until(
            kube, Hypervisor, second, lambda hv: reason(hv, "Registered") == "True/Registered"
        )

    assert taken.status.serviceId == held.status.serviceId
