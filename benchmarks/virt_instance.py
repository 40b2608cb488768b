"""VirtualMachineInstances on a host of the lab: times, CPU, memory, writes, beside KubeVirt.

    python benchmarks/virt_instance.py [--json FILE] [--repetitions 8] [--many 8] [--idle 30]

Boots a lab of one host with `--virt` (root, systemd-nspawn, libvirt and QEMU are needed) and takes
it down. Guests are boot sectors, emulated (TCG). Times are those of a watch in this process: from
the call that creates an instance, from the kill of the launcher's first process, from the end of a
deleted guest's QEMU. CPU time is counted by process, and that of the host as a whole by its control
group. The figures of KubeVirt and the goals are those of the order for VirtualMachineInstances.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.harness import arguments, cpu_seconds, report, table
from benchmarks.host_processes import (
    LAUNCHER,
    LIBVIRTD,
    QEMU,
    RUNTIME,
    VIRT_HANDLER,
    Process,
    lab_processes,
    pss_by_role,
    pss_mib,
    usage,
)
from benchmarks.virt_admission import virt_api
from tests.lab.kit.choreography import SCHEDULER, Recording, diagram, recorded
from tests.lab.kit.guests import NAMESPACE, Guests, guest, guests_of, lay_out

from hypercobalt.api.coordination import Event, Lease
from hypercobalt.api.core import Node
from hypercobalt.api.kubevirt.names import FINAL_PHASES
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.meta import Object
from hypercobalt.api.workloads import Pod
from hypercobalt.lab import processes
from hypercobalt.lab.control import ROLE as API_SERVER
from hypercobalt.lab.lab import Lab, down
from hypercobalt.lab.pods.actors import CONTROLLER
from hypercobalt.lab.setup import Setup
from hypercobalt.runtime import Kube
from hypercobalt.runtime.client.watch import WatchEvent

LONGEST: Final = 120.0
"""Seconds that anything may take; a repetition takes a few."""
SETTLE: Final = 10.0
"""Seconds in which what has just begun becomes idle."""
LOOK_SECONDS: Final = 0.05
GUEST_MIB: Final = 32
LABELS: Final = {"kubevirt.io/schedulable", "machine-type.node.kubevirt.io/q35"}
"""Labels of a Node whose virt-handler runs."""
NODE_LEASES: Final = "kube-node-lease"


@dataclass(frozen=True, slots=True)
class Aim:
    """What a figure is compared with; "" where there is nothing."""

    goal: str = ""
    kubevirt: str = ""


AIMS: Final = {
    "create to Running, median s": Aim("3", "15 to 25"),
    "CPU until Running, all processes, s": Aim("1.0"),
    "launcher and libvirtd for each of many, PSS MiB": Aim("32", "302 to 368"),
    "pod's memory request over the guest, MiB": Aim("104", "288"),
    "writes of client and KubeVirt's actors until Ready": Aim("8", "8.4 and creates"),
    "writes with those of scheduler and kubelet until Ready": Aim("8"),
    "launcher killed to Failed, median s": Aim("2", "up to 41"),
    "guest off to object gone, median s": Aim("1", "up to 45"),
    "virt-api, controller, handler, PSS MiB": Aim("150", "226"),
    "idle handler and kubelet stand-in, CPU %": Aim("0.1"),
    "idle, writes without Leases": Aim("0", "1 a minute"),
}


@dataclass
class Figures:
    """What was measured, in the order of the measurements."""

    values: dict[str, float] = field(default_factory=dict[str, float])

    def add(self, name: str, value: float) -> None:
        assert name not in self.values, name
        self.values[name] = value
        print(f"{name}: {value:.2f}", file=sys.stderr)

    def spread(self, name: str, seconds: Sequence[float]) -> None:
        self.add(f"{name}, median s", statistics.median(seconds))
        self.add(f"{name}, p90 s", p90(seconds))

    def rows(self) -> list[tuple[str, str, str, str]]:
        aims = {name: AIMS.get(name, Aim()) for name in self.values}
        return [
            (name, f"{value:.2f}", aims[name].goal, aims[name].kubevirt)
            for name, value in self.values.items()
        ]


def p90(values: Sequence[float]) -> float:
    """The value that nine of ten do not exceed; the worst of few."""
    return sorted(values)[min(len(values) - 1, int(0.9 * len(values)))]


@asynccontextmanager
async def virt_lab() -> AsyncGenerator[Lab]:
    """A lab of one host whose virt-handler runs, and nothing of instances yet."""
    with tempfile.TemporaryDirectory(prefix="cobalt-bench-") as directory:
        data = Path(directory) / "lab"
        try:
            lab = await Lab.make(data, api_port=0)
            await lab.up(Setup(hosts=1, ovn=False, operator=False, virt=True))
            lay_out(lab.layout.images, ("idle", "obey"))
            async with lab.control.client() as kube, asyncio.timeout(LONGEST):
                await schedulable(kube)
            yield lab
        finally:
            await down(data)


async def schedulable(kube: Kube) -> None:
    async with kube.watch(Node) as events:
        async for event in events:
            if event.object is not None and event.object.metadata.labels.keys() >= LABELS:
                return


def pod_processes(guests: Guests, name: str) -> list[Process]:
    """The processes of an instance's pod."""
    unit = guests.unit(name)
    return [one for one in lab_processes(guests.lab) if one.unit == unit]


