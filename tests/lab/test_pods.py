"""Launcher pods on a real host: started, reported, ended, and nothing of them left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import uuid4

import msgspec
import pytest
from msgspec.structs import replace

from hypercobalt.api import codec
from hypercobalt.api.coordination import Event
from hypercobalt.api.kubevirt.names import LAUNCHER_USER
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.workloads import Pod
from hypercobalt.lab.guest import bootsector
from hypercobalt.lab.host import Host
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.pods.running import install
from hypercobalt.lab.pods.running.settings import IMAGES, SERVICE
from hypercobalt.lab.pods.running.unit import unit_name
from hypercobalt.runtime import Kube
from hypercobalt.virt.wire.messages import Delete, Kill, Sync
from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.phases import LifeReason
from hypercobalt.vmi.pod import launcher_pod
from tests.lab.conftest import TakeHosts
from tests.lab.kit.pods import cleared, launcher, traces, users_of
from tests.waiting import Pause

pytestmark = pytest.mark.timeout(180)
SOON = 60.0


def instance(name: str = "guest", grace: int = 5) -> VirtualMachineInstance:
    body = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": name, "namespace": "default", "uid": str(uuid4())},
        "spec": {
            "terminationGracePeriodSeconds": grace,
            "domain": {
                "machine": {"type": "q35"},
                "memory": {"guest": "32Mi"},
                "features": {"acpi": {"enabled": True}},
                "devices": {
                    "autoattachPodInterface": False,
                    "autoattachGraphicsDevice": False,
                    "autoattachMemBalloon": False,
                    "disks": [{"name": "root", "disk": {"bus": "sata"}}],
                },
            },
            "volumes": [{"name": "root", "containerDisk": {"image": "lab/bootsector:1"}}],
        },
        "status": {"phase": "Scheduled"},
    }
    return codec.decode(msgspec.json.encode(body), VirtualMachineInstance)


def pod_of(vmi: VirtualMachineInstance, node: str) -> Pod:
    pod = launcher_pod(vmi, ClusterConfig(use_emulation=True))
    name = f"virt-launcher-{vmi.metadata.uid[:8]}"
    meta = replace(pod.metadata, name=name, generateName="")
    return replace(pod, metadata=meta, spec=replace(pod.spec, nodeName=node))


@pytest.fixture
async def host(nodes: TakeHosts, lab: Lab) -> Host:
    (taken,) = await nodes(1)
    disk = bootsector.image("idle").ljust(1024**2, b"\0")
    taken.disk.write(f"{IMAGES}/bootsector/disk/disk.img", disk)
    await install.install(taken, lab.control)
    return taken


async def shown(api: Kube, pod: Pod, right: Callable[[Pod], bool]) -> Pod:
    """Follow a pod until it is as wanted."""
    meta = pod.metadata
    async with (
        asyncio.timeout(SOON),
        api.watch(Pod, meta.namespace, fields=f"metadata.name={meta.name}") as events,
    ):
        async for event in events:
            if event.object is not None and right(event.object):
                return event.object
    raise AssertionError("the watch ended")


def conditions(pod: Pod) -> dict[str, str]:
    return {one.type: one.status for one in pod.status.conditions}


async def gone(api: Kube, pod: Pod) -> None:
    """Wait until the API has a pod no more."""
    pause = Pause(0.05)
    async with asyncio.timeout(SOON):
        while await api.get(Pod, pod.metadata.name, pod.metadata.namespace) is not None:
            await pause()


async def delete(api: Kube, pod: Pod) -> None:
    await api.delete(Pod, pod.metadata.name, pod.metadata.namespace)


async def test_pod_runs_its_guest_is_reported_and_leaves_nothing(host: Host, api: Kube) -> None:
    vmi = instance()
    made = await api.create(pod_of(vmi, host.name))
    running = await shown(api, made, lambda pod: pod.status.phase == "Running")
    assert conditions(running) == {
        "Initialized": "True",
        "ContainersReady": "True",
        "Ready": "False",
    }
    assert running.status.hostIP == host.address
    async with launcher(host, made) as connection:
        await connection.call(Sync(msgspec.Raw(codec.encode(vmi)), emulation=True), deadline=SOON)
        assert await users_of(host, made) == {str(LAUNCHER_USER)}
        await host.run("systemctl", "kill", "--signal=KILL", SERVICE)
        await delete(api, made)
        await shown(api, made, lambda pod: pod.metadata.deletionTimestamp is not None)
        report = await connection.call(Kill(), deadline=SOON)
        assert report is not None
        assert report.reason is LifeReason.DESTROYED
        await connection.call(Delete(), deadline=SOON)
    await gone(api, made)
    assert await traces(host, made) == []


async def test_pod_that_is_killed_is_reported_as_failed(host: Host, api: Kube) -> None:
    made = await api.create(pod_of(instance(), host.name))
    await shown(api, made, lambda pod: pod.status.phase == "Running")
    async with launcher(host, made):
        await host.run("systemctl", "kill", "--signal=KILL", unit_name(made.metadata.uid))
    failed = await shown(api, made, lambda pod: pod.status.phase == "Failed")
    (container,) = failed.status.containerStatuses
    assert container.state.terminated is not None
    assert container.state.terminated.exitCode == 137
    await delete(api, made)
    await cleared(host, made)  # the server removes a pod that has ended at once
    await gone(api, made)


async def test_pod_of_anybody_else_stays_pending_with_an_event(host: Host, api: Kube) -> None:
    pod = pod_of(instance(), host.name)
    made = await api.create(replace(pod, metadata=replace(pod.metadata, ownerReferences=())))
    async with asyncio.timeout(SOON), api.watch(Event, "default") as events:
        async for event in events:
            found = event.object
            if found is not None and found.regarding and found.regarding.uid == made.metadata.uid:
                assert "VirtualMachineInstance" in found.note
                break
    assert await traces(host, made) == []
    await delete(api, made)
    await gone(api, made)
