"""Conditions of an OVSNode with a silent agent: Unknown/`AgentSilent`, as for a Node.

The last report of an agent stays in the status when it dies. So once its Lease has run out, `Ready`
and each condition that is True are applied here, under a field manager of their own; the agent's
next apply takes them back. One that is False stays: a host that was closed for its switch would
take instances again as its agent dies, too. The rest is the last report, and the messages date it.
An agent without a Lease proves nothing either, once as much time has passed as a Lease has.

An agent that writes its status but does not renew its Lease is alive: it gets its conditions back,
for ten minutes each time.

Source: docs/decisions/0034-whose-fault-a-broken-network-is.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from hypercobalt.api.conditions import Condition, ConditionStatus, get_condition, next_condition
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.ovsnode import OVSNode, OVSNodeConditionType, OVSNodeStatus
from hypercobalt.api.ovsnode_glance import OVSNodeConditions, WrittenStatus
from hypercobalt.api.ovsnode_reasons import OVSReadyReason
from hypercobalt.api.times import format_time
from hypercobalt.logs import get_logger
from hypercobalt.operator.agents.leases import AgentLeases, LeaseSighting, LeaseState
from hypercobalt.operator.network.switches import Switches
from hypercobalt.runtime import Clock, Kube, NotFoundError, Recorder, Result

log = get_logger(__name__)

NAME: Final = "ovs-agent-silence"
"""Name of the controller, and of its field manager."""

AGAIN: Final = timedelta(minutes=10)
"""How long an agent that writes without a Lease is believed."""

_READY: Final = OVSNodeConditionType.READY


def silence(host: str, seen: LeaseSighting) -> str:
    """Return why the agent of a host counts as silent, in words; "" while it does not."""
    if seen.state is LeaseState.ABSENT and not seen.left:
        return f"The OVS agent of {host} keeps no Lease, so nothing proves that it still runs"
    if seen.state is not LeaseState.EXPIRED:
        return ""
    last = f"; last renewed at {seen.renewed_at} by the host's clock" if seen.renewed_at else ""
    if seen.released:
        return f"The OVS agent of {host} stopped and released its Lease {seen.lease}{last}"
    return (
        f"The OVS agent of {host} has not renewed its Lease {seen.lease} for "
        f"{seen.duration.total_seconds():.0f} s{last}"
    )


def doubted(status: OVSNodeStatus, text: str, now: datetime) -> tuple[Condition, ...]:
    """Return the operator's conditions while the agent is silent; present ones stay as they are.

    Args:
        status: as stored.
        text: why the agent is taken for silent.
        now: the only clock that this function sees.
    """
    at = status.lastProbeTime
    if at is not None:
        text = f"{text}; it wrote its counters last at {format_time(at)}"
    made: list[Condition] = []
    for type_ in sorted(OVSNodeConditionType):
        found = get_condition(status.conditions, type_)
        if found is not None and found.reason == OVSReadyReason.AGENT_SILENT:
            made.append(found)  # without it the apply would remove its state
        elif type_ == _READY or (found is not None and found.status == ConditionStatus.TRUE):
            made.append(unknown(type_, found, text, now))
    return tuple(made)


def unknown(type_: str, found: Condition | None, text: str, now: datetime) -> Condition:
    """Return a condition as it should be while the agent is silent.

    Args:
        type_: of the condition.
        found: as stored; None where the agent has never written it.
        text: why the agent is taken for silent.
        now: the only clock that this function sees.
    """
    before = f"; {type_} was {found.status}/{found.reason} before" if found is not None else ""
    return next_condition(
        found,
        type_,
        ConditionStatus.UNKNOWN,
        OVSReadyReason.AGENT_SILENT,
        f"{text}{before}",
        now=now,
    )


@dataclass(frozen=True, slots=True)
class _Taken:
    """Record that conditions were taken from an agent.

    Args:
        version: of the Lease at that time.
        at: by the monotonic clock.
    """

    version: str
    at: float


class SilenceReconciler:
    """The shell around the rules above.

    Args:
        kube: writes as this controller.
        leases: of the OVS agents.
        switches: the OVSNodes.
    """

    def __init__(
        self,
        kube: Kube,
        leases: AgentLeases,
        switches: Switches,
        *,
        clock: Clock,
        events: Recorder,
    ) -> None:
        self._kube, self._clock, self._events = kube.as_manager(NAME), clock, events
        self._leases, self._switches = leases, switches
        self._taken: dict[str, _Taken] = {}

    async def reconcile(self, name: str, /) -> Result:
        if self._switches.get(name) is None:
            self._taken.pop(name, None)
            return Result()
        seen = await self._leases.of(name)
        if seen is None:
            return Result()
        text = silence(name, seen)
        if not text:
            self._returned(name, seen)
            return Result(seen.left or None)
        taken, now = self._taken.get(name), self._clock.monotonic()
        if taken is not None and taken.version == seen.version:
            left = taken.at + AGAIN.total_seconds() - now
            if left > 0:
                return Result(timedelta(seconds=left))
        try:
            await self._take(name, text)
        except NotFoundError:
            return Result()  # it was deleted meanwhile
        self._taken[name] = _Taken(seen.version, now)
        return Result(AGAIN)

    async def _take(self, name: str, text: str) -> None:
        """Apply the conditions, unless the agent has written since the object was read."""
        stored = await self._kube.get(OVSNode, name, self._switches.namespace)
        if stored is None:
            return
        made = doubted(stored.status, text, self._clock.now())
        if set(made) <= set(stored.status.conditions):
            return
        meta = stored.metadata
        mine = OVSNodeConditions(
            metadata=ObjectMeta(
                name=meta.name, namespace=meta.namespace, resourceVersion=meta.resourceVersion
            ),
            status=WrittenStatus(made),
        )
        await self._kube.apply(mine, force=True, subresource="status")
        log.warning("ovs_agent_silent", host=name, reason=text)
        self._events.record(stored, "Warning", "OVSAgentSilent", text, action="ObservingAgent")

    def _returned(self, name: str, seen: LeaseSighting) -> None:
        """Record that an agent is back, once its Lease was seen renewed."""
        if seen.state is not LeaseState.RENEWED or self._taken.pop(name, None) is None:
            return
        known = self._switches.get(name)
        if known is not None:
            text = f"The OVS agent of {name} renews its Lease {seen.lease}"
            self._events.record(known, "Normal", "OVSAgentReporting", text, action="ObservingAgent")