async def without_pods(lab: Lab) -> None:
    """Wait until no process of a pod runs: the end of one instance is not part of the next."""
    async with asyncio.timeout(LONGEST):
        while any(one.role in {LAUNCHER, LIBVIRTD, QEMU} for one in lab_processes(lab)):  # noqa: ASYNC110 - processes announce nothing
            await asyncio.sleep(LOOK_SECONDS)


async def removed(guests: Guests, *names: str) -> None:
    await guests.delete(*names)
    await guests.are_gone(*names, within=LONGEST)
    await without_pods(guests.lab)


async def runs(guests: Guests, name: str) -> None:
    vmi = await guests.until(
        name, lambda vmi: vmi.status.phase in {"Running", *FINAL_PHASES}, LONGEST
    )
    assert vmi.status.phase == "Running", vmi


def writes_until_ready(recording: Recording) -> Counter[str]:
    """Versions of the instance and of its pod, up to the one in which the instance is Ready."""
    found = Counter[str]()
    for _, seen in sorted(recording.seen, key=lambda one: int(one[1].metadata.resourceVersion)):
        found[seen.name] += 1
        conditions = {one.type: one.status for one in seen.status.conditions}
        if seen.name == "vmi" and conditions.get("Ready") == "True":
            return found
    raise SystemExit("the instance has not been recorded as Ready")


def not_of_kubevirt(recording: Recording) -> int:
    """Writes of the scheduler and of the kubelet until the instance is Ready."""
    steps = recording.steps()
    end = next(
        number
        for number, one in enumerate(steps)
        if one.what.startswith("vmi: ") and "Ready True" in one.what.split(": ", 1)[1].split(", ")
    )
    return sum(one.who in {SCHEDULER, "kubelet"} for one in steps[:end])


async def first_instance(guests: Guests, figures: Figures) -> None:
    """Writes of one instance, and what its pod requests; it also warms caches."""

    def is_ready(vmi: VirtualMachineInstance) -> bool:
        return any(one.type == "Ready" and one.status == "True" for one in vmi.status.conditions)

    async with guests.lab.control.client() as watcher, recorded(watcher, NAMESPACE) as recording:
        await guests.create(guest("first", memory_mib=GUEST_MIB))
        ready = await guests.until("first", is_ready, LONGEST)
        async with asyncio.timeout(LONGEST):
            version = int(ready.metadata.resourceVersion)
            while all(  # noqa: ASYNC110 - the recording is another watch, which may be later
                int(one.metadata.resourceVersion) < version
                for _, one in recording.seen
                if one.name == "vmi"
            ):
                await asyncio.sleep(LOOK_SECONDS)
    print(diagram(recording.steps()), file=sys.stderr)
    found = writes_until_ready(recording)
    others = not_of_kubevirt(recording)
    figures.add("writes of client and KubeVirt's actors until Ready", found.total() - others)
    figures.add("writes with those of scheduler and kubelet until Ready", found.total())
    figures.add("- to the VMI", found["vmi"])
    figures.add("- to its pod", found["pod"])
    (pod,) = (await guests.kube.list(Pod, NAMESPACE)).items
    resources = [one.resources for one in pod.spec.containers if one.resources is not None]
    asked = sum(one.requests["memory"].value for one in resources) / 2**20
    figures.add("pod's memory request over the guest, MiB", asked - GUEST_MIB)
    await removed(guests, "first")


