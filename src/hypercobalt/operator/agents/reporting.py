"""`AgentReporting`: whether a host's node agent lives, by its Lease, and what its silence means.

What an agent reported last stays in the status when it dies. So while it is silent its
`LibVirtConnection` is Unknown/`AgentSilent`: patched here once for each state of the Lease, and
taken back by the agent's next apply. A released Lease counts as silence once it has no holder for
its duration: an update of the agent takes seconds.

After a restart of the operator nothing is judged before a renewal was seen, or a duration is over;
a stored `AgentSilent` stays until then.

An agent without a Lease (kvm-node-agent keeps none) is `NeverReported`, and nothing follows.

Source: docs/decisions/0013-what-ready-stops.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from hypercobalt.api.conditions import Condition, get_condition, next_condition
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import (
    AgentReportingReason,
    HypervisorConditionType,
    LibvirtConnectionReason,
)
from hypercobalt.logs import get_logger
from hypercobalt.operator.agents.leases import AgentLeases, LeaseSighting, LeaseState
from hypercobalt.operator.shared.hypervisors import is_kept
from hypercobalt.operator.shared.status_writer import Part, StatusWriter
from hypercobalt.runtime import Clock, Kube, Recorder, Result
from hypercobalt.runtime.write_cache import WriteCache

log = get_logger(__name__)

NAME: Final = "agent-reporting"

_Type = HypervisorConditionType
_Why = AgentReportingReason
TYPES: Final = frozenset({_Type.AGENT_REPORTING})


@dataclass(frozen=True, slots=True)
class LeaseVerdict:
    """Conclusion from a Lease.

    Args:
        status: of `AgentReporting`.
        reason: of `AgentReporting`.
        message: of `AgentReporting`; it changes with the Lease only.
        silent: the agent's last report is no longer known to be true.
    """

    status: str
    reason: AgentReportingReason
    message: str
    silent: bool = False


def decide(stored: Condition | None, seen: LeaseSighting) -> LeaseVerdict | None:
    """Return what `AgentReporting` should be; None leaves it as it is.

    Args:
        stored: as it is.
        seen: of the agent's Lease.
    """
    if seen.state is LeaseState.UNRENEWED:
        return None
    if seen.state is LeaseState.ABSENT:
        return _without_lease(stored, seen)
    if seen.state is LeaseState.RENEWED:
        return LeaseVerdict("True", _Why.REPORTING, f"The node agent renews its Lease {seen.lease}")
    if seen.released:
        text = f"The node agent stopped and released its Lease {seen.lease}{_last(seen)}"
        return LeaseVerdict("False", _Why.AGENT_STOPPED, text, seen.state is LeaseState.EXPIRED)
    text = (
        f"The node agent has not renewed its Lease {seen.lease} for "
        f"{seen.duration.total_seconds():.0f} s{_last(seen)}"
    )
    return LeaseVerdict("False", _Why.AGENT_SILENT, text, silent=True)


def _without_lease(stored: Condition | None, seen: LeaseSighting) -> LeaseVerdict | None:
    if stored is None or stored.reason == _Why.NEVER_REPORTED:
        text = "No Lease of a node agent was ever seen; the agent's failure would go undetected"
        return LeaseVerdict("Unknown", _Why.NEVER_REPORTED, text)
    if stored.status != "True" or seen.left:
        return None
    text = "The node agent's Lease is gone, and the agent has not made it again"
    return LeaseVerdict("False", _Why.AGENT_SILENT, text, silent=True)


def _last(seen: LeaseSighting) -> str:
    return f"; last renewed at {seen.renewed_at} by the host's clock" if seen.renewed_at else ""


def look_again(stored: Condition | None, seen: LeaseSighting) -> timedelta | None:
    """Return when to check again though nothing has changed: an absent Lease has no timer."""
    if seen.state is not LeaseState.ABSENT or stored is None or stored.status != "True":
        return None
    return seen.left or None


def unknown(found: Condition | None, verdict: LeaseVerdict, now: datetime) -> Condition | None:
    """Return `LibVirtConnection` for a silent agent; None if it is absent or Unknown already."""
    if found is None or not verdict.silent or found.status == "Unknown":
        return None
    return replace(
        found,
        status="Unknown",
        reason=LibvirtConnectionReason.AGENT_SILENT,
        message=f"{verdict.message}; {found.type} was {found.status}/{found.reason} before",
        lastTransitionTime=now.replace(microsecond=0),
    )


def initial(
    hypervisor: Hypervisor, seen: LeaseSighting | None, now: datetime
) -> tuple[Condition, ...]:
    """Return the condition for the first write of a status, by any controller, to save a write.

    It is left out for a silent agent, as the silence has further consequences.

    Args:
        hypervisor: as it is going to be written.
        seen: of the agent's Lease; None while not enough is known.
        now: the only clock that this function sees.
    """
    if seen is None or get_condition(hypervisor.conditions, _Type.AGENT_REPORTING) is not None:
        return ()
    verdict = decide(None, seen)
    return (_condition(None, verdict, now),) if verdict and not verdict.silent else ()


def _condition(stored: Condition | None, verdict: LeaseVerdict, now: datetime) -> Condition:
    return next_condition(
        stored,
        _Type.AGENT_REPORTING,
        verdict.status,
        verdict.reason,
        verdict.message,
        now=now,
    )


def worth_a_pass(old: Hypervisor | None, new: Hypervisor | None) -> bool:
    """A predicate: the host is gone, or the condition has changed.

    For a new Hypervisor the first write of the status includes the condition.
    """
    if new is None:
        return True
    if old is None:
        return bool(new.conditions)
    return get_condition(old.conditions, _Type.AGENT_REPORTING) != get_condition(
        new.conditions, _Type.AGENT_REPORTING
    )


class AgentReportingReconciler:
    """The shell around `decide`.

    Args:
        kube: writes as this controller.
        leases: of the agents.
        hypervisors: what the controllers share.
        statuses: writes `AgentReporting`.
    """

    def __init__(
        self,
        kube: Kube,
        leases: AgentLeases,
        hypervisors: WriteCache[Hypervisor],
        statuses: StatusWriter,
        *,
        clock: Clock,
        events: Recorder,
    ) -> None:
        self._kube, self._clock, self._events = kube.as_manager(NAME), clock, events
        self._leases, self._hypervisors, self._statuses = leases, hypervisors, statuses
        self._taken: dict[str, str] = {}  # by host: the Lease's version at that time

    async def reconcile(self, name: str, /) -> Result:
        hypervisor = self._hypervisors.get(name)
        if hypervisor is None or (_is_deleted(hypervisor) and not is_kept(hypervisor)):
            self._taken.pop(name, None)
            return Result()
        seen = await self._leases.of(name)
        stored = get_condition(hypervisor.conditions, _Type.AGENT_REPORTING)
        verdict = decide(stored, seen) if seen is not None else None
        if seen is None or verdict is None:
            return Result(look_again(stored, seen) if seen is not None else None)
        if verdict.silent:
            await self._take_libvirt(hypervisor, verdict, seen)
        else:
            self._taken.pop(name, None)
        found = _condition(stored, verdict, self._clock.now())
        await self._statuses.put(hypervisor, Part(TYPES, (found,)))
        self._record_change(hypervisor, stored, verdict)
        return Result()

    async def _take_libvirt(
        self, hypervisor: Hypervisor, verdict: LeaseVerdict, seen: LeaseSighting
    ) -> None:
        """Make `LibVirtConnection` Unknown, once: an agent that writes it again is alive."""
        name = hypervisor.metadata.name
        if self._taken.get(name) == seen.version:
            return
        found = get_condition(hypervisor.conditions, _Type.LIBVIRT_CONNECTION)
        wanted = unknown(found, verdict, self._clock.now())
        if wanted is not None:
            log.warning("agent_silent", hypervisor=name, lease=seen.lease, reason=verdict.reason)
            conditions = tuple(
                wanted if one.type == wanted.type else one for one in hypervisor.conditions
            )
            status = replace(hypervisor.status, conditions=conditions)
            self._hypervisors.wrote(await self._kube.patch_status(hypervisor, status))
        self._taken[name] = seen.version

    def _record_change(
        self, hypervisor: Hypervisor, before: Condition | None, now: LeaseVerdict
    ) -> None:
        """Record an Event when the agent falls silent, and when it is back."""
        was = before.reason if before is not None else ""
        if now.reason == _Why.AGENT_SILENT != was:
            self._events.record(
                hypervisor, "Warning", "NodeAgentSilent", now.message, action="ObservingAgent"
            )
        elif now.reason == _Why.REPORTING and was == _Why.AGENT_SILENT:
            self._events.record(
                hypervisor, "Normal", "NodeAgentReporting", now.message, action="ObservingAgent"
            )


def _is_deleted(hypervisor: Hypervisor) -> bool:
    return hypervisor.metadata.deletionTimestamp is not None
