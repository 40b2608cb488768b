"""Nodes without a Hypervisor: each gets its own before other controllers turn to new hosts."""

from __future__ import annotations

from hypercobalt.api.core import Node
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.operator.shared.node_facts import takes_all_along
from hypercobalt.runtime import Informer
from hypercobalt.runtime.precedence import Precedence


class NewNodes:
    """A handler of both kinds: a Node whose Hypervisor is not there yet goes first.

    Agents, evictions and people need the object; the needs of OpenStack and others can follow.

    Args:
        hypervisors: those that are there.
        precedence: that other controllers yield to.
    """

    def __init__(self, hypervisors: Informer[Hypervisor], precedence: Precedence) -> None:
        self._hypervisors, self._precedence = hypervisors.cache, precedence
        hypervisors.add_handler(_Made(precedence))

    def on_add(self, obj: Node) -> None:
        if self._hypervisors.get(obj.metadata.name) is None and not takes_all_along(obj):
            self._precedence.begin(obj.metadata.name)

    def on_update(self, old: Node, new: Node) -> None:
        """Record any change: the first pass is under way or over."""

    def on_delete(self, obj: Node) -> None:
        self._precedence.end(obj.metadata.name)


class _Made:
    def __init__(self, precedence: Precedence) -> None:
        self._precedence = precedence

    def on_add(self, obj: Hypervisor) -> None:
        self._precedence.end(obj.metadata.name)

    def on_update(self, old: Hypervisor, new: Hypervisor) -> None:
        """Do nothing: a Hypervisor that existed before is not new."""

    def on_delete(self, obj: Hypervisor) -> None:
        """Do nothing: a Node that is left leads to a pass as any other."""
