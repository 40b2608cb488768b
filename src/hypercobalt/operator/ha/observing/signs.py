"""Evidence of a host's death in its stored objects: reports, assertions, proofs. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.core import Node, Taint
from hypercobalt.api.fencing import (
    ASSERTED_DEAD,
    OUT_OF_SERVICE,
    Assertion,
    FencingMethod,
    FencingPhase,
    is_declared_dead,
    is_ordered,
    proven_boots,
)
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.ha.host_failure import assertions
from hypercobalt.ha.host_failure.assertions import LastReports
from hypercobalt.ha.host_failure.doubts import PowerReport
from hypercobalt.ha.host_failure.guard import OPEN_GATES

_STORES = (HypervisorConditionType.AGENT_REPORTING, HypervisorConditionType.DEFINITIONS_STORED)
"""Conditions without which a host's agent stores no definitions."""


@dataclass(frozen=True, slots=True)
class Asserted:
    """An assertion from outside that a host is dead.

    Args:
        by: the annotation or the taint, with its value; "" without an assertion.
        text: source of the assertion, for people.
        doubt: why the assertion does not count; "" when it does.
        record: for `status.assertion`.
    """

    by: str = ""
    text: str = ""
    doubt: str = ""
    record: Assertion | None = None


def fell(hypervisor: Hypervisor) -> datetime | None:
    """Return since when a dead host may have stored nothing that came to it; None: it was well.

    Its agent may have ended, or been unable to store, long before the host died.
    """
    since = hypervisor.status.unhealthySince
    if since is None:
        return None
    known = (get_condition(hypervisor.conditions, type_) for type_ in _STORES)
    ended = (one.lastTransitionTime for one in known if one is not None and one.status == "False")
    return min((since, *ended))


def stopped(hypervisor: Hypervisor) -> str:
    """Return the evidence that the last boot's agent has ended all instances; "" for none.

    It is the host's own report, so it counts only as the answer to an order that the operator has
    recorded: about this boot, of that moment.
    """
    status = hypervisor.status
    report, order, boot = status.guestsStopped, hypervisor.fencing, status.bootID or ""
    if report is None or order is None or not is_ordered(order, boot):
        return ""
    if report.startedAt is None:
        return ""  # an agent that has fenced its own host may have started instances since
    if report.bootID != boot or report.startedAt != order.startedAt:
        return ""
    return f"the node agent of boot {report.bootID} has ended every instance"


def asserted_death(hypervisor: Hypervisor, node: Node) -> Asserted:
    """Return the assertion that a host is dead; an annotation is about the last reported boot."""
    boot, newest = hypervisor.status.bootID, _newest_boot(hypervisor, node)
    asserted = hypervisor.metadata.annotations.get(ASSERTED_DEAD)
    if asserted and asserted in {boot, newest}:
        text = (
            f"the annotation {ASSERTED_DEAD} of the Hypervisor asserts that boot {asserted} is dead"
        )
        later = f"{text}, but the kubelet has reported boot {newest} since: set it to that boot"
        return Asserted(f"{ASSERTED_DEAD}={asserted}", text, "" if asserted == newest else later)
    taint = out_of_service(node)
    if taint is not None:
        by = f"{OUT_OF_SERVICE}={taint.value}:{taint.effect}"
        return Asserted(by, f"the Node has the taint {by}")
    return Asserted()


def with_record(
    asserted: Asserted, stored: Assertion | None, reports: LastReports, now: datetime
) -> Asserted:
    """Return the assertion with its record, and with a doubt unless an earlier pass recorded it.

    While the agent's Lease is not known, as in the first passes of a process, the host may have
    disproved the assertion.

    Args:
        asserted: see `with_power`.
        stored: the record until now.
        reports: of the host.
        now: the clock of the record.
    """
    record = assertions.recorded(stored, asserted.by, reports, now)
    read = reports.lease is not None
    if record is None or asserted.doubt or (read and assertions.counts(stored, record)):
        return replace(asserted, record=record)
    why = "but the operator has not recorded that yet"
    if not read:
        why = "but the Lease of the host's node agent has not been read yet"
    if record.disproved:
        why = "but the host has reported since: remove it, and set it again when the host is dead"
    return replace(asserted, doubt=f"{asserted.text}, {why}", record=record)


def reported_at(node: Node) -> datetime | None:
    """Return when the kubelet last reported the condition Ready; None for never.

    A heartbeat beside Unknown is the node lifecycle controller's copy.
    """
    ready = next(
        (condition for condition in node.status.conditions if condition.type == "Ready"), None
    )
    if ready is None or ready.status == "Unknown":
        return None
    return ready.lastHeartbeatTime


def out_of_service(node: Node) -> Taint | None:
    """Return the taint that asserts that a host is dead."""
    return next((taint for taint in node.spec.taints if taint.key == OUT_OF_SERVICE), None)


def _newest_boot(hypervisor: Hypervisor, node: Node) -> str | None:
    """Return the boot that the kubelet reports, else the agent's: the agent reports later."""
    info = node.status.nodeInfo
    return (info.bootID if info is not None else "") or hypervisor.status.bootID


def with_power(asserted: Asserted, power: PowerReport, devices: str) -> Asserted:
    """Return the assertion, with a doubt while a fence device reports the power as on."""
    if not asserted.by or asserted.doubt or power is not PowerReport.ON:
        return asserted
    reports = f"{devices} reports the power of the host as on"
    return replace(asserted, doubt=f"{asserted.text}, but {reports}")


def declared_dead(hypervisor: Hypervisor) -> frozenset[str]:
    """Return the boots that count as dead until their host is taken back; none for another host."""
    fencing = hypervisor.fencing
    if fencing is None or not is_declared_dead(fencing):
        return frozenset()
    # An agent that has ended the instances lives, and proves nothing wrong by that.
    return frozenset() if fencing.method == FencingMethod.AGENT else proven_boots(fencing)


def gates_opened(hypervisor: Hypervisor) -> bool:
    """Whether a person has opened the gates about many hosts for the last reported boot."""
    boot = hypervisor.status.bootID
    return bool(boot) and hypervisor.metadata.annotations.get(OPEN_GATES) == boot


def powered_since(hypervisor: Hypervisor, node: Node) -> datetime | None:
    """Return since when the power of a host proven dead is on; None once it has reported."""
    fencing, info = hypervisor.fencing, node.status.nodeInfo
    if fencing is None or fencing.phase == FencingPhase.RELEASED:
        return None
    boots = {hypervisor.status.bootID or "", info.bootID if info is not None else ""} - {""}
    return fencing.poweredSince if boots <= proven_boots(fencing) else None
