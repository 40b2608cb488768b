"""Finds the hosts with a network that keeps instances from going there. Pure.

A host whose own switch is broken takes nothing. Where OVN binds no ports, a running instance would
lose its network on arrival, so its move waits; a stopped one loses nothing, and what runs nowhere
any more is better off there than on no host: such hosts come last.

Source: docs/decisions/0034-whose-fault-a-broken-network-is.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hypercobalt.api.conditions import is_true
from hypercobalt.api.hypervisor import (
    Hypervisor,
    binds_no_ports,
    is_claimed,
    is_network_broken,
)
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.operator.eviction.model.facts import Networks
from hypercobalt.operator.shared.node_facts import host_names
from hypercobalt.runtime import Cache

BY_NETWORK: Final = "network"
"""Index of Hypervisors: those with such a network, by the value below."""

BROKEN, UNBOUND = "broken", "unbound"


def network_of(hypervisor: Hypervisor) -> Iterable[str]:
    """Index function of `BY_NETWORK`; a fleet in order has nothing in it."""
    if is_network_broken(hypervisor):
        return (BROKEN,)
    return (UNBOUND,) if binds_no_ports(hypervisor) else ()


def networks(hypervisors: Cache[Hypervisor], leaves: str) -> Networks:
    """Return the hosts whose networks keep instances out.

    Args:
        hypervisors: with the index `BY_NETWORK`.
        leaves: name of the Hypervisor that is emptied: it is no target anyhow.
    """
    broken = [
        hypervisor
        for hypervisor in hypervisors.find(BY_NETWORK, BROKEN)
        if hypervisor.metadata.name != leaves
    ]
    unbound = [
        hypervisor
        for hypervisor in hypervisors.find(BY_NETWORK, UNBOUND)
        if hypervisor.metadata.name != leaves
    ]
    return Networks(
        _names(broken), _names(unbound), bool(unbound) or not all(map(_is_disabled, broken))
    )


def _is_disabled(hypervisor: Hypervisor) -> bool:
    return is_true(hypervisor.conditions, HypervisorConditionType.HYPERVISOR_DISABLED)


def _names(hypervisors: Iterable[Hypervisor]) -> frozenset[str]:
    """Return their names, without a name that one of them has taken from another host."""
    own = (hypervisor for hypervisor in hypervisors if not is_claimed(hypervisor))
    return frozenset(name for hypervisor in own for name in host_names(hypervisor))
