"""Checks before the first move, repeated while moves run. Pure.

A check about the host stops the moves until it passes. The host need not be disabled when it is
being shut down, or when only some instances leave. Where the host has to be dead, the proof of that
replaces both checks. A recovery that was paused begins no further move. A check about the instances
stops or warns, by the policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hypercobalt.api.conditions import get_condition, is_true
from hypercobalt.api.eviction import (
    CheckResult,
    Eviction,
    EvictionCheck,
    EvictionMode,
    EvictionSpec,
    EvictionStatus,
    Trigger,
)
from hypercobalt.api.fencing import FencingPhase
from hypercobalt.api.ha_switch import recovery_off
from hypercobalt.api.hypervisor import Hypervisor, is_fenced
from hypercobalt.api.hypervisor_conditions import DisabledReason, HypervisorConditionType
from hypercobalt.compute.model import Capacity, Host, Server, Size
from hypercobalt.operator.eviction.assessing.course import (
    Course,
    is_dead,
    is_down,
    needs_proof,
)
from hypercobalt.operator.eviction.assessing.movability import (
    Blocked,
    Movable,
    evacuability,
    movability,
    restartability,
)
from hypercobalt.operator.eviction.assessing.situation import Situation
from hypercobalt.operator.eviction.model.decision import Preflight
from hypercobalt.operator.eviction.model.facts import Need, need
from hypercobalt.operator.eviction.model.policy import Doubt
from hypercobalt.operator.eviction.model.states import Assessment
from hypercobalt.operator.eviction.planning.targets import Reservations, choose
from hypercobalt.operator.shared.evictions import is_recovery
from hypercobalt.operator.shared.wording import called

_NAMED: Final = 10  # instances in one message; their entries have the rest
_HOST_CHECKS: Final = {"HostUp", "HostFenced", "HostDisabled", "RecoveryOn"}


def refusal(hypervisor: Hypervisor, eviction: Eviction) -> str:
    """Return why an Eviction must not move the instances of this host at all; "" if it may.

    HostShutdown is the report of a host's own agent; it moves instances of a host that need not be
    disabled, so it counts only for the host that the Eviction is named after.
    """
    trigger = eviction.spec.trigger
    if trigger == Trigger.HOST_SHUTDOWN and eviction.metadata.name != hypervisor.metadata.name:
        return (
            f"the trigger HostShutdown is for an Eviction named {hypervisor.metadata.name}, as its "
            "host; use another trigger, or that name"
        )
    return ""


def is_instance_check_due(status: EvictionStatus) -> bool:
    """Whether the checks of instances are due: until they have passed once."""
    kept = _kept(status)
    return not kept or any(check.result == CheckResult.FAILED for check in kept)


def _kept(status: EvictionStatus) -> tuple[EvictionCheck, ...]:
    return tuple(check for check in status.checks if check.name not in _HOST_CHECKS)


def check_host(situation: Situation, instances: Sequence[Assessment]) -> Preflight:
    """Check the host, as in every pass."""
    (hypervisor, host), eviction = situation.host(), situation.facts.eviction
    empty = not any(instance.server or instance.is_open for instance in instances)
    wanted = of_recovery(eviction, hypervisor, empty=empty)
    return Preflight((*of_host(hypervisor, host, eviction.spec, empty=empty), *wanted))


def of_recovery(
    eviction: Eviction, hypervisor: Hypervisor, *, empty: bool = False
) -> tuple[EvictionCheck, ...]:
    """Return the check of a recovery by the HA service, while it is paused or switched off."""
    why = recovery_off(hypervisor) if is_recovery(eviction) and not empty else ""
    if not why:
        return ()
    text = f"{why}; no further move is started; moves under way continue"
    return (EvictionCheck(name="RecoveryOn", result=CheckResult.PENDING, message=text),)


def check(situation: Situation, instances: Sequence[Assessment]) -> Preflight:
    """Check the host, and the instances until they have passed once."""
    facts, checks = situation.facts, check_host(situation, instances).checks
    if not is_instance_check_due(facts.status):
        return Preflight((*checks, *_kept(facts.status)))
    servers = [instance.server for instance in instances if instance.server is not None]
    of_each = of_instances(
        servers, facts.candidates, situation.policy.doubt, facts.groups_refused, situation.course
    )
    return Preflight((*checks, *of_each))


def of_host(
    hypervisor: Hypervisor, host: Host, spec: EvictionSpec, *, empty: bool = False
) -> tuple[EvictionCheck, ...]:
    """Check whether the host is in a state in which moves may begin.

    Args:
        hypervisor: as read.
        host: as the compute service reports it.
        spec: of the Eviction.
        empty: no instance is on the host or on its way there.
    """
    if needs_proof(spec, hypervisor, host):
        return (_fenced(hypervisor, host, spec, empty=empty),)
    return (_up(host, empty=empty), _disabled(hypervisor, host, spec))


def of_instances(
    servers: Sequence[Server],
    candidates: Mapping[Need, tuple[Capacity, ...]],
    doubt: Doubt,
    groups_refused: str = "",
    course: Course = Course.LEAVE,
) -> tuple[EvictionCheck, ...]:
    """Check whether every instance can be moved, as far as that is known.

    Args:
        servers: servers to move.
        candidates: for each distinct need, the hosts that could take it.
        doubt: result of a check that is in doubt.
        groups_refused: why the server groups are not known; "" when they are.
        course: course of the instances; a restart needs no other host.
    """
    bad = CheckResult.FAILED if doubt is Doubt.STOP else CheckResult.WARNING
    if course.restarts:
        restartable = [(server, restartability(server)) for server in servers]
        text = f"{len(servers)} instances can be restarted"
        return (_check("Instances", _hindered(restartable), bad, text),)
    assess = evacuability if course is Course.EVACUATE else movability
    movable = [server for server in servers if isinstance(assess(server), Movable)]
    hindered = _hindered([(server, assess(server)) for server in servers])
    return (
        _check("Instances", hindered, bad, f"{len(servers)} instances can be moved"),
        _check("TargetCapacity", _homeless(movable, candidates), bad, "other hosts have capacity"),
        _check("ServerGroups", _grouped(movable), bad, "no server group prevents a migration"),
        _groups_listed(groups_refused),
    )


def _groups_listed(refused: str) -> EvictionCheck:
    """Return a warning at most: Nova itself keeps to the groups' policies when it moves."""
    name = "ServerGroupsListed"
    if not refused:
        return EvictionCheck(name=name, result=CheckResult.PASSED)
    text = f"server groups are unknown, so targets are chosen without them: {refused}"
    return EvictionCheck(name=name, result=CheckResult.WARNING, message=text)


