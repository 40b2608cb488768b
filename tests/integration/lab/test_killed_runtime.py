"""What runs a host's pods dies at any call, and the next process goes on.

systemd and the kernel's network are the fakes that keep the contracts of the real ones. They,
the directories and the API server outlive each process, as they do on a host.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from msgspec.structs import replace

from hypercobalt.adapters.host.fake_transient import FakeTransientUnits
from hypercobalt.adapters.host.port import JOB_DEADLINE, HostError
from hypercobalt.adapters.host.transient_model import TransientUnit, UnitRun
from hypercobalt.adapters.network.addressing import PodRange
from hypercobalt.adapters.network.fake import FakePodNetworks
from hypercobalt.adapters.network.port import Attached
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.meta import ObjectMeta, owner_reference
from hypercobalt.api.pods import EmptyDirVolumeSource, Volume, VolumeMount
from hypercobalt.api.workloads import Container, Pod, PodSpec, PodStatus
from hypercobalt.errors import TransientError
from hypercobalt.lab.pods.running.directories import PodDirectories
from hypercobalt.lab.pods.running.host import PodHost
from hypercobalt.lab.pods.running.launch import Launch
from hypercobalt.lab.pods.running.process import uids
from hypercobalt.lab.pods.running.reconciler import BY_UID, MANAGER, PodReconciler
from hypercobalt.lab.pods.running.settings import RunningSettings
from hypercobalt.lab.pods.running.unit import uid_of
from hypercobalt.runtime import (
    Informer,
    ListResult,
    Metrics,
    Recorder,
    SystemClock,
    load_connection,
)
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.write_cache import WriteCache
from tests.integration.mortal import Death, Dying, MortalKube
from tests.integration.virt.controller.conftest import certificates, kubeconfig, lab
from tests.integration.virt.controller.world import Lab

__all__ = ["certificates", "kubeconfig", "lab"]

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(240)]

SETTINGS = RunningSettings(
    node="kvm-1",
    address="10.77.0.1",
    server="https://api",
    network="100.64.0.64/26",
    credentials="",
)
TURNS = 40
LONG = timedelta(hours=1)


class Directories(PodDirectories):
    """Directories of pods, whose users are left as they are: that needs root, and is no call."""

    dying: Dying = Dying()

    def make(self, launch: Launch) -> None:
        self.dying()
        for mount in launch.mounts:
            self.source(launch.uid, mount).mkdir(parents=True, exist_ok=True)
            self.dying()

    def remove(self, uid: str) -> None:
        self.dying()
        for volume in self.volumes(uid):  # some of it has gone, as it does file by file
            shutil.rmtree(volume)
            self.dying()
        super().remove(uid)
        self.dying()

    def volumes(self, uid: str) -> Iterator[Path]:
        return (self.root(uid).parent / "volumes/kubernetes.io~empty-dir").glob("*")


@dataclass
class MortalUnits:
    """systemd's units, for a process that dies at a call to it."""

    units: FakeTransientUnits
    dying: Dying

    async def start(self, unit: TransientUnit, *, deadline: timedelta = JOB_DEADLINE) -> None:
        self.dying()
        await self.units.start(unit, deadline=deadline)
        self.dying()

    async def kill(self, name: str) -> None:
        self.dying()
        await self.units.kill(name)
        self.dying()

    async def reload(self, name: str, *, deadline: timedelta = JOB_DEADLINE) -> None:
        self.dying()
        await self.units.reload(name, deadline=deadline)
        self.dying()

    async def remove(self, name: str, *, deadline: timedelta = JOB_DEADLINE) -> UnitRun | None:
        self.dying()
        run = await self.units.remove(name, deadline=deadline)
        self.dying()
        return run

    async def watch(self, prefix: str) -> AsyncGenerator[tuple[UnitRun, ...] | HostError]:
        async for found in self.units.watch(prefix):
            yield found


@dataclass
class MortalNetworks:
    """The kernel's networks, for a process that dies at a call about them."""

    networks: FakePodNetworks
    dying: Dying

    async def attach(self, uid: str) -> Attached:
        self.dying()
        made = await self.networks.attach(uid)
        self.dying()
        return made

    async def detach(self, uid: str) -> None:
        self.dying()
        await self.networks.detach(uid)
        self.dying()

    async def find(self, uid: str) -> Attached | None:
        return await self.networks.find(uid)

    async def uids(self) -> frozenset[str]:
        return await self.networks.uids()


