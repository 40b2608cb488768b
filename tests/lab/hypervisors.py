"""Hypervisors for tests of one agent, without the operator: a test plays it where it has to."""

from __future__ import annotations

from hypercobalt.api.core import Node
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta, OwnerReference
from hypercobalt.runtime import AlreadyExistsError, Kube

_SPEC = HypervisorSpec(
    reboot=False,
    evacuateOnReboot=True,
    lifecycleEnabled=True,
    skipTests=True,
    highAvailability=True,
    createCertManagerCertificate=False,
    installCertificate=False,
)


async def make_hypervisor(api: Kube, name: str) -> None:
    """Make the Hypervisor of a Node, where there is none."""
    node = await api.get(Node, name)
    assert node is not None
    owner = OwnerReference(
        apiVersion="v1",
        kind="Node",
        name=name,
        uid=node.metadata.uid,
        blockOwnerDeletion=True,
    )
    meta = ObjectMeta(name=name, ownerReferences=(owner,))
    try:
        made = await api.create(Hypervisor(metadata=meta, spec=_SPEC))
    except AlreadyExistsError:
        return
    (address,) = [one.address for one in node.status.addresses if one.type == "InternalIP"]
    await api.patch_status(made, HypervisorStatus(internalIp=address))
