"""A lab that runs VirtualMachineInstances: KubeVirt's five actors, from the create to nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from ipaddress import IPv4Address
from pathlib import Path
from typing import TypeVar

import httpx2
import msgspec
import pytest
import pytest_asyncio
import yaml

from hypercobalt.api import codec
from hypercobalt.api.core import Node
from hypercobalt.api.kubevirt.names import FINAL_PHASES
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.meta import Object
from hypercobalt.api.workloads import Pod
from hypercobalt.lab import processes
from hypercobalt.lab.guest import image
from hypercobalt.lab.host import Host
from hypercobalt.lab.lab import Lab, down
from hypercobalt.lab.pods import handling, images
from hypercobalt.lab.pods.actors import CONTROLLER
from hypercobalt.lab.pods.running.unit import unit_name
from hypercobalt.lab.setup import Setup
from hypercobalt.runtime import Kube
from tests.lab.kit.choreography import by_actor, diagram, recorded
from tests.lab.kit.pods import cleared, launcher
from tests.waiting import Pause

pytestmark = [pytest.mark.timeout(240), pytest.mark.asyncio(loop_scope="module")]
SOON = 90.0
ENDS = {"Running", *FINAL_PHASES}
T = TypeVar("T", bound=Object)
RUN = Path(__file__).parents[2] / "docs/images/vmi-run.mmd"
LABELS = {"kubevirt.io/schedulable", "machine-type.node.kubevirt.io/q35"}
"""Labels of a Node whose virt-handler runs."""
EXAMPLE = Path(__file__).parents[2] / "examples/vmi.yaml"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def virt_lab(
    able_machine: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Lab]:
    data = tmp_path_factory.mktemp("virt")
    try:
        made = await Lab.make(data, api_port=0)
        await made.up(Setup(hosts=1, ovn=False, operator=False, virt=True))
        await asyncio.to_thread(images.lay_out, made.layout.images, await image.ready())
        async with made.control.client() as kube:
            await until(kube, Node, None, lambda node: node.metadata.labels.keys() >= LABELS)
        yield made
    finally:
        await down(data)


def typed(body: object) -> VirtualMachineInstance:
    return codec.decode(msgspec.json.encode(body), VirtualMachineInstance)


def instance() -> VirtualMachineInstance:
    return typed(
        {
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstance",
            "metadata": {"name": "guest", "namespace": "default"},
            "spec": {
                "terminationGracePeriodSeconds": 0,  # a boot sector hears no power button
                "domain": {
                    "memory": {"guest": "32Mi"},
                    "resources": {"limits": {"memory": "64Mi", "cpu": "2"}},
                    "devices": {"disks": [{"name": "root", "disk": {}}]},
                },
                "volumes": [{"name": "root", "containerDisk": {"image": "lab/boot-sector"}}],
            },
        }
    )


async def page(address: str) -> str:
    """What the guest serves, once it does."""
    pause = Pause(0.1)
    async with asyncio.timeout(SOON), httpx2.AsyncClient(trust_env=False) as client:
        while True:
            with suppress(httpx2.TransportError):
                return (await client.get(f"http://{address}/")).text
            await pause()


def is_ready(pod: Pod) -> bool:
    return any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions)


def limit(pod: Pod, resource: str) -> int:
    """A limit of the pod's one container."""
    (compute,) = pod.spec.containers
    assert compute.resources is not None
    return compute.resources.limits[resource].value


async def bounds(host: Host, pod: Pod) -> tuple[int, int]:
    """Bytes of memory, and microseconds of CPU in 100 ms, that the kernel gives a pod."""
    unit = unit_name(pod.metadata.uid)
    files = (
        f"/sys/fs/cgroup/memory/system.slice/{unit}/memory.limit_in_bytes",
        f"/sys/fs/cgroup/cpu/system.slice/{unit}/cpu.cfs_quota_us",
    )
    memory, cpu = (await host.run("cat", *files)).split()
    return int(memory), int(cpu)