@dataclass(frozen=True)
class Story:
    """What happens to one pod.

    Args:
        code: with which its launcher ends when it is told to; None: it takes no notice.
        by_itself: it ends once it is seen running, and nobody tells it to.
        deletes_in: phase in which a person deletes the pod.
        by_force: without a grace period.
        loses_owner: once it is seen running, its owner is taken off.
        ends: the exit code that is seen of it; None for no end.
    """

    code: int | None = 0
    by_itself: bool = False
    deletes_in: str = "Running"
    by_force: bool = False
    loses_owner: bool = False
    ends: int | None = 0

    @property
    def codes(self) -> set[int]:
        """Exit codes that are seen."""
        return set() if self.ends is None else {self.ends}


@dataclass
class Clock(SystemClock):
    """A clock that can be ahead."""

    ahead: timedelta = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


@dataclass
class Host:
    """What outlives the processes: systemd, the kernel, the disk, the API server."""

    lab: Lab
    vmi: VirtualMachineInstance
    disk: Path
    story: Story
    units: FakeTransientUnits = field(default_factory=FakeTransientUnits)
    networks: FakePodNetworks = field(
        default_factory=lambda: FakePodNetworks(PodRange(IPv4Network(SETTINGS.network)))
    )
    started: list[str] = field(default_factory=list)
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.directories = Directories(self.disk, self.disk / "images")
        self.units.on_start = self._starts
        self.units.on_reload = lambda _: self.story.code

    def _starts(self, unit: TransientUnit) -> int | None:
        """The launcher writes to its volumes before anything else."""
        self.started.append(unit.name)
        for volume in self.directories.volumes(uid_of(unit.name)):
            (volume / "launcher-sock").touch()
        return None

    async def add(self) -> Pod:
        """A launcher pod that was placed on this host."""
        mount = VolumeMount(name="sockets", mountPath="/var/run/kubevirt/sockets")
        return await self.lab.kube.create(
            Pod(
                metadata=ObjectMeta(
                    generateName="virt-launcher-",
                    namespace=self.lab.namespace,
                    ownerReferences=(owner_reference(self.vmi, controller=True, blocks=True),),
                ),
                spec=PodSpec(
                    nodeName=SETTINGS.node,
                    restartPolicy="Never",
                    automountServiceAccountToken=False,
                    terminationGracePeriodSeconds=60,
                    volumes=(Volume(name="sockets", emptyDir=EmptyDirVolumeSource()),),
                    containers=(
                        Container(name="compute", image="virt-launcher", volumeMounts=(mount,)),
                    ),
                ),
            )
        )

    async def act(self, pod: Pod) -> bool:
        """Take the next step of person and guest; False when nothing of the pod is left."""
        shown = await self.lab.kube.get(Pod, pod.metadata.name, pod.metadata.namespace)
        story = self.story
        if shown is None:
            left = {*self.units.units, *await self.networks.uids(), *self.directories.uids()}
            return bool(left)
        if shown.metadata.deletionTimestamp is not None:
            self.clock.ahead = LONG if story.code is None else timedelta()
        elif shown.status.phase == story.deletes_in:
            grace = timedelta() if story.by_force else None
            meta = pod.metadata
            await self.lab.kube.delete(Pod, meta.name, meta.namespace, grace=grace)
        elif story.loses_owner and shown.status.phase == "Running":
            await self.lab.kube.modify(Pod, pod.metadata.name, _orphaned, pod.metadata.namespace)
        elif story.by_itself and shown.status.phase == "Running":
            (name,) = self.units.units
            self.units.end(name, exit_code=story.code)
        return True


def _orphaned(pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, ownerReferences=()))


