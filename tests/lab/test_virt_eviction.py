"""A host that runs a VirtualMachineInstance is not empty: its agent, its Eviction, its shutdown."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from uuid import uuid4

import msgspec
import pytest
import pytest_asyncio

from hypercobalt.api import codec
from hypercobalt.api.conditions import get_condition
from hypercobalt.api.core import Node
from hypercobalt.api.eviction import Eviction, EvictionConditionType
from hypercobalt.api.hypervisor import CPU, MEMORY, Hypervisor
from hypercobalt.api.kubevirt.names import LAUNCHER_MODULE
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.workloads import Pod
from hypercobalt.lab.guest import image
from hypercobalt.lab.host import Host
from hypercobalt.lab.lab import Lab, down
from hypercobalt.lab.pods import handling, images
from hypercobalt.lab.pods.running import settings
from hypercobalt.lab.setup import Setup
from hypercobalt.runtime import Kube
from tests.lab.kit.system import LIMIT, LOGIND, is_held_back, off
from tests.waiting import Pause

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="module")]
SOON = 90.0
SPACE = "default"
MIB = 1 << 20
READY = {"kubevirt.io/schedulable", "machine-type.node.kubevirt.io/q35"}
"""Labels of a Node whose virt-handler runs."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(
    able_machine: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Lab]:
    data = tmp_path_factory.mktemp("virt-eviction")
    try:
        made = await Lab.make(data, api_port=0)
        await made.up(Setup(hosts=1, virt=True))
        await asyncio.to_thread(images.lay_out, made.layout.images, await image.ready())
        yield made
    finally:
        await down(data)


@pytest_asyncio.fixture(loop_scope="module")
async def kube(served: Lab) -> AsyncIterator[Kube]:
    (host,) = served.hosts
    async with served.control.client() as made:
        await holds(lambda: _labelled(made, host.name))
        await holds(lambda: _is_in_service(made, host.name))
        yield made
        await maintain(made, host.name, None)
        for vmi in (await made.list(VirtualMachineInstance, SPACE)).items:
            await made.delete(VirtualMachineInstance, vmi.metadata.name, SPACE)
        await holds(lambda: _is_in_service(made, host.name))


async def holds(check: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something holds."""
    pause = Pause(0.1)
    async with asyncio.timeout(SOON):
        while not await check():
            await pause()


async def _labelled(kube: Kube, name: str) -> bool:
    node = await kube.get(Node, name)
    return node is not None and node.metadata.labels.keys() >= READY


async def _is_in_service(kube: Kube, name: str) -> bool:
    host = await kube.get(Hypervisor, name)
    left = (await kube.list(VirtualMachineInstance, SPACE)).items
    ready = get_condition(host.conditions, "Ready") if host else None
    counted = host is not None and MEMORY in host.status.allocation
    return counted and ready is not None and ready.status == "True" and not left


async def maintain(kube: Kube, name: str, mode: str | None) -> None:
    """Set a host's maintenance as a person does."""

    def changed(host: Hypervisor) -> Hypervisor:
        spec = msgspec.structs.replace(
            host.spec, maintenance=mode or "", maintenanceReason="fan" if mode else ""
        )
        return msgspec.structs.replace(host, spec=spec)

    await kube.modify(Hypervisor, name, changed)


async def running(kube: Kube) -> None:
    """Start a guest, and wait until it runs."""
    body = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": "guest", "namespace": SPACE},
        "spec": {
            "terminationGracePeriodSeconds": 0,  # a boot sector hears no power button
            "domain": {
                "cpu": {"cores": 2},
                "memory": {"guest": "32Mi"},
                "devices": {"disks": [{"name": "root", "disk": {}}]},
            },
            "volumes": [{"name": "root", "containerDisk": {"image": "lab/boot-sector"}}],
        },
    }
    await kube.create(codec.decode(msgspec.json.encode(body), VirtualMachineInstance))

    async def runs() -> bool:
        found = await kube.get(VirtualMachineInstance, "guest", SPACE)
        return found is not None and found.status.phase == "Running"

    await holds(runs)


async def reported(kube: Kube, name: str) -> Hypervisor:
    host = await kube.get(Hypervisor, name)
    assert host is not None
    return host


async def words(kube: Kube, name: str) -> str:
    """Status, reason and message of the host's Eviction."""
    found = await kube.get(Eviction, name)
    condition = (
        get_condition(found.status.conditions, EvictionConditionType.EVICTING) if found else None
    )
    return f"{condition.status}/{condition.reason} {condition.message}" if condition else ""


async def is_held(host: Host) -> bool:
    """Whether the agent holds up a shutdown."""
    listed = await host.run("systemd-inhibit", "--list", "--no-legend", "--no-pager")
    return "hypercobalt" in listed