async def until(kube: Kube, kind: type[T], namespace: str | None, right: Callable[[T], bool]) -> T:
    """Follow the objects of a namespace until one is as wanted."""
    async with asyncio.timeout(SOON), kube.watch(kind, namespace) as events:
        async for event in events:
            if event.object is not None and right(event.object):
                return event.object
    raise AssertionError("the watch ended")


@asynccontextmanager
async def running(
    lab: Lab, sent: VirtualMachineInstance
) -> AsyncGenerator[tuple[Kube, VirtualMachineInstance, Pod]]:
    """An instance whose guest runs, with its pod; it is deleted afterwards and leaves nothing."""
    (host,), key = lab.hosts, (sent.metadata.name, sent.metadata.namespace)
    async with lab.control.client() as kube:
        await kube.create(sent)
        try:
            vmi = await until(
                kube, VirtualMachineInstance, "default", lambda vmi: vmi.status.phase in ENDS
            )
            assert (vmi.status.phase, vmi.status.nodeName) == ("Running", host.name)
            pod = await until(kube, Pod, "default", is_ready)
            yield kube, vmi, pod
        finally:  # also for the next test
            await kube.delete(VirtualMachineInstance, *key)
            pause = Pause(0.1)
            async with asyncio.timeout(SOON):
                while await kube.get(VirtualMachineInstance, *key) is not None:
                    await pause()
        assert (await kube.list(Pod, "default")).items == []
        await cleared(host, pod)


async def emulators(host: Host) -> list[str]:
    return (await host.run("sh", "-c", "pgrep qemu-system || :")).split()


async def test_person_reaches_the_guest_of_the_example_by_its_address(virt_lab: Lab) -> None:
    (host,) = virt_lab.hosts
    body = yaml.safe_load(EXAMPLE.read_bytes())
    # Beside other tests: a guest without a request has a tenth of their share of the CPUs.
    body["spec"]["domain"]["resources"] = {"requests": {"cpu": "1"}}
    async with AsyncExitStack() as stack:
        watcher = await stack.enter_async_context(virt_lab.control.client())
        run = await stack.enter_async_context(recorded(watcher, "default"))
        _, vmi, pod = await stack.enter_async_context(running(virt_lab, typed(body)))
        phases = [one.phase for one in vmi.status.phaseTransitionTimestamps]
        assert phases == ["Pending", "Scheduling", "Scheduled", "Running"]
        (nic,) = vmi.status.interfaces
        assert nic.ipAddress == pod.status.podIP
        assert IPv4Address(nic.ipAddress) in host.pod_network
        assert await page(nic.ipAddress) == "hello has the address 10.0.2.2\n"
    assert await emulators(host) == []
    drawn = diagram(run.steps())
    assert by_actor(drawn) == by_actor(RUN.read_text()), (
        f"{RUN} is of another run; this one:\n{drawn}"
    )


async def test_kernel_holds_a_pod_to_its_limits(virt_lab: Lab) -> None:
    (host,) = virt_lab.hosts
    async with running(virt_lab, instance()) as (_, _, pod), launcher(host, pod):
        assert await bounds(host, pod) == (limit(pod, "memory"), limit(pod, "cpu") * 100_000)


async def test_guest_does_not_notice_that_its_handler_and_controller_are_killed(
    virt_lab: Lab,
) -> None:
    (host,) = virt_lab.hosts
    async with running(virt_lab, instance()) as (kube, vmi, _):
        before = await emulators(host)
        await host.run("systemctl", "kill", "--signal=KILL", handling.SERVICE)
        await processes.kill(virt_lab.state.id, lambda one: one.role == CONTROLLER)
        await virt_lab.actors.start()
        await host.run("systemctl", "restart", handling.SERVICE)
        now = await kube.get(VirtualMachineInstance, "guest", "default")
        assert await emulators(host) == before
        assert len(before) == 1
        assert now is not None
        assert (now.metadata.uid, now.status.phase) == (vmi.metadata.uid, "Running")
