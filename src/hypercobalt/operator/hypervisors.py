"""How the operator's controllers write their parts of a Hypervisor's status.

A part is applied under the controller's own field manager: conditions are merged by type on the
server, so controllers never conflict with each other, with the node agent or with other services.

Source: Kubernetes API concepts, "Server-Side Apply".
"""

from __future__ import annotations

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.operator.newest import Newest
from hypercobalt.runtime import Kube, NotFoundError


async def apply_status(
    kube: Kube, hypervisors: Newest[Hypervisor], stored: Hypervisor, part: HypervisorStatus
) -> Hypervisor:
    """Make `part` the part of the status that `kube`'s field manager owns, if it is not.

    Args:
        kube: writes as the controller; see `Kube.as_manager`.
        hypervisors: hears of what is written.
        stored: the newest known state.
        part: every field and condition that is the controller's, and no others.

    Returns:
        The object as it is then.
    """
    if holds(stored.status, part):
        return stored
    mine = Hypervisor(metadata=ObjectMeta(name=stored.metadata.name), status=part)
    try:
        return hypervisors.wrote(await kube.apply(mine, force=True, subresource="status"))
    except NotFoundError:
        hypervisors.missing(stored)
        raise


def holds(stored: HypervisorStatus, part: HypervisorStatus) -> bool:
    """Whether the status has the given address and every one of the given conditions."""
    address_held = part.internalIp is None or part.internalIp == stored.internalIp
    return address_held and all(condition in stored.conditions for condition in part.conditions)
