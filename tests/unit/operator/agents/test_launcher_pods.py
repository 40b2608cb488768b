"""Which pods and VirtualMachineInstances of a Node are read as guests that run there."""

from __future__ import annotations

from typing import TypeVar, cast

import pytest

from hypercobalt.api.kubevirt.names import NODE_NAME
from hypercobalt.api.kubevirt.status import VMIStatus
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.meta import Object, ObjectMeta, OwnerReference
from hypercobalt.api.workloads import Pod, PodSpec, PodStatus
from hypercobalt.operator.agents.launcher_pods import LauncherPods
from hypercobalt.runtime import Kube, Metrics, NotFoundError
from hypercobalt.runtime.client.collection import ListResult
from hypercobalt.runtime.client.errors import ForbiddenError, Status

T = TypeVar("T", bound=Object)
NODE = "kvm-1"


def pod(
    phase: str = "Running",
    *,
    node: str = NODE,
    api: str = "kubevirt.io/v1",
    kind: str = "VirtualMachineInstance",
    controls: bool | None = True,
) -> Pod:
    owner = OwnerReference(apiVersion=api, kind=kind, name="a", uid="v", controller=controls)
    meta = ObjectMeta(name="launcher", namespace="default", uid="p", ownerReferences=(owner,))
    return Pod(metadata=meta, spec=PodSpec(nodeName=node), status=PodStatus(phase=phase))


def vmi(phase: str = "Running", uid: str = "v") -> VirtualMachineInstance:
    meta = ObjectMeta(name="b", namespace="default", uid=uid)
    return VirtualMachineInstance(metadata=meta, status=VMIStatus(phase=phase))


class Server:
    """Lists what it was given, or raises it."""

    def __init__(
        self,
        pods: list[Pod] | Exception,
        vmis: list[VirtualMachineInstance] | Exception,
        unreadable: dict[str, str],
    ) -> None:
        self.lists: dict[type[Object], list[Pod] | list[VirtualMachineInstance] | Exception] = {
            Pod: pods,
            VirtualMachineInstance: vmis,
        }
        self.unreadable, self.selected = unreadable, list[str]()

    async def list(self, type_: type[T], *, fields: str = "", labels: str = "") -> ListResult[T]:
        self.selected.append(fields or labels)
        found = self.lists[type_]
        if isinstance(found, Exception):
            raise found
        return ListResult(cast("list[T]", found), "1", self.unreadable)


def launchers(
    pods: list[Pod] | Exception = [],  # noqa: B006 - never changed
    vmis: list[VirtualMachineInstance] | Exception = [],  # noqa: B006 - never changed
    unreadable: str = "",
) -> tuple[LauncherPods, Server]:
    server = Server(pods, vmis, {unreadable: "spec: no object"} if unreadable else {})
    return LauncherPods(cast("Kube", server), Metrics()), server


@pytest.mark.parametrize(
    ("given", "runs"),
    [
        pytest.param(pod(), True, id="runs"),
        pytest.param(pod("Pending"), True, id="bound-and-about-to-run"),
        pytest.param(pod("Unknown"), True, id="kubelet-silent"),
        pytest.param(pod("Succeeded"), False, id="succeeded"),
        pytest.param(pod("Failed"), False, id="failed"),
        pytest.param(pod(api="kubevirt.io/v2"), True, id="other-version"),
        pytest.param(pod(api="example.com/v1"), False, id="kind-of-another-group"),
        pytest.param(pod(kind="ReplicaSet"), False, id="other-controller"),
        pytest.param(pod(controls=None), False, id="owner-that-does-not-control"),
        pytest.param(pod(node="kvm-2"), False, id="on-another-node"),
    ],
)
async def test_launcher_pod_counts_until_it_has_ended(given: Pod, *, runs: bool) -> None:
    pods, server = launchers([given])
    found = await pods.read(NODE)
    assert found.names == (("default/a",) if runs else ())
    assert not found.unread
    assert server.selected == [f"spec.nodeName={NODE}", f"{NODE_NAME}={NODE}"]


@pytest.mark.parametrize(
    ("there", "instance", "names"),
    [
        pytest.param([], vmi(), ("default/b",), id="pod-deleted-by-force"),
        pytest.param([], vmi("Scheduled"), ("default/b",), id="handed-over"),
        pytest.param([], vmi("Failed"), (), id="ended"),
        pytest.param([pod()], vmi(), ("default/a",), id="counted-by-its-pod"),
        pytest.param([pod()], vmi(uid="w"), ("default/a", "default/b"), id="another-one"),
        pytest.param([pod("Succeeded")], vmi(), ("default/b",), id="its-end-not-written-yet"),
    ],
)
async def test_instance_counts_without_its_pod(
    there: list[Pod], instance: VirtualMachineInstance, names: tuple[str, ...]
) -> None:
    pods, _ = launchers(there, [instance])
    assert (await pods.read(NODE)).names == names


async def test_server_without_the_kind_has_no_instances() -> None:
    pods, _ = launchers([], NotFoundError("no such kind", Status(code=404)))
    found = await pods.read(NODE)
    assert not found.any


@pytest.mark.parametrize(
    ("pods", "vmis"),
    [
        pytest.param(ForbiddenError("pods is forbidden", Status(code=403)), [], id="pods"),
        pytest.param([], ForbiddenError("vmis is forbidden", Status(code=403)), id="instances"),
    ],
)
async def test_refused_list_is_not_an_empty_one(
    pods: list[Pod] | Exception, vmis: list[VirtualMachineInstance] | Exception
) -> None:
    found = await launchers(pods, vmis)[0].read(NODE)
    assert "is forbidden" in found.unread


async def test_pod_that_cannot_be_read_may_be_a_launcher() -> None:
    pods, _ = launchers(unreadable="default/odd")
    assert (await pods.read(NODE)).unread == "default/odd cannot be read, and may be one"
