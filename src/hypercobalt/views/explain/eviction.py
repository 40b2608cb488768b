"""Why an Eviction is in its state, which instances it waits for, and what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from hypercobalt.api.conditions import Condition, get_condition
from hypercobalt.api.eviction import (
    UNDER_WAY,
    CheckResult,
    Eviction,
    EvictionCheck,
    EvictionConditionType,
    EvictionInstance,
    EvictionMode,
    EvictionReason,
    EvictionStatus,
    InstancePhase,
    evicting,
)
from hypercobalt.api.fencing import ASSERTED_DEAD
from hypercobalt.api.hypervisor import Hypervisor, Maintenance
from hypercobalt.operator.eviction.assessing.course import INSTANCE_TRIGGERS
from hypercobalt.operator.shared.evictions import is_recovery
from hypercobalt.operator.shared.wording import called, count
from hypercobalt.views.explain.model import Explanation, Finding, Group, Remedy, age, command
from hypercobalt.views.explain.reporters import (
    OPERATOR,
    Reporters,
    operator_findings,
    unseen_by_operator,
)

_Type = EvictionConditionType
_LISTED: Final = 20

_ADVISED: Final = frozenset({"HostFenced", "RecoveryOn"})
"""Checks that may be pending until a person does something."""

_REMEDIES: Final = {
    "HostUp": Remedy(
        "bring nova-compute on the host back; an Eviction of mode auto or evacuate starts the "
        "instances of a dead host elsewhere once it is fenced",
        "openstack compute service list --service nova-compute",
    ),
    "HostFenced": Remedy(
        "bring the host back, or have it fenced: by the operator with --ha internal, else by an HA "
        "service (docs/operations.md, A dead host). With --ha internal, once the host is certainly "
        "off, assert that its boot is dead",
        f"kubectl annotate hypervisor {{host}} {ASSERTED_DEAD}={{boot}}",
    ),
    "RecoveryOn": Remedy(
        "the recovery was paused or switched off: see the message; remove an annotation once you "
        "are done",
        "kubectl annotate hypervisor {host} kvm.cloud.sap/pause-recovery-",
    ),
    "HostDisabled": Remedy("take the host out of service", "cobalt maintain {host} --reason '...'"),
    "Instances": Remedy("bring the named instances into a state in which they can be moved"),
    "TargetCapacity": Remedy(
        "free or add capacity, or enable hosts that are disabled",
        "openstack hypervisor list --long",
    ),
    "ServerGroups": Remedy(
        "members of a strict affinity group cannot leave one by one: delete the group, or move "
        "them by hand",
        "openstack server group list --all-projects --long",
    ),
    "ServerGroupsListed": Remedy(
        "let the operator's account list the server groups of all projects",
        "openstack server group list --all-projects",
    ),
}

_CLAIMED: Final = Remedy(
    "find whose domain it is, by its disks, consoles and owner; then undefine it on the host that "
    "it does not belong to, or start one of two dead hosts (docs/security.md)",
    "virsh dumpxml INSTANCE",
)

_VERBS: Final[dict[str, str]] = {
    EvictionMode.RESTART: "Restarts {what} on {host}",
    EvictionMode.EVACUATE: "Starts {what} of {host} elsewhere, once it is proven dead",
    EvictionMode.LIVE: "Moves {what} that run away from {host}",
    EvictionMode.COLD: "Moves {what} away from {host}, stopped",
}

_TITLES: Final = (
    (InstancePhase.FAILED, "Given up"),
    (InstancePhase.MIGRATING, "Migrating"),
    (InstancePhase.EVACUATING, "Evacuating"),
    (InstancePhase.RESTARTING, "Restarting"),
    (InstancePhase.CONFIRMING, "Moved, to be confirmed"),
    (InstancePhase.PENDING, "Pending"),
)


@dataclass(frozen=True, slots=True)
class ExplainedEviction:
    """What an explanation is made of.

    Args:
        eviction: as read.
        hypervisor: the host's; None if there is none.
        now: when they were read.
        reporters: those who report about the host.
    """

    eviction: Eviction
    hypervisor: Hypervisor | None
    now: datetime
    reporters: Reporters = field(default_factory=Reporters)


def explain(facts: ExplainedEviction) -> Explanation:
    """Explain an Eviction."""
    meta, host = facts.eviction.metadata, facts.eviction.spec.hypervisor
    found = evicting(facts.eviction.status)
    state = found.reason if found else "New"
    since = found.lastTransitionTime if found else meta.creationTimestamp
    if meta.deletionTimestamp is not None and (found is None or found.status != "False"):
        state, since = "Cancelling", meta.deletionTimestamp
    return Explanation(
        kind="Eviction",
        name=meta.name,
        at=facts.now,
        state=state,
        since=since,
        summary=_summary(facts),
        waiting=tuple(_waiting(facts, state, found)),
        also=(
            *operator_findings(facts.reporters, facts.now),
            *_claims(facts),
            *_warnings(facts),
        ),
        groups=_groups(facts.eviction.status, facts.now),
        seen=facts.reporters.sightings(host, facts.now),
    )


def _summary(facts: ExplainedEviction) -> str:
    """What it was made for, and how far it is."""
    spec, created = facts.eviction.spec, facts.eviction.metadata.creationTimestamp
    what = f"only {count(len(spec.instances))}" if spec.instances else "all instances"
    requested = f", requested {age(created, facts.now)} ago" if created else ""
    trigger = f" ({spec.trigger})" if spec.trigger else ""
    verb = _VERBS.get(spec.mode or "", "Moves {what} away from {host}")
    recovers = spec.mode in {None, EvictionMode.AUTO} and spec.trigger in INSTANCE_TRIGGERS
    if recovers:
        verb = "Restarts {what} on {host}, or moves what does not run then"
    aim = verb.format(what=what, host=spec.hypervisor)
    parts = [f"{aim}{requested}{trigger}: {spec.reason}"]
    done = "run again" if recovers or spec.mode == EvictionMode.RESTART else "have left"
    progress = facts.eviction.status.progress
    if progress is not None and progress.total:
        parts.append(f"{progress.done or 0} of {progress.total} {done}")
    if progress is not None and progress.estimatedCompletion is not None:
        left = age(facts.now, progress.estimatedCompletion)
        parts.append(f"the last one is expected to leave in {left}")
    return "; ".join(parts)


def _waiting(facts: ExplainedEviction, state: str, found: Condition | None) -> Iterable[Finding]:
    host = facts.eviction.spec.hypervisor
    if facts.hypervisor is None:
        remedy = Remedy(
            "spec.hypervisor is immutable: delete the Eviction and create another one",
            f"kubectl delete eviction {facts.eviction.metadata.name}",
        )
        yield Finding(f"There is no Hypervisor {host}", remedies=(remedy,))
    if found is None:
        yield unseen_by_operator("Eviction")
        return
    condition = f"{_Type.EVICTING} {found.status}/{found.reason}"
    if state == "Cancelling":
        text = f"Moves that were begun are stopped first: {found.message}"
        yield Finding(text, condition, found.lastTransitionTime, OPERATOR)
    elif found.status == "False":
        yield from _ended(facts, found, condition)
    else:
        checks = list(_checks(facts))
        yield from checks
        guests = facts.eviction.status.virtualMachineInstances
        if guests or not checks:
            remedies = (_stop(guests[0]),) if guests else ()
            yield Finding(found.message, condition, found.lastTransitionTime, OPERATOR, remedies)


def _stop(guest: str) -> Remedy:
    """How a VirtualMachineInstance that does not move leaves its host."""
    namespace, _, name = guest.partition("/")
    return Remedy(
        "VirtualMachineInstances do not move yet: have their owners shut them down, or delete them",
        command("kubectl delete vmi -n {space} {name}", space=namespace, name=name),
    )


def _ended(facts: ExplainedEviction, found: Condition, condition: str) -> Iterable[Finding]:
    """What is left to do when it is over."""
    host, hypervisor = facts.eviction.spec.hypervisor, facts.hypervisor
    if found.reason != EvictionReason.SUCCEEDED:
        text = found.message
        if not facts.eviction.spec.instances:
            text = f"{text}; the host does not count as evicted until another Eviction succeeds"
        yield Finding(text, condition, found.lastTransitionTime, OPERATOR, (_again(facts),))
    elif hypervisor is not None and hypervisor.spec.maintenance:
        reason = hypervisor.spec.maintenanceReason
        why = f": {reason}" if reason else ""
        back = Remedy(
            "return the host to service after the work",
            command("cobalt resume {host}", host=host),
        )
        text = f"The end of the maintenance `{hypervisor.spec.maintenance}`{why}"
        yield Finding(text, remedies=(back,))


def _again(facts: ExplainedEviction) -> Remedy:
    """How the instances that are left get another attempt; some Evictions are not a person's."""
    spec, host = facts.eviction.spec, facts.eviction.spec.hypervisor
    kept = facts.hypervisor is not None and facts.hypervisor.spec.maintenance == Maintenance.HA
    if kept or is_recovery(facts.eviction):
        return Remedy(
            "correct what the messages below name; the operator creates a new Eviction ten minutes "
            "after the failed one",
            command("cobalt explain {host}", host=host),
        )
    if spec.trigger in INSTANCE_TRIGGERS:
        return Remedy(
            "correct what the messages below name; while the instance is off, the node agent "
            "requests another recovery (docs/ha.md, Limits)"
        )
    line = command("cobalt evict {host}", host=host)
    if spec.instances:
        entries = facts.eviction.status.instances
        left = [one.id for one in entries if one.phase == InstancePhase.FAILED] or spec.instances
        line = command(f"{line} --instances {{left}}", left=",".join(left))
    return Remedy("correct what the messages below name, then try again", line)


