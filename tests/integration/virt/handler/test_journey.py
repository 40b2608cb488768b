"""virt-handler takes VMIs from the hand-over to their end, with launchers over the real wire."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from time import monotonic

import pytest
from msgspec.structs import replace
from tests.integration.runtime.scripted import eventually
from tests.integration.virt.controller.world import NODE, Kubelet, Lab
from tests.integration.virt.handler.node import (
    CRASHED,
    OFF,
    RUNS,
    FakeLauncher,
    Node,
    one_write,
)

from hypercobalt.api import core
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.workloads import Pod
from hypercobalt.errors import TerminalError, TransientError
from hypercobalt.virt.wire.messages import DomainReport, PausedBy
from hypercobalt.vmi import conditions
from hypercobalt.vmi.phases import LifeCycle

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]


def is_paused(vmi: VirtualMachineInstance) -> bool:
    return conditions.get(vmi.status.conditions, "Paused") is not None


@pytest.fixture
def node(lab: Lab, pods: Path) -> Node:
    return Node(lab, pods)


async def test_guest_is_started_shown_shut_down_and_its_launcher_let_go(node: Node) -> None:
    async with node.handler() as metrics:
        pod = await node.handed_over()
        async with node.launcher(pod) as launcher:
            vmi = await node.lab.phase("Running")
            assert launcher.names() == ["Sync"]
            assert vmi.status.machine is not None
            assert vmi.status.machine.type == "pc-q35-7.2"
            types = {one.type for one in vmi.status.conditions}
            assert types == {"SoftwareEmulation", "LiveMigratable"}
            await one_write(metrics)
            await node.deletes()
            await node.lab.phase("Succeeded")
            await launcher.called("Delete")
            assert launcher.names() == ["Sync", "Shutdown", "Delete"]
        phases = [
            one.phase
            for one in (await node.lab.phase("Succeeded")).status.phaseTransitionTimestamps
        ]
        assert phases == ["Scheduled", "Running", "Succeeded"]

        async def told() -> bool:
            return len(await node.events(vmi)) == 5

        await eventually(told)
    assert await node.events(vmi) == ["Created", "Started", "ShuttingDown", "Stopped", "Deleted"]


async def test_launcher_that_is_killed_fails_its_vmi_within_two_seconds(node: Node) -> None:
    async with node.handler():
        pod = await node.handed_over()
        with node.process(pod) as process:
            await node.lab.phase("Running")
            began = monotonic()
            process.send_signal(signal.SIGKILL)
            await node.lab.phase("Failed")
            assert monotonic() - began < 2.0


async def test_handler_that_was_away_finds_everything_as_it_is(node: Node) -> None:
    pod, dead, off = [await node.handed_over(name, "Running") for name in ("runs", "dead", "off")]
    ended = node.process(dead)
    with ended as process:
        await eventually(node.socket(dead).exists)
        process.kill()
        process.wait()
    async with (
        node.launcher(pod, FakeLauncher(report=RUNS)) as launcher,
        node.launcher(off, FakeLauncher(report=OFF)) as other,
        node.handler(),
    ):
        await node.lab.phase("Failed", "dead")
        await node.lab.phase("Succeeded", "off")
        await other.called("Delete")
        assert launcher.calls == []
        vmi = await node.lab.vmi("runs")
        assert vmi is not None
        assert vmi.status.phase == "Running"


async def test_restarted_handler_touches_no_guest(node: Node) -> None:
    pod = await node.handed_over()
    async with node.launcher(pod) as launcher:
        async with node.handler():
            before = await node.lab.until(lambda vmi: bool(vmi.status.machine))
        async with node.handler() as metrics:
            await eventually(lambda: len(launcher.server._connections) == 1)
            launcher.reports(DomainReport(LifeCycle.PAUSED, paused_by=PausedBy.USER))
            await node.lab.until(is_paused)
            assert launcher.names() == ["Sync"]
            await one_write(metrics)
    after = await node.lab.vmi()
    assert after is not None
    assert after.status.phase == before.status.phase == "Running"


async def test_crash_and_forced_end_fail_the_vmi(node: Node) -> None:
    async with node.handler():
        first, second = await node.handed_over("one"), await node.handed_over("two")
        stubborn = FakeLauncher(obeys=False)
        async with node.launcher(first) as one, node.launcher(second, stubborn):
            await one.called("Sync")
            await node.lab.phase("Running", "one")
            one.reports(CRASHED)
            await node.lab.phase("Failed", "one")
            await stubborn.called("Sync")
            stubborn.reports(RUNS)
            await node.lab.phase("Running", "two")
            await node.lab.kube.modify(
                VirtualMachineInstance,
                "two",
                lambda vmi: replace(vmi, spec=replace(vmi.spec, terminationGracePeriodSeconds=1)),
                node.lab.namespace,
            )
            await node.deletes("two")
            await node.lab.phase("Failed", "two")
            assert stubborn.names()[:3] == ["Sync", "Shutdown", "Kill"]


async def test_pod_that_is_told_to_end_has_its_guest_shut_down(node: Node) -> None:
    async with node.handler():
        pod = await node.handed_over()
        async with node.launcher(pod) as launcher:
            vmi = await node.lab.phase("Running")
            launcher.reports(
                DomainReport(LifeCycle.RUNNING, marked_since=vmi.metadata.creationTimestamp)
            )
            await node.lab.phase("Succeeded")
            assert launcher.names()[:2] == ["Sync", "Shutdown"]


async def test_start_that_fails_is_shown_and_tried_again(node: Node) -> None:
    async with node.handler():
        pod = await node.handed_over()
        fake = FakeLauncher(fails=TransientError("no room on the disk"))
        async with node.launcher(pod, fake) as launcher:
            vmi = await node.lab.until(lambda vmi: bool(vmi.status.conditions))
            shown = conditions.get(vmi.status.conditions, "Synchronized")
            assert shown is not None
            assert shown.message == "Sync: no room on the disk"
            launcher.fails = None
            vmi = await node.lab.phase("Running")
            assert conditions.get(vmi.status.conditions, "Synchronized") is None


async def test_vmi_that_the_launcher_refuses_is_not_tried_again(node: Node) -> None:
    async with node.handler():
        pod = await node.handed_over()
        fake = FakeLauncher(fails=TerminalError("spec.x: cannot be", reason="Invalid"))
        async with node.launcher(pod, fake) as launcher:
            await node.lab.until(lambda vmi: bool(vmi.status.conditions))
            launcher.reports(replace(DomainReport(), machine="x"))  # a reason for a further pass
            await asyncio.sleep(1.2)
            assert launcher.names() == ["Sync"]


async def test_guest_whose_disk_fails_is_resumed_again_and_again(node: Node) -> None:
    async with node.handler():
        pod = await node.handed_over()
        async with node.launcher(pod) as launcher:
            await node.lab.phase("Running")
            launcher.obeys = False
            broken = DomainReport(LifeCycle.PAUSED, paused_by=PausedBy.IO_ERROR)
            launcher.reports(broken)
            await launcher.called("Sync", 3)
            vmi = await node.lab.until(is_paused)
            launcher.reports(RUNS)
            await node.lab.until(lambda vmi: not is_paused(vmi))
    assert "IOerror" in await node.events(vmi)


async def test_pod_of_an_impostor_is_not_followed(node: Node) -> None:
    """A pod that names the VMI as its owner, with a label, and is not in its record."""
    async with node.handler():
        pod = await node.handed_over("vm")
        vmi = await node.lab.vmi()
        assert vmi is not None
        meta = replace(pod.metadata, name="impostor", uid="", resourceVersion="", labels={})
        made = await node.lab.kube.create(
            replace(pod, metadata=meta, spec=replace(pod.spec, nodeName=""))
        )
        kubelet = Kubelet(node.lab)
        await kubelet.binds(made)
        node.directory(made.metadata.uid).mkdir(parents=True)
        impostor = FakeLauncher(report=RUNS)
        async with node.launcher(made, impostor), node.launcher(pod) as own:
            await node.lab.phase("Running")
            assert own.names() == ["Sync"]
            assert impostor.calls == []
            assert not impostor.server._connections
        await node.lab.kube.delete(Pod, "impostor", node.lab.namespace)


async def test_vmi_of_another_node_is_left_alone(node: Node) -> None:
    async with node.handler():
        pod = await node.handed_over("mine")
        other = await node.handed_over("other")
        await node.lab.kube.modify(
            VirtualMachineInstance,
            "other",
            lambda vmi: replace(vmi, status=replace(vmi.status, nodeName="node-b")),
            node.lab.namespace,
        )
        async with node.launcher(other) as launcher, node.launcher(pod):
            await node.lab.phase("Running", "mine")
            assert launcher.calls == []


async def stripped(node: Node) -> None:
    """Remove the VMI by force: nobody is waited for."""
    await node.lab.kube.modify(
        VirtualMachineInstance,
        "vm",
        lambda vmi: replace(vmi, metadata=replace(vmi.metadata, finalizers=())),
        node.lab.namespace,
    )
    await node.deletes()
    await node.lab.gone()


@pytest.mark.usefixtures("node_goes")
@pytest.mark.parametrize("again", [False, True], ids=["gone", "made-anew"])
async def test_restarted_handler_shuts_down_a_guest_whose_vmi_was_removed_by_force(
    node: Node, again: bool
) -> None:
    await node.lab.kube.create(core.Node(metadata=ObjectMeta(name=NODE)))  # whose pods have a grace
    old = await node.handed_over()
    async with node.launcher(old) as launcher:
        async with node.handler():
            await node.lab.phase("Running")
        await stripped(node)
        if again:
            await node.handed_over()
        async with node.handler():
            await launcher.called("Delete")
            assert launcher.names() == ["Sync", "Shutdown", "Delete"]


async def test_guest_whose_vmi_was_removed_by_force_is_shut_down(node: Node) -> None:
    async with node.handler():
        pod = await node.handed_over()
        async with node.launcher(pod) as launcher:
            await node.lab.phase("Running")
            await stripped(node)
            await launcher.called("Delete")
            assert launcher.names() == ["Sync", "Shutdown", "Delete"]


async def test_guest_whose_vmi_was_removed_by_force_and_made_anew_is_shut_down(node: Node) -> None:
    async with node.handler():
        old = await node.handed_over()
        async with node.launcher(old) as launcher:
            await node.lab.phase("Running")
            launcher.obeys = False
            await stripped(node)
            new = await node.handed_over()
            async with node.launcher(new) as other:
                await node.lab.phase("Running")
                launcher.obeys = True
                await launcher.called("Delete")
                assert set(launcher.names()[1:-1]) == {"Shutdown"}
                assert other.names() == ["Sync"]


async def test_vmi_without_its_label_is_still_the_nodes(node: Node) -> None:
    async with node.handler():
        pod = await node.handed_over()
        async with node.launcher(pod) as launcher:
            await node.lab.phase("Running")
            await node.lab.kube.modify(
                VirtualMachineInstance,
                "vm",
                lambda vmi: replace(vmi, metadata=replace(vmi.metadata, labels={})),
                node.lab.namespace,
            )
            launcher.reports(OFF)
            await node.lab.phase("Succeeded")
            assert launcher.names()[0] == "Sync"
            assert "Shutdown" not in launcher.names()
