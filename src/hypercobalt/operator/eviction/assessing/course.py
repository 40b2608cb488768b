"""Decides the course of an Eviction's instances, and whether their host must be proven dead. Pure.

Source: docs/decisions/0028-evacuation-is-a-mode.md.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from hypercobalt.api.eviction import EvictionMode, EvictionSpec, Trigger, empties
from hypercobalt.api.hypervisor import Hypervisor, Maintenance, is_emptied_alive, is_fenced
from hypercobalt.compute.model import Host
from hypercobalt.operator.eviction.model.facts import Facts

INSTANCE_TRIGGERS: Final = frozenset(
    {
        Trigger.INSTANCE_CRASH,
        Trigger.REBOOT_FAILED,
        Trigger.WATCHDOG,
        Trigger.CONTROL_ERROR,
        Trigger.IO_ERROR,
    }
)
"""Triggers for an instance on a host that is well: it is restarted there first."""

_BY_PERSON: Final = frozenset({None, Trigger.MANUAL})


class Course(StrEnum):
    """Course of the instances."""

    LEAVE = "leave"
    """Running ones are moved live, the others cold."""
    LIVE = "live"
    """Running ones are moved live, the others stay."""
    COLD = "cold"
    """All are moved cold."""
    RESTART = "restart"
    """Restarted on their host, and no more."""
    RECOVER = "recover"
    """Restarted on their host; moved if that fails."""
    EVACUATE = "evacuate"
    """Rebuilt elsewhere from their disks: the host is dead."""

    @property
    def restarts(self) -> bool:
        """Whether instances are restarted on their host first."""
        return self in {Course.RESTART, Course.RECOVER}


_BY_MODE: Final = {
    EvictionMode.RESTART: Course.RESTART,
    EvictionMode.LIVE: Course.LIVE,
    EvictionMode.COLD: Course.COLD,
    EvictionMode.EVACUATE: Course.EVACUATE,
}


def course_of(facts: Facts) -> Course:
    """Return the course of the instances of this Eviction now."""
    spec = facts.eviction.spec
    if (named := _BY_MODE.get(_mode(spec))) is not None:
        return named
    if is_dead(facts.hypervisor, facts.host):
        return Course.EVACUATE
    if spec.trigger == Trigger.HOST_SHUTDOWN:
        # One that is off may have been ended by the shutdown: moved, it would stay off. On the host
        # its agent starts it after the next boot.
        return Course.LIVE
    return Course.RECOVER if spec.trigger in INSTANCE_TRIGGERS else Course.LEAVE


def is_to_be_empty(facts: Facts, course: Course) -> bool:
    """Whether servers on their way to the host have to leave it, too.

    Nothing arrives on a host that is dead, but records of such moves may stay.
    """
    return empties(facts.eviction, facts.source) and course is not Course.EVACUATE


def recovers(facts: Facts, course: Course) -> bool:
    """Whether instances that are off must run afterwards, unless their owners have stopped them."""
    of_instance = facts.eviction.spec.trigger in INSTANCE_TRIGGERS
    return course is not Course.EVACUATE and (course.restarts or of_instance)


def is_dead(hypervisor: Hypervisor | None, host: Host | None) -> bool:
    """Whether the host's present boot is proven dead, and its compute service is forced down.

    The declaration is recorded first: if the proof was wrong, the agent of a host that was not
    declared down does not end its instances.
    """
    if hypervisor is None or host is None or not is_fenced(hypervisor):
        return False
    fencing = hypervisor.fencing
    return fencing is not None and fencing.forcedDownAt is not None and is_down(host)


def needs_proof(spec: EvictionSpec, hypervisor: Hypervisor, host: Host) -> bool:
    """Whether no action may begin until the host is proven dead."""
    mode = _mode(spec)
    if mode is not EvictionMode.AUTO:
        return mode is EvictionMode.EVACUATE
    has_failed = hypervisor.spec.maintenance == Maintenance.HA and not is_emptied_alive(hypervisor)
    return spec.trigger == Trigger.NODE_FAILURE or has_failed or is_down(host)


def is_requested_by_person(spec: EvictionSpec) -> bool:
    """Whether a person requested the Eviction, rather than a component that reacts to failures."""
    return spec.trigger in _BY_PERSON


def _mode(spec: EvictionSpec) -> EvictionMode:
    return EvictionMode(spec.mode) if spec.mode in set(EvictionMode) else EvictionMode.AUTO


def is_down(host: Host) -> bool:
    """Whether the compute service has the host as down, or has it forced down."""
    return host.forced_down or not host.up