def _up(host: Host, *, empty: bool) -> EvictionCheck:
    if host.up and not host.forced_down:
        return EvictionCheck(name="HostUp", result=CheckResult.PASSED)
    why = "is forced down" if host.forced_down else "does not report"
    if empty:
        text = f"the compute service of {host.name} {why}, but the host is empty"
        return EvictionCheck(name="HostUp", result=CheckResult.WARNING, message=text)
    text = (
        f"the compute service of {host.name} {why}: instances cannot be moved away from a "
        "host that is down; the Eviction continues when the host is back"
    )
    return EvictionCheck(name="HostUp", result=CheckResult.FAILED, message=text)


def _fenced(
    hypervisor: Hypervisor, host: Host, spec: EvictionSpec, *, empty: bool
) -> EvictionCheck:
    """Return the check of the proof, pending for as long as it takes.

    No instance is started elsewhere while the host may run it.
    """
    name, why = "HostFenced", unproven(spec, hypervisor, host)
    if not why:
        proof = hypervisor.fencing.proof if hypervisor.fencing else None
        return EvictionCheck(name=name, result=CheckResult.PASSED, message=proof)
    if empty:
        text = f"{why}; the host has no instances to evacuate"
        return EvictionCheck(name=name, result=CheckResult.WARNING, message=text)
    return EvictionCheck(name=name, result=CheckResult.PENDING, message=why)


def unproven(spec: EvictionSpec, hypervisor: Hypervisor, host: Host) -> str:
    """Return why no action may begin: the host must be proven dead, and is not; "" when one may."""
    if not needs_proof(spec, hypervisor, host) or is_dead(hypervisor, host):
        return ""
    fencing = hypervisor.fencing
    if is_fenced(hypervisor):
        why = "the host is fenced; waiting until the compute service has it as down"
    elif fencing is None or fencing.phase == FencingPhase.RELEASED:
        why = "the host was not fenced"
    elif fencing.livesSince is not None:
        why = f"boot {fencing.bootID} was proven dead, but the host has shown life since"
    elif fencing.phase == FencingPhase.FENCED:
        why = f"boot {fencing.bootID} was fenced, but the host has reported another boot since"
    else:
        last = f": {fencing.evidence[-1]}" if fencing.evidence else ""
        why = f"fencing is {fencing.phase}{last}"
    then = f"are started elsewhere once {host.name} is proven dead: {why}"
    if spec.mode == EvictionMode.EVACUATE or not is_down(host):
        return f"instances {then}"
    sign = "is forced down" if host.forced_down else "does not report"
    text = f"the compute service of {host.name} {sign}; its instances are moved when it is back"
    return f"{text}, or {then}"