def _checks(facts: ExplainedEviction) -> Iterable[Finding]:
    """The checks that stop the first move."""
    status = facts.eviction.status
    for check in status.checks:
        if check.result not in (CheckResult.PENDING, CheckResult.FAILED):
            continue
        # A pending check passes by itself, unless the host is not fenced or its recovery paused.
        advised = check.result == CheckResult.FAILED or check.name in _ADVISED
        remedies = _advised(check, facts) if advised else ()
        yield Finding(
            check.message or check.name,
            _name(check),
            reporter=OPERATOR,
            remedies=remedies,
        )
    found = get_condition(status.conditions, _Type.PREFLIGHT_CHECKS_SUCCEEDED)
    if not status.checks and found is not None and found.status == "False":
        name = f"{found.type} {found.status}/{found.reason}"
        yield Finding(found.message, name, found.lastTransitionTime, OPERATOR)


def _name(check: EvictionCheck) -> str:
    return f"check {check.name} {check.result}"


def _advised(check: EvictionCheck, facts: ExplainedEviction) -> tuple[Remedy, ...]:
    remedy = _REMEDIES.get(check.name)
    if remedy is None:
        return ()
    boot = facts.hypervisor.status.bootID if facts.hypervisor else None
    host = facts.eviction.spec.hypervisor
    line = command(remedy.command, host=host, boot=boot or "BOOT_ID")
    return (Remedy(remedy.text, line),)


