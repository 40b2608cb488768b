"""The accounts of KubeVirt's own actors, by the service account that each of them has.

Source: kubevirt, pkg/virt-operator/resource/generate/components, names of service accounts.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.review import RequestUser


class Account(StrEnum):
    """Service accounts in KubeVirt's namespace."""

    API = "kubevirt-apiserver"
    CONTROLLER = "kubevirt-controller"
    HANDLER = "kubevirt-handler"
    OPERATOR = "kubevirt-operator"
    SYNCHRONIZATION = "kubevirt-synchronization-controller"


_OWN: Final = frozenset({Account.API, Account.CONTROLLER, Account.HANDLER, Account.SYNCHRONIZATION})


def account(requester: RequestUser, cluster: ClusterConfig) -> Account | None:
    """The actor of KubeVirt that sends a request; None for anybody else."""
    prefix = f"system:serviceaccount:{cluster.namespace}:"
    if not requester.username.startswith(prefix):
        return None
    name = requester.username.removeprefix(prefix)
    return Account(name) if name in _OWN else None
