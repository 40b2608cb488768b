"""An OVSNode as the operator caches the whole fleet: what the health of a host follows from.

Ports, flows, counters and issues stay undecoded: `ovsnode` has the whole object. Times are left out
too; who writes a condition reads the object first.
"""

from __future__ import annotations

from typing import ClassVar

from hypercobalt.api.conditions import Condition
from hypercobalt.api.meta import Object, ResourceInfo, Struct
from hypercobalt.api.ovsnode import OVSNode


class ConditionGlance(Struct, frozen=True):
    """A condition without its times."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class BridgeGlance(Struct, frozen=True):
    """A bridge and how it is."""

    name: str = ""
    status: str | None = None


class TunnelsGlance(Struct, frozen=True):
    """The tunnels: how many, and how many of them are down."""

    count: int = 0
    brokenTotal: int | None = None


class ControllerGlance(Struct, frozen=True):
    """The ovn-controller's tunnels."""

    tunnels: TunnelsGlance | None = None


class GlanceStatus(Struct, frozen=True):
    """The conditions, the bridges and the tunnels."""

    conditions: tuple[ConditionGlance, ...] = ()
    bridges: tuple[BridgeGlance, ...] = ()
    ovnController: ControllerGlance | None = None

    def condition(self, type_: str) -> ConditionGlance | None:
        """The condition of that type; None without one."""
        return next((one for one in self.conditions if one.type == type_), None)


class OVSNodeGlance(Object, frozen=True):
    """An OVSNode as a watcher of thousands reads it."""

    resource: ClassVar[ResourceInfo] = OVSNode.resource

    status: GlanceStatus = GlanceStatus()


class WrittenStatus(Struct, frozen=True):
    """The operator's part of the status: conditions that a silent agent cannot vouch for."""

    conditions: tuple[Condition, ...] = ()


class OVSNodeConditions(Object, frozen=True):
    """An OVSNode with no more than conditions, for a server-side apply of some of them."""

    resource: ClassVar[ResourceInfo] = OVSNode.resource

    status: WrittenStatus = WrittenStatus()
