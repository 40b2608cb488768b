"""The way of a VMI through virt-controller; scheduler, kubelet and handler act on order."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.integration.runtime.scripted import eventually
from tests.integration.virt.controller.world import (
    NODE,
    Handler,
    Kubelet,
    Lab,
    controller,
    handed_over,
    watching,
)

from hypercobalt.api.coordination import Event
from hypercobalt.api.core import NodeCondition
from hypercobalt.api.kubevirt.names import UNPAUSED_GATE
from hypercobalt.api.kubevirt.status import VMICondition
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.meta import ObjectMeta, owner_reference
from hypercobalt.api.workloads import Container, Pod, PodSpec
from hypercobalt.virt.controller.model import launcher_name
from hypercobalt.vmi.launcher_pods import pod_condition

pytestmark = pytest.mark.asyncio(loop_scope="session")

PATCHED = "patch virtualmachineinstances.kubevirt.io"


def ready(vmi: VirtualMachineInstance) -> str:
    found = next((one for one in vmi.status.conditions if one.type == "Ready"), None)
    return f"{found.status}/{found.reason}" if found else ""


async def runs(lab: Lab) -> VirtualMachineInstance:
    """Have a VMI run, until it is ready."""
    vmi = await handed_over(lab)
    await Handler(lab).sets("Running")
    pod = await lab.until_pod(lambda p: pod_condition(p, UNPAUSED_GATE) is not None, vmi)
    await Kubelet(lab).runs(pod)
    return await lab.until(lambda v: ready(v).startswith("True"))


async def test_vmi_goes_from_its_creation_to_ready_and_away_again(lab: Lab) -> None:
    async with watching(lab) as seen, controller(lab.kubeconfig) as running:
        await lab.add()
        vmi = await runs(lab)
        # A call is counted when its answer is there, which a watch may be ahead of.
        await eventually(lambda: PATCHED in running.calls())
        calls = running.calls()
        await lab.kube.delete(VirtualMachineInstance, "vm", lab.namespace)
        pod = await lab.until_pod(lambda p: p.metadata.deletionTimestamp is not None, vmi)
        await lab.until(lambda v: ready(v) == "False/PodTerminating")
        await Handler(lab).sets("Succeeded")
        await Kubelet(lab).removes(pod)
        await lab.gone()
    phases = list(dict.fromkeys(one.status.phase for one in seen.vmis))
    assert phases == ["Pending", "Scheduling", "Scheduled", "Running", "Succeeded"]
    assert [one.phase for one in vmi.status.phaseTransitionTimestamps] == [
        "Scheduling",
        "Scheduled",
    ]
    assert vmi.metadata.labels["kubevirt.io/nodeName"] == NODE == vmi.status.nodeName
    assert list(vmi.status.activePods.values()) == [NODE]
    assert vmi.status.migrationTransport == "Unix"
    assert calls["create pods"] == 1
    assert calls["update virtualmachineinstances.kubevirt.io"] == 2
    assert calls[PATCHED] == 1
    assert calls["apply pods"] == 1
    assert len({one.metadata.uid for one in seen.pods}) == 1


async def test_events_have_upstreams_reasons(lab: Lab) -> None:
    async with controller(lab.kubeconfig):
        await lab.add()
        vmi = await handed_over(lab)
        await lab.kube.delete(VirtualMachineInstance, "vm", lab.namespace)
        pod = await lab.until_pod(lambda p: p.metadata.deletionTimestamp is not None, vmi)
        await Handler(lab).sets("Failed")
        await Kubelet(lab).removes(pod)
        await lab.gone()
    events = (await lab.kube.list(Event, lab.namespace)).items
    assert {(one.type, one.reason) for one in events} == {
        ("Normal", "SuccessfulCreate"),
        ("Normal", "SuccessfulDelete"),
    }
    assert all(one.note.endswith(pod.metadata.name) for one in events)


async def test_pending_vmi_that_is_deleted_before_it_has_a_pod_fails_and_goes(lab: Lab) -> None:
    await lab.add()
    await lab.kube.delete(VirtualMachineInstance, "vm", lab.namespace)
    async with watching(lab) as seen, controller(lab.kubeconfig):
        await lab.gone()
    assert seen.vmis[-1].status.phase == "Failed"
    assert seen.pods == []


@pytest.mark.parametrize("phase", ["Scheduling", "Scheduled", "Running"])
async def test_vmi_whose_pod_vanishes_fails(lab: Lab, phase: str) -> None:
    async with controller(lab.kubeconfig):
        await lab.add()
        vmi = await lab.phase("Scheduling")
        if phase != "Scheduling":
            vmi = await handed_over(lab)
        if phase == "Running":
            await Handler(lab).sets("Running")
        pod = await lab.until_pod(lambda _: True, vmi)
        await Kubelet(lab).removes(pod)
        failed = await lab.until(lambda v: v.status.phase == "Failed" and not v.metadata.finalizers)
        assert failed.status.activePods == {}
        assert ready(failed) == "False/PodNotExists"
        assert await lab.pods() == []


async def test_pod_that_ends_before_the_hand_over_fails_the_vmi(lab: Lab) -> None:
    async with controller(lab.kubeconfig):
        await lab.add()
        vmi = await lab.phase("Scheduling")
        pod = await lab.until_pod(lambda _: True, vmi)
        await Kubelet(lab).ends(pod, "Failed")
        await lab.phase("Failed")
        await lab.until(lambda v: not v.metadata.finalizers)


async def test_pod_without_its_label_is_still_the_vmis(lab: Lab) -> None:
    async with controller(lab.kubeconfig) as running:
        await lab.add()
        vmi = await handed_over(lab)

        def bare(pod: Pod) -> Pod:
            return replace(pod, metadata=replace(pod.metadata, labels={}))

        await lab.kube.modify(Pod, launcher_name(vmi), bare, lab.namespace)
        before = running.calls().get("get pods", 0)
        await eventually(lambda: running.calls().get("get pods", 0) > before, seconds=10)
        found = await lab.vmi()
        assert found is not None
        assert (found.status.phase, len(found.status.activePods)) == ("Scheduled", 1)


@pytest.mark.parametrize("labelled", [True, False], ids=["labelled", "bare"])
async def test_pod_of_an_impostor_is_deleted_and_counts_for_nothing(
    lab: Lab, labelled: bool
) -> None:
    vmi = await lab.add()
    owner = vmi.metadata
    labels = {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": owner.uid}
    meta = ObjectMeta(
        name=launcher_name(vmi),
        namespace=lab.namespace,
        labels=labels if labelled else {},
        ownerReferences=(owner_reference(vmi, controller=True),),
    )
    spec = PodSpec(containers=(Container(name="compute", image="theirs"),))
    theirs = await lab.kube.create(Pod(metadata=meta, spec=spec))
    async with controller(lab.kubeconfig):
        found = await handed_over(lab)
    (pod,) = await lab.pods()
    assert pod.metadata.uid != theirs.metadata.uid
    assert list(found.status.activePods) == [pod.metadata.uid]


async def test_stray_that_takes_its_time_to_go_is_named_while_it_is_waited_for(lab: Lab) -> None:
    vmi = await lab.add()
    meta = ObjectMeta(
        name=launcher_name(vmi),
        namespace=lab.namespace,
        finalizers=("example.com/holds",),
        ownerReferences=(owner_reference(vmi, controller=True),),
    )
    spec = PodSpec(containers=(Container(name="compute", image="theirs"),))
    theirs = await lab.kube.create(Pod(metadata=meta, spec=spec))
    async with controller(lab.kubeconfig):
        shown = await lab.until(lambda v: bool(v.status.conditions))
        (condition,) = shown.status.conditions
        assert (condition.type, condition.reason) == ("Synchronized", "FailedCreate")
        assert theirs.metadata.name in condition.message
        left = await lab.until_pod(lambda _: True, vmi)
        assert left.metadata.deletionTimestamp is not None  # so what is shown is true
        await lab.kube.modify(
            Pod,
            theirs.metadata.name,
            lambda pod: replace(pod, metadata=replace(pod.metadata, finalizers=())),
            lab.namespace,
        )
        vmi = await lab.phase("Scheduling")
    assert not any(c.type == "Synchronized" for c in vmi.status.conditions)


async def test_name_that_another_pod_has_is_reported_and_retried(lab: Lab) -> None:
    vmi = await lab.add()
    name = launcher_name(vmi)
    meta = ObjectMeta(name=name, namespace=lab.namespace)
    spec = PodSpec(containers=(Container(name="x", image="x"),))
    theirs = await lab.kube.create(Pod(metadata=meta, spec=spec))
    async with controller(lab.kubeconfig):
        failed = await lab.until(
            lambda v: any(c.reason == "FailedCreate" for c in v.status.conditions)
        )
        assert failed.status.phase == "Pending"
        (shown,) = failed.status.conditions
        assert name in shown.message
        assert "delete it" in shown.message
        await Kubelet(lab).removes(theirs)
        vmi = await lab.phase("Scheduling")
    assert not any(c.type == "Synchronized" for c in vmi.status.conditions)


async def test_unschedulable_is_mirrored_from_the_pod(lab: Lab) -> None:
    async with controller(lab.kubeconfig):
        await lab.add()
        vmi = await lab.phase("Scheduling")
        pod = await lab.until_pod(lambda _: True, vmi)
        shown = NodeCondition(
            type="PodScheduled", status="False", reason="Unschedulable", message="0/1 nodes"
        )

        def report(found: Pod) -> Pod:
            others = [c for c in found.status.conditions if c.type != shown.type]
            return replace(found, status=replace(found.status, conditions=(*others, shown)))

        await Kubelet(lab).reports(pod, report)
        await lab.until(
            lambda v: any(
                c.type == "PodScheduled" and c.status == "False" for c in v.status.conditions
            )
        )
        done = await handed_over(lab)
        assert not any(c.type == "PodScheduled" for c in done.status.conditions)


async def test_gate_and_ready_follow_a_pause(lab: Lab) -> None:
    async with controller(lab.kubeconfig):
        await lab.add()
        vmi = await runs(lab)

        def paused(found: VirtualMachineInstance) -> VirtualMachineInstance:
            shown = VMICondition(type="Paused", status="True", reason="PausedByUser")
            conditions = (*found.status.conditions, shown)
            return replace(found, status=replace(found.status, conditions=conditions))

        await lab.kube.modify(VirtualMachineInstance, "vm", paused, lab.namespace)

        def closed(pod: Pod) -> bool:
            gate = pod_condition(pod, UNPAUSED_GATE)
            return gate is not None and (gate.status, gate.reason) == ("False", "Paused")

        pod = await lab.until_pod(closed, vmi)
        await Kubelet(lab).runs(pod)
        await lab.until(lambda v: ready(v).startswith("False"))


async def test_fields_that_the_controller_does_not_know_survive_its_writes(
    lab: Lab, kubeconfig: Path
) -> None:
    del kubeconfig
    await lab.add()
    status = {"status": {"guestOSInfo": {"name": "x"}, "VSOCKCID": 7}}
    await lab.kube.merge_patch(VirtualMachineInstance, "vm", status, lab.namespace)
    async with controller(lab.kubeconfig):
        await handed_over(lab)
    whole = await lab.kube.get_whole(VirtualMachineInstance, "vm", lab.namespace)
    assert whole is not None
    assert whole.fields["status"]["VSOCKCID"] == 7  # type: ignore[index]


async def test_many_vmis_get_one_pod_each(lab: Lab) -> None:
    names = [f"vm-{number}" for number in range(12)]
    async with controller(lab.kubeconfig):
        for name in names:
            await lab.add(name)
        async with asyncio.TaskGroup() as tasks:
            for name in names:
                tasks.create_task(lab.phase("Scheduling", name))
    assert len(await lab.pods()) == len(names)
