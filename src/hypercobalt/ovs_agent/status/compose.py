"""One status out of the board and what the API has. Pure.

The agent writes all of OVSNode. Counters change all the time, so they are written with a change of
something else, or by a timer: `published` decides which are shown.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from hypercobalt.agent.status import conditions
from hypercobalt.api.ovsnode import OVSNode, OVSNodeStatus
from hypercobalt.ovs_agent.rules.conditions import OWN
from hypercobalt.ovs_agent.status.parts import Parts

FIELDS: Final = tuple(name for name in OVSNodeStatus.__struct_fields__ if name != "conditions")
"""Fields of the status that are removed when the agent has no value for them."""


_FEW_FLOWS: Final = 30  # about those of one port
_SHARE: Final = 0.1


def compose(parts: Parts, stored: OVSNode, kept: OVSNodeStatus) -> OVSNodeStatus:
    """Return the agent's status.

    Args:
        parts: the board.
        stored: the object as the API has it.
        kept: the status as it was when this process first saw the object.
    """
    status = parts.status if parts.status is not None else kept
    found = conditions(parts.conditions, stored.status.conditions, OWN, stored.metadata.generation)
    return replace(status, conditions=found, diagnostics=parts.diagnostics)


def published(last: OVSNodeStatus | None, live: OVSNodeStatus, *, due: bool) -> OVSNodeStatus:
    """Return what to show now: `live` when something but counters changed, or when they are due.

    The number of flows counts as more than a counter when it differs much from `last`, or is 0.

    Args:
        last: what is shown.
        live: the present state, counters included.
        due: whether it is time to write counters again.
    """
    if last is None or due or without_counters(last) != without_counters(live):
        return live
    return live if _flows_differ(last, live) else last


def _flows_differ(last: OVSNodeStatus, live: OVSNodeStatus) -> bool:
    before = {one.name: one.flows or 0 for one in last.bridges}
    return any(
        abs(shown - now) > max(_FEW_FLOWS, _SHARE * shown) or (shown > 0) != (now > 0)
        for shown, now in ((before.get(one.name, 0), one.flows or 0) for one in live.bridges)
    )


def without_counters(status: OVSNodeStatus) -> OVSNodeStatus:
    """The status with each counter that has a value as 0: that it has one, is no counter."""
    bridges = tuple(
        replace(bridge, flows=None if bridge.flows is None else 0) for bridge in status.bridges
    )
    stats = status.flowStats
    return replace(
        status,
        bridges=bridges,
        flowStats=replace(stats, totalFlows=0, flowsPerTable=()) if stats else None,
        metrics=type(status.metrics)() if status.metrics else None,
        lastProbeTime=None,
    )