class Process:
    """What runs pods, with passes that the test makes one by one."""

    def __init__(self, host: Host, client: MortalKube, dying: Dying) -> None:
        self._host, metrics = host, Metrics()
        client.dying = self._dying = dying
        self._pods = Informer(
            host.lab.kube, Selection(Pod), metrics=metrics, indexes={BY_UID: uids}
        )
        directories = Directories(host.disk, host.disk / "images")
        directories.dying = dying
        units, networks = MortalUnits(host.units, dying), MortalNetworks(host.networks, dying)
        self.pods = PodHost(units, networks, directories, SETTINGS, lambda _: None)
        events = Recorder(
            host.lab.kube, "example.com/test", "test", clock=host.clock, metrics=metrics
        )
        self._reconciler = PodReconciler(
            client.as_manager(MANAGER),
            self._pods.cache,
            WriteCache(self._pods),
            self.pods,
            address=SETTINGS.address,
            events=events,
            clock=host.clock,
        )

    async def step(self, uid: str) -> None:
        """Make one pass on what the server and the host have."""
        if self._dying.dead:
            raise Death
        listed = await self._host.lab.pods()
        self._pods.load(ListResult([pod for pod in listed if pod.spec.nodeName], "1", {}))
        with suppress(TransientError):  # tried again, as the next turn does
            await self._reconciler.reconcile(uid)


@asynccontextmanager
async def alive(host: Host, client: MortalKube, dying: Dying) -> AsyncIterator[Process]:
    """A process until the block is left, however it is left."""
    process = Process(host, client, dying)
    stop = asyncio.Event()
    following = asyncio.create_task(process.pods.follow(stop))
    try:
        yield process
    finally:
        stop.set()
        await asyncio.wait([following])


@asynccontextmanager
async def reported(lab: Lab) -> AsyncIterator[list[PodStatus]]:
    """Every status that pods of the namespace show."""
    seen = list[PodStatus]()

    async def follow() -> None:
        async with lab.kube.watch(Pod, lab.namespace) as events:
            async for event in events:
                if event.object is not None:
                    seen.append(event.object.status)

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(follow())
        yield seen
        task.cancel()


def exit_codes(status: PodStatus) -> list[int]:
    """Exit codes that a status shows; its phase has to be that of them."""
    ends = (one.state.terminated for one in status.containerStatuses)
    codes = [end.exitCode for end in ends if end is not None]
    assert (status.phase == "Succeeded") == (codes == [0])
    assert (status.phase == "Failed") == (codes not in ([], [0]))
    return codes


async def life(host: Host, client: MortalKube, dying: Dying) -> int:
    """Take a pod through its life, and return how often the process died."""
    deaths = 0
    async with reported(host.lab) as seen:
        pod = await host.add()
        turns = 0
        while turns < TURNS and await host.act(pod):
            async with alive(host, client, dying if not deaths else Dying()) as process:
                try:
                    while turns < TURNS and await host.act(pod):
                        turns += 1
                        await process.step(pod.metadata.uid)
                except Death:
                    deaths += 1
    assert turns < TURNS, "not done"
    assert {code for status in seen for code in exit_codes(status)} == host.story.codes, seen[-1]
    assert len(host.started) <= 1, "the guest ran twice"
    assert bool(host.started) == (host.story.deletes_in != "Pending")
    return deaths


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(Story(), id="deleted-while-it-runs"),
        pytest.param(Story(code=1, ends=1), id="deleted-and-fails"),
        pytest.param(Story(code=None, ends=137), id="deleted-and-takes-no-notice"),
        pytest.param(Story(by_itself=True, deletes_in="Succeeded"), id="ends-by-itself"),
        pytest.param(
            Story(code=1, by_itself=True, deletes_in="Failed", ends=1),
            id="fails-by-itself",
        ),
        pytest.param(Story(loses_owner=True, deletes_in="Failed", ends=137), id="loses-its-owner"),
        pytest.param(Story(by_force=True, ends=None), id="deleted-by-force"),
        pytest.param(Story(deletes_in="Pending", ends=None), id="deleted-before-its-start"),
    ],
)
async def test_pod_ends_rightly_wherever_the_process_that_runs_it_dies(
    lab: Lab, tmp_path: Path, story: Story
) -> None:
    vmi, whole = await lab.add(), Dying()
    async with MortalKube(load_connection(lab.kubeconfig)) as client:
        assert await life(Host(lab, vmi, tmp_path / "whole", story), client, whole) == 0
        assert whole.seen
        for calls in range(whole.seen):
            host = Host(lab, vmi, tmp_path / str(calls), story)
            assert await life(host, client, Dying(calls)) == 1, calls
