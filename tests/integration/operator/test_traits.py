"""Traits on the resource provider, on a real API server and a compute service in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.operator.conftest import operator
from tests.integration.operator.lifecycle import QUICK, message, site
from tests.integration.operator.service import in_service
from tests.integration.runtime.scripted import eventually

from hypercobalt.compute.errors import ComputeConflictError
from hypercobalt.compute.fake import FakeCompute
from hypercobalt.compute.model import ProviderTraits
from hypercobalt.operator.shared.node_facts import TRAITS_ANNOTATION
from hypercobalt.runtime import Kube

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.any_api]

UNSORTED = {TRAITS_ANNOTATION: "HW_CPU_X86_AVX2,CUSTOM_B,CUSTOM_A"}
ALL = ("CUSTOM_A", "CUSTOM_B", "HW_CPU_X86_AVX2", "HW_CPU_X86_VMX")


def puts(compute: FakeCompute) -> int:
    return sum(call.startswith("traits.put") for call in compute.world.calls)


def reads(compute: FakeCompute) -> int:
    return sum(call.startswith("traits.get") for call in compute.world.calls)


async def test_traits_in_any_order_and_without_prefix_are_set_once(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        made = await in_service(kube, name, annotations=UNSORTED)
        seen = reads(compute)
        await eventually(lambda: reads(compute) >= seen + 3)  # so many comparisons later
    assert made.spec.customTraits == ("HW_CPU_X86_AVX2", "CUSTOM_B", "CUSTOM_A")
    assert (made.status.traits, puts(compute)) == (ALL, 1)


async def test_traits_that_others_remove_are_set_again(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)
    provider = compute.world.hosts[name].hypervisor_id
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await in_service(kube, name, annotations=UNSORTED)
        theirs = ProviderTraits(("COMPUTE_NODE", "CUSTOM_A"), 9)
        compute.world.traits[provider] = theirs
        await eventually(lambda: len(compute.world.traits[provider].names) == 4)
    assert set(compute.world.traits[provider].names) == {"COMPUTE_NODE", *ALL[:3]}


async def test_provider_that_changed_in_between_is_read_again(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute, conflicts = site(name), [2]

    def fault(what: str, about: str) -> Exception | None:
        if what != "traits.put" or not conflicts[0]:
            return None
        conflicts[0] -= 1
        provider = compute.world.hosts[name].hypervisor_id
        there = compute.world.traits[provider]
        compute.world.traits[provider] = ProviderTraits(there.names, there.generation + 1)
        return ComputeConflictError("resource provider: the generation is old")

    compute.world.fault = fault
    async with operator(kubeconfig, compute):
        made = await in_service(kube, name, annotations=UNSORTED)
    assert (puts(compute), made.status.traits) == (3, ALL)
    assert message(made, "TraitsUpdated") == "Traits updated"