async def test_eviction_succeeds_once_the_instance_is_deleted(served: Lab, kube: Kube) -> None:
    (host,) = served.hosts
    before = (await reported(kube, host.name)).status.allocation[MEMORY].value
    await running(kube)

    async def counted() -> bool:
        status = (await reported(kube, host.name)).status
        grown = status.allocation[MEMORY].value - before == 32 * MIB
        return grown and status.allocation[CPU].value == 2 and status.numInstances == 1

    await holds(counted)
    (instance,) = (await reported(kube, host.name)).status.instances
    (pod,) = (await kube.list(Pod, SPACE)).items
    assert (instance.id, instance.name) == (pod.metadata.uid, "default_guest")
    assert (instance.namespace, instance.active) == (SPACE, True)
    await holds(lambda: is_held(host))

    await maintain(kube, host.name, "manual")
    await holds(lambda: _says(kube, host.name, "True/Running", "default/guest"))
    assert not (await reported(kube, host.name)).status.evicted
    await kube.delete(VirtualMachineInstance, "guest", SPACE)
    await holds(lambda: _says(kube, host.name, "False/Succeeded"))

    async def evicted() -> bool:
        return bool((await reported(kube, host.name)).status.evicted)

    await holds(evicted)
    assert (await reported(kube, host.name)).status.instances == ()
    assert not await is_held(host)


async def test_guest_whose_pod_the_api_has_lost_is_still_named(served: Lab, kube: Kube) -> None:
    (host,) = served.hosts
    await running(kube)
    services = (settings.SERVICE, handling.SERVICE)
    await host.run("systemctl", "stop", *services)
    await kube.delete(VirtualMachineInstance, "guest", SPACE)

    def let_go(vmi: VirtualMachineInstance) -> VirtualMachineInstance:
        return msgspec.structs.replace(
            vmi, metadata=msgspec.structs.replace(vmi.metadata, finalizers=())
        )

    await kube.modify(VirtualMachineInstance, "guest", let_go)
    (pod,) = (await kube.list(Pod, SPACE)).items
    await kube.delete(Pod, pod.metadata.name, SPACE, grace=timedelta(0))
    assert (await kube.list(Pod, SPACE)).items == []

    await maintain(kube, host.name, "manual")
    await holds(lambda: _says(kube, host.name, "True/Running", "default/guest"))
    assert (await host.run("pgrep", "-c", "qemu-system")).strip() == "1"
    await host.run("systemctl", "start", *services)  # what no pod wants is killed
    await holds(lambda: _says(kube, host.name, "False/Succeeded"))


async def test_launcher_in_a_pod_of_a_kubelet_is_seen_by_its_slice(served: Lab, kube: Kube) -> None:
    """As containerd and a kubelet with the cgroup driver systemd lay the pod out."""
    (host,) = served.hosts
    uid = str(uuid4())
    slice_ = f"kubepods-burstable-pod{uid.replace('-', '_')}.slice"
    await host.run("systemctl", "start", slice_)  # a kubelet keeps it for some time
    argument = '{"namespace":"default","name":"theirs"}'
    sleeps = "python3 -c 'import time; time.sleep(600)'"
    program = f"""(exec -a qemu-system-x86_64 {sleeps} -m size=1024k -smp 1) &
exec {sleeps} -m {LAUNCHER_MODULE} '{argument}'"""
    await host.run("tee", "/root/container", stdin=program)
    scope = ("--scope", f"--slice={slice_}", "--unit=cri-containerd-1")
    runtime = ("systemd-run", "--quiet", *scope, "bash", "/root/container")
    await host.run("systemd-run", "--quiet", "--unit=containerd", *runtime)

    async def shown() -> list[tuple[str, str]]:
        status = (await reported(kube, host.name)).status
        return [(one.id, one.name) for one in status.instances]

    async def runs() -> bool:
        return await shown() == [(uid, "default_theirs")]

    async def gone() -> bool:
        return await shown() == []

    await holds(runs)
    await host.run("systemctl", "stop", "cri-containerd-1.scope")
    await holds(gone)
    await host.run("systemctl", "is-active", slice_)
    await host.run("systemctl", "stop", slice_)


async def test_shutdown_is_held_back_until_the_guest_has_ended(served: Lab, kube: Kube) -> None:
    (host,) = served.hosts
    await host.run("mkdir", "-p", "/etc/systemd/logind.conf.d")
    await host.run("tee", "/etc/systemd/logind.conf.d/limit.conf", stdin=LOGIND)
    await host.run("systemctl", "restart", "systemd-logind.service")
    await running(kube)
    await holds(lambda: is_held(host))
    await host.run("systemctl", "--no-wall", "--no-block", "poweroff")
    await holds(lambda: _says(kube, host.name, "True/Running", "default/guest"))
    made = await kube.get(Eviction, host.name)
    assert made is not None
    assert made.spec.trigger == "HostShutdown"
    assert await is_held_back(host)
    begun = time.monotonic()
    await kube.delete(VirtualMachineInstance, "guest", SPACE)
    assert await off(host) - begun < LIMIT.total_seconds() / 2
    await served.up_host(host)


async def _says(kube: Kube, name: str, *parts: str) -> bool:
    said = await words(kube, name)
    return all(part in said for part in parts)
