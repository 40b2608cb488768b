"""Evictions of hosts with VirtualMachineInstances, which do not move: named, and waited for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest
import pytest_asyncio
from tests.integration.operator.conftest import operator, until
from tests.integration.operator.eviction_world import (
    add_eviction_of,
    add_hypervisor,
    evicting,
    fence,
    state,
    until_ended,
    until_it,
    words,
    world,
)
from tests.integration.operator.lifecycle import set_spec, site
from tests.integration.operator.service import in_service

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus, Instance
from hypercobalt.api.meta import ObjectMeta, OwnerReference
from hypercobalt.api.workloads import Container, Pod, PodSpec
from hypercobalt.runtime import Kube

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.any_api]
SPACE = "default"


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def no_pods_left(kube: Kube) -> AsyncIterator[None]:
    yield
    for pod in (await kube.list(Pod, SPACE)).items:
        await kube.delete(Pod, pod.metadata.name, SPACE, grace=timedelta(0))


async def launcher(kube: Kube, host: str, name: str = "guest", *, kind: str = "") -> Pod:
    """A launcher pod on a host, as a binding has left it."""
    owner = OwnerReference(
        apiVersion="kubevirt.io/v1",
        kind=kind or "VirtualMachineInstance",
        name=name,
        uid=str(uuid4()),
        controller=True,
    )
    meta = ObjectMeta(name=f"virt-launcher-{name}", namespace=SPACE, ownerReferences=(owner,))
    containers = (Container(name="compute", image="example.com/launcher"),)
    return await kube.create(Pod(metadata=meta, spec=PodSpec(nodeName=host, containers=containers)))


async def ends(kube: Kube, pod: Pod) -> None:
    """The pod's kubelet reports its end."""
    done = msgspec.structs.replace(pod.status, phase="Succeeded")
    await kube.patch(pod, msgspec.structs.replace(pod, status=done), subresource="status")


async def test_eviction_waits_for_a_launcher_pod_and_names_its_instance(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = world(name)
    compute.fill(1)
    await add_hypervisor(kube, name)
    pod = await launcher(kube, name)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name)
        waits = await until_it(kube, name, lambda one: "1 of 1 instance have left" in words(one))
        assert state(waits) == "True/Running"
        assert "waiting for 1 VirtualMachineInstance on" in words(waits)
        assert "default/guest" in words(waits)
        assert "kubectl delete vmi -n default guest" in words(waits)
        assert waits.status.virtualMachineInstances == ("default/guest",)
        await ends(kube, pod)
        ended = await until_ended(kube, name)
    assert state(ended) == "False/Succeeded"
    assert ended.status.virtualMachineInstances == ()


async def test_pod_of_anything_else_holds_up_no_eviction(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    await add_hypervisor(kube, name)
    await launcher(kube, name, kind="ReplicaSet")
    async with evicting(kubeconfig, world(name)):
        await add_eviction_of(kube, name)
        assert state(await until_ended(kube, name)) == "False/Succeeded"


async def test_instance_on_another_host_holds_up_no_eviction(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    await add_hypervisor(kube, name)
    await launcher(kube, f"{name}-beside")
    async with evicting(kubeconfig, world(name)):
        await add_eviction_of(kube, name)
        assert state(await until_ended(kube, name)) == "False/Succeeded"


async def test_eviction_of_named_instances_does_not_wait_for_guests(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = world(name)
    (server,) = compute.fill(1)
    await add_hypervisor(kube, name)
    await launcher(kube, name)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name, instances=(server.id,))
        assert state(await until_ended(kube, name)) == "False/Succeeded"


async def test_host_that_was_never_registered_is_not_empty_with_a_launcher_pod(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = world(name)
    compute.unknown = True
    made = Hypervisor(metadata=ObjectMeta(name=name))
    await kube.create(made)
    pod = await launcher(kube, name)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name)
        waits = await until_it(kube, name, lambda one: "default/guest" in words(one))
        assert state(waits) == "True/Running"
        await ends(kube, pod)
        assert state(await until_ended(kube, name)) == "False/Succeeded"


async def test_guest_that_only_its_host_shows_is_waited_for(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    await add_hypervisor(kube, name)
    await _report(kube, name, Instance(str(uuid4()), "default_guest", True, "default"))
    async with evicting(kubeconfig, world(name)):
        await add_eviction_of(kube, name)
        waits = await until_it(kube, name, lambda one: "default/guest" in words(one))
        assert state(waits) == "True/Running"
        await _report(kube, name)
        assert state(await until_ended(kube, name)) == "False/Succeeded"


async def test_guest_of_a_dead_host_is_named_and_not_counted_as_saved(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = world(name)
    await add_hypervisor(kube, name)
    pod = await launcher(kube, name)
    compute.moves.dead.add(name)
    await fence(kube, name)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name, trigger="NodeFailure")
        waits = await until_it(kube, name, lambda one: "default/guest" in words(one))
        assert state(waits) == "True/Running"
        assert "none is started elsewhere by this version" in words(waits)
        await kube.delete(Pod, pod.metadata.name, SPACE, grace=timedelta(0))
        assert state(await until_ended(kube, name)) == "False/Succeeded"


async def _report(kube: Kube, host: str, *instances: Instance) -> None:
    status = HypervisorStatus(instances=instances, numInstances=len(instances))
    made = Hypervisor(metadata=ObjectMeta(name=host), status=status)
    await kube.as_manager("kvm-node-agent").apply(made, force=True, subresource="status")


async def test_host_in_maintenance_is_evicted_without_launcher_pods_alone(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    pod = await launcher(kube, name)
    async with operator(kubeconfig, site(name)):
        await in_service(kube, name)
        await set_spec(kube, name, maintenance="manual", maintenanceReason="fan")
        waits = await until_it(kube, name, lambda one: "default/guest" in words(one))
        assert state(waits) == "True/Running"
        held = await kube.get(Hypervisor, name)
        assert held is not None
        assert not held.status.evicted
        await ends(kube, pod)
        await until(kube, Hypervisor, name, lambda host: bool(host.status.evicted))
        later = await launcher(kube, name, "later")
        await until(kube, Hypervisor, name, lambda host: not host.status.evicted)
        await until_it(kube, name, lambda one: "default/later" in words(one))
        await ends(kube, later)
        await until(kube, Hypervisor, name, lambda host: bool(host.status.evicted))
