"""OVSNodes as the operator's cache has them, and a cache of one."""

from __future__ import annotations

from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.ovsnode_glance import (
    BridgeGlance,
    ConditionGlance,
    ControllerGlance,
    GlanceStatus,
    OVSNodeGlance,
    TunnelsGlance,
)

NAMESPACE = "ovn-system"
GOOD = {
    "OVSDBConnected": ("True", "Connected"),
    "VswitchdResponding": ("True", "Responding"),
    "OVNControllerConnected": ("True", "Connected"),
    "AllBridgesHealthy": ("True", "AllBridgesActive"),
    "AllBondsHealthy": ("True", "AllMembersActive"),
    "Ready": ("True", "AllChecksPassed"),
}
SILENT = {"Ready": ("Unknown", "AgentSilent")}


def switch(
    changed: dict[str, tuple[str, str]] | None = None,
    *,
    bridges: dict[str, str] | None = None,
    without: tuple[str, ...] = (),
    tunnels: TunnelsGlance | None = None,
    version: str = "1",
) -> OVSNodeGlance:
    """OVSNode of the host `kvm-a`, in order but for the arguments.

    Args:
        changed: status and reason of conditions.
        bridges: status by name, instead of a br-int that is Active.
        without: types of conditions that it does not have.
        tunnels: tunnels of its ovn-controller.
        version: resourceVersion of the object.
    """
    conditions = tuple(
        ConditionGlance(type=type_, status=status, reason=reason, message=f"{type_} it is")
        for type_, (status, reason) in (GOOD | (changed or {})).items()
        if type_ not in without
    )
    shown = {"br-int": "Active"} if bridges is None else bridges
    return OVSNodeGlance(
        metadata=ObjectMeta(name="kvm-a", namespace=NAMESPACE, resourceVersion=version, uid="u"),
        status=GlanceStatus(
            conditions=conditions,
            bridges=tuple(BridgeGlance(name=n, status=s) for n, s in shown.items()),
            ovnController=ControllerGlance(tunnels=tunnels),
        ),
    )


class Cache:
    """The operator's cache of OVSNodes.

    Attributes:
        shown: the only one; None for none.
    """

    namespace = NAMESPACE

    def __init__(self, shown: OVSNodeGlance | None) -> None:
        self.shown = shown

    def get(self, _name: str) -> OVSNodeGlance | None:
        return self.shown
