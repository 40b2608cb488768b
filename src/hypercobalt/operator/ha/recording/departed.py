"""Removes instances from a dead host's status that its recovery has started elsewhere. Pure.

The list belongs to the node agent, which has died with its host: until the host is back it would
show instances and capacity that are another host's. The operator has the proof that the agent no
longer writes, and removes the instances that its own recovery names; none is removed because it is
missing somewhere. The agent of a host that is back writes what it finds.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from hypercobalt.api.eviction import EvictionMode, InstancePhase
from hypercobalt.api.hypervisor import CPU, MEMORY, is_fenced
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.quantity import Quantity
from hypercobalt.compute.model import Server, total
from hypercobalt.operator.ha.model.facts import RecoveryFacts

_NOTHING = Quantity("0")
_MIB = 1 << 20


def departed(facts: RecoveryFacts) -> frozenset[str]:
    """Return UUIDs in a dead host's status of instances that have left by its recovery."""
    if not is_fenced(facts.hypervisor) or facts.latest.agent or facts.host is None:
        return frozenset()
    left = {
        entry.id
        for eviction in facts.evictions
        for entry in eviction.status.instances
        if entry.phase == InstancePhase.SUCCEEDED and entry.mode != EvictionMode.RESTART
    }
    listed = {instance.id for instance in facts.hypervisor.status.instances}
    return frozenset(listed & left - set(facts.host.servers))


def without(
    status: HypervisorStatus, gone: frozenset[str], left: Iterable[Server]
) -> HypervisorStatus:
    """Return the status without them.

    Args:
        status: of a dead host.
        gone: UUIDs.
        left: servers that are still there by the compute service, with their sizes.
    """
    listed = tuple(instance for instance in status.instances if instance.id not in gone)
    number = max((status.numInstances or 0) - len(gone), len(listed))
    size = total([server.size for server in left if server.id not in gone])
    given = {CPU: Quantity(f"{size.vcpus:g}"), MEMORY: Quantity(str(size.memory_mib * _MIB))}
    changed = replace(status, instances=listed, numInstances=number)
    if number:  # on which cells those are only their agent knew: of a cell all of it stays given
        return replace(changed, allocation=status.allocation | given)
    return replace(
        changed,
        allocation=dict.fromkeys((*status.allocation, CPU, MEMORY), _NOTHING),
        cells=tuple(
            replace(cell, allocation=dict.fromkeys(cell.allocation, _NOTHING))
            for cell in status.cells
        ),
    )