def _disabled(hypervisor: Hypervisor, host: Host, spec: EvictionSpec) -> EvictionCheck:
    name = "HostDisabled"
    marked = is_true(hypervisor.conditions, HypervisorConditionType.HYPERVISOR_DISABLED)
    if marked and not host.enabled:
        return EvictionCheck(name=name, result=CheckResult.PASSED)
    if spec.instances:
        text = "only the named instances leave; the host may stay in service"
        return EvictionCheck(name=name, result=CheckResult.PASSED, message=text)
    if spec.mode == EvictionMode.RESTART:
        text = "instances are restarted on the host; it may stay in service"
        return EvictionCheck(name=name, result=CheckResult.PASSED, message=text)
    if spec.trigger == Trigger.HOST_SHUTDOWN:
        text = "hypervisor not disabled; check skipped because the host is shutting down"
        return EvictionCheck(name=name, result=CheckResult.WARNING, message=text)
    result = CheckResult.FAILED
    if marked:
        why = (
            "its condition shows it as disabled, but the compute service still places new "
            "instances there"
        )
    elif hypervisor.spec.maintenance:
        mode, hitch = hypervisor.spec.maintenance, _hitch(hypervisor)
        why = f"spec.maintenance is {mode}; waiting for the operator to disable it"
        why = f"{why} ({hitch})" if hitch else why
        result = CheckResult.PENDING
    else:
        why = "set spec.maintenance of its Hypervisor"
    return EvictionCheck(name=name, result=result, message=f"hypervisor not disabled: {why}")


def _hitch(hypervisor: Hypervisor) -> str:
    """Return the condition that prevents disabling the host; "" for none."""
    registered = get_condition(hypervisor.conditions, HypervisorConditionType.REGISTERED)
    if registered is not None and registered.status != "True":
        return registered.message
    disabled = get_condition(hypervisor.conditions, HypervisorConditionType.HYPERVISOR_DISABLED)
    return (
        disabled.message
        if disabled is not None and disabled.reason == DisabledReason.FAILED
        else ""
    )


def _check(name: str, bad: list[str], result: CheckResult, good: str) -> EvictionCheck:
    if not bad:
        return EvictionCheck(name=name, result=CheckResult.PASSED, message=good)
    more = f"; and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
    return EvictionCheck(name=name, result=result, message="; ".join(bad[:_NAMED]) + more)


def _hindered(verdicts: Sequence[tuple[Server, object]]) -> list[str]:
    return [f"{called(server)} {may.why}" for server, may in verdicts if isinstance(may, Blocked)]


def _homeless(
    servers: Sequence[Server], candidates: Mapping[Need, tuple[Capacity, ...]]
) -> list[str]:
    """Return the servers for which no host is left once all before them are placed, by size."""
    reservations, homeless = Reservations(), list[Server]()
    for server in sorted(servers, key=lambda s: s.size.memory_mib, reverse=True):
        target = choose(server, candidates.get(need(server), ()), reservations)
        if target is None:
            homeless.append(server)
        else:
            reservations.add(server, target)
    sizes: dict[Size, int] = {}
    for server in homeless:
        sizes[server.size] = sizes.get(server.size, 0) + 1
    return [
        f"no host has capacity for {count} instances of {size.vcpus:g} vCPUs and "
        f"{size.memory_mib} MiB"
        for size, count in sizes.items()
    ]


def _grouped(servers: Sequence[Server]) -> list[str]:
    """Check strict affinity: the members cannot leave one after the other.

    Nova's filter looks at where the group's other members are, and they are still here.
    """
    strict = list[str]()
    for server in servers:
        group = server.group
        if group is not None and group.policy == "affinity" and group.members:
            strict.append(f"{called(server)} is in a server group with strict affinity")
    return strict