def _warnings(facts: ExplainedEviction) -> tuple[Finding, ...]:
    return tuple(
        Finding(
            check.message or check.name,
            _name(check),
            reporter=OPERATOR,
            remedies=_advised(check, facts),
        )
        for check in facts.eviction.status.checks
        if check.result == CheckResult.WARNING
    )


def _claims(facts: ExplainedEviction) -> Iterable[Finding]:
    """Instances that stay where they are because another host has something of them."""
    found = get_condition(facts.eviction.status.conditions, _Type.INSTANCE_CLAIMED)
    if found is not None and found.status == "True":
        name = f"{found.type} {found.status}/{found.reason}"
        yield Finding(found.message, name, found.lastTransitionTime, OPERATOR, (_CLAIMED,))


def _groups(status: EvictionStatus, now: datetime) -> tuple[Group, ...]:
    found: list[Group] = []
    for phase, title in _TITLES:
        entries = [entry for entry in status.instances if entry.phase == phase]
        lines = [_line(entry, now) for entry in entries[:_LISTED]]
        if len(entries) > _LISTED:
            lines.append(f"and {len(entries) - _LISTED} more")
        if lines:
            found.append(Group(f"{title} ({len(entries)})", tuple(lines)))
    if guests := status.virtualMachineInstances:
        more = len(guests) - _LISTED
        last = (f"and {more} more",) if more > 0 else ()
        lines = [*guests[:_LISTED], *last]
        found.append(Group(f"VirtualMachineInstances ({len(guests)})", tuple(lines)))
    return tuple(found)


def _line(entry: EvictionInstance, now: datetime) -> str:
    parts = [called(entry)]
    if entry.target:
        parts.append(f"to {entry.target}")
    if entry.startedAt and entry.phase in UNDER_WAY:
        parts.append(f"for {age(entry.startedAt, now)}")
    if (entry.attempts or 0) > 1:
        parts.append(f"attempt {entry.attempts}")
    text = ", ".join(parts)
    return f"{text}: {entry.message}" if entry.message else text
