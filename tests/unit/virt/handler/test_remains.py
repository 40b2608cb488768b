"""What a pod shows of a VMI that is gone."""

from __future__ import annotations

import pytest

from hypercobalt.api.meta import ObjectMeta, OwnerReference
from hypercobalt.api.workloads import Pod, PodSpec
from hypercobalt.virt.handler.remains import remains_of
from hypercobalt.vmi.launcher_pods import owns


def pod(grace: int | None = 60, *, kind: str = "VirtualMachineInstance") -> Pod:
    owner = OwnerReference(
        apiVersion="kubevirt.io/v1", kind=kind, name="vm", uid="u1", controller=True
    )
    meta = ObjectMeta(name="p", namespace="ns", uid="p1", ownerReferences=(owner,))
    return Pod(metadata=meta, spec=PodSpec(nodeName="node-a", terminationGracePeriodSeconds=grace))


@pytest.mark.parametrize(
    ("of_pod", "of_guest"), [(60, 30), (30, 0), (0, 0), (-5, 0), (None, None), (2**62, 2**31 - 31)]
)
def test_grace_of_the_guest_is_what_its_pods_was_made_from(
    of_pod: int | None, of_guest: int | None
) -> None:
    vmi = remains_of(pod(of_pod))
    assert vmi is not None
    assert vmi.spec.terminationGracePeriodSeconds == of_guest


def test_pod_is_that_of_its_remains() -> None:
    vmi = remains_of(pod())
    assert vmi is not None
    assert (vmi.metadata.namespace, vmi.metadata.name, vmi.metadata.uid) == ("ns", "vm", "u1")
    assert owns(vmi, pod())


def test_pod_of_another_owner_has_no_remains() -> None:
    assert remains_of(pod(kind="VirtualMachine")) is None