async def start_one(guests: Guests, figures: Figures, repetitions: int) -> None:
    """Time and CPU time from the create of an instance until its guest runs."""
    seconds, used = list[float](), list[Mapping[str, float]]()
    for number in range(repetitions):
        name = f"one-{number}"
        before, began = usage(guests.lab), monotonic()
        await guests.create(guest(name))
        await runs(guests, name)
        seconds.append(monotonic() - began)
        used.append(usage(guests.lab).since(before))
        await removed(guests, name)
    figures.spread("create to Running", seconds)
    totals = [sum(one.values()) for one in used]
    figures.add("CPU until Running, all processes, s", statistics.median(totals))
    for role in sorted({role for one in used for role in one}):
        figures.add(f"- {role}, s", statistics.median(one.get(role, 0.0) for one in used))


async def launcher_killed(guests: Guests, figures: Figures, repetitions: int) -> None:
    """Time from the kill of a pod's first process until the instance has failed."""
    seconds = list[float]()
    for number in range(repetitions):
        name = f"killed-{number}"
        await guests.create(guest(name))
        await runs(guests, name)
        (first,) = (one for one in pod_processes(guests, name) if one.command == "unshare")
        began = monotonic()
        os.kill(first.pid, signal.SIGKILL)
        phase = await guests.ended(name, LONGEST)
        seconds.append(monotonic() - began)
        assert phase == "Failed", phase
        await removed(guests, name)
    figures.spread("launcher killed to Failed", seconds)


async def guest_off(guests: Guests, figures: Figures, repetitions: int) -> None:
    """Time from the end of a deleted guest, which hears the power button, until its object goes."""
    seconds = list[float]()
    for number in range(repetitions):
        name = f"off-{number}"
        await guests.create(guest(name, "obey", grace=60))
        await runs(guests, name)
        (emulator,) = (one for one in pod_processes(guests, name) if one.role == QEMU)
        ended = asyncio.create_task(end_of(emulator))
        await guests.delete(name)
        await guests.are_gone(name, within=LONGEST)
        gone = monotonic()
        seconds.append(gone - await ended)
        await without_pods(guests.lab)
    figures.spread("guest off to object gone", seconds)


async def end_of(process: Process) -> float:
    """When a process has ended, by the monotonic clock."""
    if not await processes.ended(process.pid, timedelta(seconds=LONGEST)):
        raise SystemExit(f"{process.role} {process.pid} does not end")
    return monotonic()


async def many_instances(guests: Guests, figures: Figures, many: int, idle: float) -> None:
    """Memory with many instances, and what the host's actors do while nothing happens."""
    names = [f"many-{number}" for number in range(many)]
    for name in names:  # one after the other: emulated guests that boot at once slow each other
        await guests.create(guest(name, memory_mib=GUEST_MIB))
        await runs(guests, name)
    await asyncio.sleep(SETTLE)  # their firmware is done, and the last status is written
    await memory(guests, figures, many)
    await idling(guests, figures, idle)
    await removed(guests, *names)


