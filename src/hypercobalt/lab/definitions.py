"""What the agent of a host in the lab has stored, opened with the operator's key.

For drills and tests, which have the rights of an administrator; an agent has no part in it.
"""

from __future__ import annotations

from hypercobalt.api.core import Secret
from hypercobalt.api.definitions import HostDefinitions
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.sealed_definitions import SealedDefinitions
from hypercobalt.api.sealing import Owner
from hypercobalt.lab import rights
from hypercobalt.lab.operator import DEFINITIONS_SECRET
from hypercobalt.operator.definitions.keys import ring
from hypercobalt.operator.definitions.reader import opened
from hypercobalt.runtime import Kube


async def stored(kube: Kube, host: str) -> HostDefinitions:
    """The definitions of a host; empty while none are stored.

    Args:
        kube: an administrator's.
        host: its name.

    Raises:
        HypercobaltError: they cannot be read.
    """
    own = await kube.get(Hypervisor, host)
    secret = await kube.get(Secret, DEFINITIONS_SECRET, rights.NAMESPACE)
    found = await kube.get(SealedDefinitions, host, rights.NAMESPACE)
    if own is None or secret is None or found is None:
        return HostDefinitions()
    return opened(found, Owner(host, own.metadata.uid), ring(secret))
