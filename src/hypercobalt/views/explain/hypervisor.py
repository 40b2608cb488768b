"""Why a Hypervisor is in its state, what ends that state, and what else needs attention. Pure.

The state is the reason of `Ready`. The conditions that a state waits for come first, every other
condition that is not as it should be behind them; a condition that only follows from another is
left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from hypercobalt.api.conditions import Condition, get_condition
from hypercobalt.api.ha_switch import PAUSE
from hypercobalt.api.hypervisor import Hypervisor, Maintenance, is_fenced
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.operator.lifecycle.smoke_test import server_name
from hypercobalt.operator.shared.evictions import FINALIZER
from hypercobalt.operator.shared.node_facts import LIFECYCLE_LABEL, host_names
from hypercobalt.views.explain import incidents, recovery
from hypercobalt.views.explain.advice import (
    EXPECTED,
    NORMAL,
    OF_RECOVERY,
    POWER,
    REMEDIES,
    REPORTERS,
    UNIT,
)
from hypercobalt.views.explain.model import (
    Explanation,
    Finding,
    Remedy,
    ReporterSighting,
    command,
)
from hypercobalt.views.explain.reporters import (
    AGENT,
    KUBELET,
    OPERATOR,
    Reporters,
    is_late,
    operator_findings,
    renewed,
    unseen_by_operator,
)

_Type = HypervisorConditionType

_SHOWN_BY: Final[Mapping[str, str]] = {
    "Offboarded": _Type.OFFBOARDED,
    "Terminating": _Type.TERMINATING,
    "Onboarding": _Type.ONBOARDING,
    "Evicting": _Type.EVICTING,
    "Evicted": _Type.EVICTING,
    "AgentSilent": _Type.AGENT_REPORTING,
    "LibvirtUnavailable": _Type.LIBVIRT_CONNECTION,
    "NodeNotReady": _Type.NODE_HEALTHY,
    "NodeUnreachable": _Type.NODE_HEALTHY,
    "Claimed": _Type.REGISTERED,
}
"""The condition that records when a state began: `Ready` records changes of its status only."""

_LEAVES: Final = (_Type.ONBOARDING, _Type.EVICTING, _Type.AGENT_PODS_EVICTED, _Type.OFFBOARDED)
_ENDS: Final[Mapping[str, tuple[str, ...]]] = {
    "Onboarding": (_Type.REGISTERED, _Type.ONBOARDING),
    "Terminating": _LEAVES,
    "Deleting": _LEAVES,
    "Evicting": (_Type.EVICTING,),
    "Maintenance": (_Type.EVICTING,),
    "AgentSilent": (_Type.AGENT_REPORTING,),
    "LibvirtUnavailable": (_Type.LIBVIRT_CONNECTION, _Type.LIBVIRTD_SERVICE),
    "NodeNotReady": (_Type.NODE_HEALTHY,),
    "NodeUnreachable": (_Type.NODE_HEALTHY,),
    "Claimed": (_Type.REGISTERED,),
}
"""The conditions that a state waits for, by the reason of `Ready`."""


_TERMINATION: Final = '{"spec":{"maintenance":"termination"}}'


@dataclass(frozen=True, slots=True)
class ExplainedHypervisor:
    """What an explanation is made of.

    Args:
        hypervisor: as read.
        now: when it was read.
        reporters: those who report about it.
    """

    hypervisor: Hypervisor
    now: datetime
    reporters: Reporters = field(default_factory=Reporters)


def explain(facts: ExplainedHypervisor) -> Explanation:
    """Explain a Hypervisor."""
    host = facts.hypervisor
    state, since, summary = _state(host)
    found = {one.type: finding for one in host.conditions if (finding := _finding(host, one))}
    is_silent = _Type.AGENT_REPORTING in found
    if is_silent:
        silent = _by_kubelet(found[_Type.AGENT_REPORTING], facts)
        # What the agent reported before its silence may be over, or be the host's end.
        found = {type_: one for type_, one in found.items() if one.reporter != AGENT}
        found[_Type.AGENT_REPORTING] = silent
    fenced = get_condition(host.conditions, _Type.FENCED)
    if host.status.recovery is not None and fenced is not None and fenced.status == "True":
        found.pop(_Type.FENCED, None)  # the next step names what to do
    ends = [type_ for type_ in _ENDS.get(state, ()) if type_ in found]
    waiting = [found.pop(type_) for type_ in ends]
    order = {type_: place for place, type_ in enumerate(EXPECTED)}
    rest = sorted(found, key=lambda type_: order.get(type_, len(order)))
    return Explanation(
        kind="Hypervisor",
        name=host.metadata.name,
        at=facts.now,
        state=state,
        since=since,
        summary=summary,
        waiting=(*recovery.next_step(host, facts.now), *waiting, *_of_the_spec(host, state)),
        also=(
            *operator_findings(facts.reporters, facts.now),
            *_silent(facts),
            *(found[type_] for type_ in rest),
            *(() if is_silent else incidents.findings(host)),
        ),
        groups=(*recovery.details(host), *incidents.details(host, facts.now)),
        seen=_sightings(facts),
    )


def _state(host: Hypervisor) -> tuple[str, datetime | None, str]:
    """State, since when, and what that means."""
    ready, meta = get_condition(host.conditions, _Type.READY), host.metadata
    if meta.deletionTimestamp is not None:
        held = ", ".join(meta.finalizers) or "none"
        text = f"The Hypervisor is being deleted; finalizers that hold it: {held}"
        return "Deleting", meta.deletionTimestamp, text
    if ready is None:
        return "New", meta.creationTimestamp, ""
    return ready.reason, _began(host, ready), ready.message


def _began(host: Hypervisor, ready: Condition) -> datetime:
    shown = get_condition(host.conditions, _SHOWN_BY.get(ready.reason, ""))
    return max(one.lastTransitionTime for one in (ready, shown) if one is not None)


def _of_the_spec(host: Hypervisor, state: str) -> Iterable[Finding]:
    """What is waited for and no condition shows: a person's or an automation's decision."""
    name, spec = host.metadata.name, host.spec
    if state == "New":
        yield unseen_by_operator("Hypervisor")
    reason = f": {spec.maintenanceReason}" if spec.maintenanceReason else ""
    back = Remedy(
        "return the host to service after the work", command("cobalt resume {node}", node=name)
    )
    if state == "Onboarding" and not spec.lifecycleEnabled:
        label = Remedy(
            "switch the lifecycle on",
            command(f"kubectl label node {{node}} {LIFECYCLE_LABEL}=true", node=name),
        )
        yield Finding("Lifecycle management is off (spec.lifecycleEnabled)", remedies=(label,))
    if state == "Terminating" and spec.maintenance != Maintenance.TERMINATION:
        template = "kubectl patch hypervisor {node} --type=merge -p {patch}"
        patch = command(template, node=name, patch=_TERMINATION)
        text = "The Node terminates, but spec.maintenance is not `termination`: nothing is emptied"
        yield Finding(
            text, remedies=(Remedy("set it, if the host is to be removed for good", patch),)
        )
    if state == "Deleting" and FINALIZER in host.metadata.finalizers:
        given_up = Remedy(
            "or give up its instances",
            command(f"kubectl annotate hypervisor {{node}} {PAUSE}=REASON", node=name),
        )
        text = "The host to answer, or its instances to run elsewhere"
        yield Finding(text, remedies=(given_up,))
    if state in {"Evicted", "Evicting", "Maintenance"} and spec.maintenance == Maintenance.HA:
        if host.status.recovery is None:  # an external service reports no steps
            yield Finding("The high-availability service ends the maintenance `ha`")
    elif state in {"Evicted", "Evicting", "Maintenance"}:
        text = f"The end of the maintenance `{spec.maintenance}`{reason}"
        yield Finding(text, remedies=(back,))


def _by_kubelet(finding: Finding, facts: ExplainedHypervisor) -> Finding:
    """What the kubelet adds about a silent agent: whether the host itself is alive."""
    kubelet = next((one for one in _sightings(facts) if one.who == KUBELET), None)
    if kubelet is None or kubelet.seen is None:
        return finding
    if not kubelet.stale:
        text = f"{finding.message}; the kubelet still reports, so the host is up"
        return replace(finding, message=text, remedies=finding.remedies[:1])
    text = f"{finding.message}; the kubelet is silent too: the host is down or cut off"
    return replace(finding, message=text, remedies=tuple(reversed(finding.remedies)))


def _sightings(facts: ExplainedHypervisor) -> tuple[ReporterSighting, ...]:
    return facts.reporters.sightings(facts.hypervisor.metadata.name, facts.now)


def _silent(facts: ExplainedHypervisor) -> Iterable[Finding]:
    """A Lease that has run out, where the operator has not reported it (yet)."""
    host, lease = facts.hypervisor, facts.reporters.agent
    if get_condition(host.conditions, _Type.AGENT_REPORTING) is not None or lease is None:
        return
    if is_late(lease, facts.now):
        remedies = _filled(REMEDIES[_Type.AGENT_REPORTING, "AgentSilent"], host)
        text = "The node agent has not renewed its Lease; its last report may be out of date"
        yield _by_kubelet(Finding(text, since=renewed(lease), remedies=remedies), facts)


def _is_wrong(one: Condition) -> bool:
    if (one.type, one.reason) in NORMAL:
        return False
    expected = EXPECTED.get(one.type, "True" if _is_unit(one.type) else one.status)
    return one.status != expected


def _finding(host: Hypervisor, one: Condition) -> Finding | None:
    if not _is_wrong(one):
        return None
    remedies = UNIT if _is_unit(one.type) else REMEDIES.get((one.type, one.reason), ())
    if one.type == _Type.EVICTING and host.spec.maintenance == Maintenance.HA:
        remedies = OF_RECOVERY.get(one.reason, ())
    if one.type == _Type.ONBOARDING and (host.spec.maintenance or not host.spec.lifecycleEnabled):
        remedies = ()  # the onboarding begins again by itself, or not at all
    message = (
        recovery.closed_gates(one.message) if one.type == _Type.RECOVERY_BLOCKED else one.message
    )
    return Finding(
        message=message or "no message",
        condition=f"{one.type} {one.status}/{one.reason}",
        since=one.lastTransitionTime,
        reporter=AGENT if _is_unit(one.type) else REPORTERS.get(one.type, OPERATOR),
        remedies=_filled(remedies, host, one.type),
    )


def _is_unit(type_: str) -> bool:
    """Conditions that are named after systemd units have a dot."""
    return "." in type_ and "/" not in type_


def _filled(remedies: Iterable[Remedy], host: Hypervisor, unit: str = "") -> tuple[Remedy, ...]:
    test, host_name = host.status.smokeTest, next(iter(host_names(host)), "")
    values = {
        "node": host.metadata.name,
        "host": host_name,
        "server": (test.server if test else None) or server_name(host, host_name),
        "unit": unit,
        "boot": host.status.bootID or "BOOT_ID",
    }
    # A host that is proven dead is off: no need to check its power.
    applicable = (one for one in remedies if one is not POWER or not is_fenced(host))
    return tuple(Remedy(one.text, command(one.command, **values)) for one in applicable)