async def memory(guests: Guests, figures: Figures, many: int) -> None:
    pss = pss_by_role(lab_processes(guests.lab))
    figures.add("instances", many)
    each = (pss[LAUNCHER] + pss[LIBVIRTD]) / many
    figures.add("launcher and libvirtd for each of many, PSS MiB", each)
    for role in (LAUNCHER, LIBVIRTD, QEMU):
        figures.add(f"- {role}, each, PSS MiB", pss[role] / many)
    with tempfile.TemporaryDirectory() as folder:
        async with virt_api(Path(folder)) as (pid, _):
            separate = pss_mib(pid)
    together = separate + pss[CONTROLLER] + pss[VIRT_HANDLER]
    figures.add("virt-api, controller, handler, PSS MiB", together)
    figures.add("- virt-api as a process of its own, PSS MiB", separate)
    figures.add(f"- {CONTROLLER}, PSS MiB", pss[CONTROLLER])
    figures.add(f"- {VIRT_HANDLER}, PSS MiB", pss[VIRT_HANDLER])
    figures.add(f"{RUNTIME}, PSS MiB", pss[RUNTIME])
    figures.add("embedded API server with virt-api in it, PSS MiB", pss[API_SERVER])


@dataclass
class Writes:
    """Writes after a version, by what was written; Leases of Nodes are the kubelet's."""

    after: int
    seen: Counter[str] = field(default_factory=Counter[str])

    async def count(self, events: AsyncIterator[WatchEvent[Object]], kind: str) -> None:
        async for event in events:
            if event.object is None:
                continue
            meta = event.object.metadata
            is_node_lease = kind == "Lease" and meta.namespace == NODE_LEASES
            if not is_node_lease and int(meta.resourceVersion) > self.after:
                self.seen[f"{kind} {meta.name}"] += 1


@asynccontextmanager
async def counted(kube: Kube) -> AsyncGenerator[Writes]:
    """Count the writes to what handlers and kubelets write."""
    found = Writes(int((await kube.list(Lease)).resource_version))
    kinds: tuple[type[Object], ...] = (Lease, Node, VirtualMachineInstance, Pod, Event)
    async with AsyncExitStack() as stack:
        tasks = [
            asyncio.create_task(
                found.count(await stack.enter_async_context(kube.watch(kind)), kind.__name__)
            )
            for kind in kinds
        ]
        try:
            yield found
            if any(one.done() for one in tasks):
                raise SystemExit("a watch has ended, so writes are not counted")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def idling(guests: Guests, figures: Figures, seconds: float) -> None:
    watched = {VIRT_HANDLER, RUNTIME}
    pids = {one.pid: one.role for one in lab_processes(guests.lab) if one.role in watched}
    async with guests.lab.control.client() as kube, counted(kube) as writes:
        before, began = {pid: cpu_seconds(pid) for pid in pids}, monotonic()
        await asyncio.sleep(seconds)  # what is measured: doing nothing
        passed = monotonic() - began
        used = {pid: 100 * (cpu_seconds(pid) - before[pid]) / passed for pid in pids}
        seen = Counter(writes.seen)
    figures.add("idle handler and kubelet stand-in, CPU %", sum(used.values()))
    for role in sorted(watched):
        figures.add(f"- {role}, %", sum(used[pid] for pid, known in pids.items() if known == role))
    others = sum(count for what, count in seen.items() if not what.startswith("Lease "))
    figures.add("idle, seconds", passed)
    figures.add("idle, writes without Leases", others)
    for what, count in sorted(seen.items()):
        figures.add(f"- to {what}", count)


async def measure(repetitions: int, many: int, idle: float) -> Figures:
    figures = Figures()
    figures.add("load before", os.getloadavg()[0])
    async with virt_lab() as lab, guests_of(lab) as guests:
        await first_instance(guests, figures)
        await start_one(guests, figures, repetitions)
        await launcher_killed(guests, figures, (repetitions + 1) // 2)
        await guest_off(guests, figures, (repetitions + 1) // 2)
        await many_instances(guests, figures, many, idle)
    return figures


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument(
        "--repetitions", type=int, default=8, help="of the start; of the ends, half as many"
    )
    parser.add_argument("--many", type=int, default=8, help="instances for memory and idling")
    parser.add_argument("--idle", type=float, default=30.0, help="seconds of doing nothing")
    options = parser.parse_args()
    figures = asyncio.run(measure(options.repetitions, options.many, options.idle))
    print(table(("figure", "value", "goal", "KubeVirt"), figures.rows()))
    print("guests emulated (TCG)")
    report(options.json, {"accelerator": "tcg", "figures": figures.values})


if __name__ == "__main__":
    main()
