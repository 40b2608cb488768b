"""What an agent makes goes with its Hypervisor. Pure."""

from __future__ import annotations

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import OwnerReference


def owned_by(hypervisor: Hypervisor) -> OwnerReference:
    """The reference of an object that the API's collector removes with the Hypervisor."""
    info, meta = Hypervisor.resource, hypervisor.metadata
    return OwnerReference(apiVersion=info.api_version, kind=info.kind, name=meta.name, uid=meta.uid)
