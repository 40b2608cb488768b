"""A captured host writes the ids of another host's service into its own status."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest
from tests.integration.operator.conftest import add_node, operator, reason, until
from tests.integration.operator.eviction_world import World, evicting, state, until_ended
from tests.integration.operator.lifecycle import QUICK, message, set_spec, site

from hypercobalt.api.eviction import Eviction, EvictionSpec
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.model import Host, Server, Size
from hypercobalt.operator.shared.node_facts import HOSTNAME_LABEL, LIFECYCLE_LABEL
from hypercobalt.runtime import Kube

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def claims_the_service_of(kube: Kube, name: str, victim: Host) -> None:
    """What the agent of a host that Nova does not know writes, where no policy stops it."""
    lie = HypervisorStatus(
        hypervisorId=victim.hypervisor_id,
        serviceId=victim.service_id,
        evicted=True,
        numInstances=0,
        conditions=(),
    )
    meta = ObjectMeta(name=name)
    agent = kube.as_manager("kvm-node-agent")
    await agent.apply(Hypervisor(metadata=meta, status=lie), force=True, subresource="status")


async def test_hostname_label_of_another_host_gets_none_of_its_instances_moved(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """A kubelet writes the label, and an agent an Eviction, before `Registered` shows the claim."""
    compute = site(name, f"{name}-victim", f"{name}-third")
    compute.moves.hosts = dict.fromkeys(compute.world.hosts, Size(100, 100_000, 0))
    victim = f"{name}-victim"
    mine = Server("00000000-0000-4000-8000-000000000001", "vm", victim, "ACTIVE", running=True)
    compute.moves.add(mine)
    await add_node(kube, name, labels={LIFECYCLE_LABEL: "skip-tests"})
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await until(kube, Hypervisor, name, lambda hv: reason(hv, "Registered") != "")
    labels = {"metadata": {"labels": {HOSTNAME_LABEL: victim}}}
    await kube.merge_patch(Hypervisor, name, labels)
    spec = EvictionSpec(
        hypervisor=name, reason="r", trigger="InstanceCrash", mode="live", instances=(mine.id,)
    )
    await kube.create(Eviction(metadata=ObjectMeta(name=f"ha-{name}"), spec=spec))
    async with evicting(kubeconfig, cast("World", compute)):  # before any pass over the host
        ended = await until_ended(kube, f"ha-{name}")
    assert state(ended) == "False/Failed"
    assert [one.id for one in compute.moves.on(victim)] == [mine.id]
    assert not [call for call in compute.world.calls if "migrate" in call]


async def test_service_of_another_host_stays_whatever_ids_a_host_claims(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(f"{name}-victim")
    victim = compute.world.hosts[f"{name}-victim"]
    await add_node(kube, name, labels={LIFECYCLE_LABEL: "skip-tests"})
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await until(kube, Hypervisor, name, lambda hv: reason(hv, "Registered") != "")
    await claims_the_service_of(kube, name, victim)
    quick = replace(QUICK, forgotten=timedelta(seconds=1))
    async with operator(kubeconfig, compute, lifecycle=quick):
        await set_spec(kube, name, maintenance="termination")
        gone = await until(
            kube, Hypervisor, name, lambda hv: reason(hv, "Offboarded") == "True/Offboarded"
        )
    assert victim.name in compute.world.hosts
    assert victim.hypervisor_id in compute.world.traits
    assert "has no host" in message(gone, "Offboarded")
