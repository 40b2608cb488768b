"""The fleet, as the gates count it: each Hypervisor with its Node, and a census that is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final

from hypercobalt.api.conditions import get_condition, is_true
from hypercobalt.api.core import Node
from hypercobalt.api.fencing import FencingPhase, is_declared_dead
from hypercobalt.api.hypervisor import (
    MEMORY,
    Hypervisor,
    Maintenance,
    is_fenced,
    is_network_broken,
)
from hypercobalt.api.hypervisor_conditions import AgentReportingReason, HypervisorConditionType
from hypercobalt.api.quantity import units
from hypercobalt.api.recovery import RecoveryPhase
from hypercobalt.ha.host_failure.census import Census, HostState, census
from hypercobalt.ha.host_failure.facts import healthy_since
from hypercobalt.operator.agents.leases import LeaseSighting, LeaseState
from hypercobalt.runtime import Clock

KEPT: Final = 1.0
"""Seconds that a census is kept: thousands of hosts that fail at once must not be counted again for
each of them. Hosts that this process begins to recover are added at once."""

_MIB: Final = 1 << 20

Counted = Callable[[Hypervisor], int]
"""Counts the instances of a host in recovery for other hosts' limits: by the compute service, never
by the host's own report, which could stop the recovery of every other host.
"""

_Type = HypervisorConditionType


def ready(node: Node | None) -> str:
    """Return the status of the Node's condition Ready; "" when no kubelet has reported it."""
    conditions = node.status.conditions if node is not None else ()
    return next((condition.status for condition in conditions if condition.type == "Ready"), "")


def domains(hypervisor: Hypervisor, labels: Sequence[str]) -> tuple[str, ...]:
    """Return the failure domains of a host: values of the labels, and its aggregates."""
    there = hypervisor.metadata.labels
    by_label = (f"{key.rpartition('/')[2]} {there[key]}" for key in labels if there.get(key))
    return (
        *by_label,
        *(f"aggregate {aggregate.name}" for aggregate in hypervisor.status.aggregates),
    )


def state(
    hypervisor: Hypervisor,
    node: Node | None,
    lease: LeaseSighting | None,
    labels: Sequence[str],
    settled: datetime,
    *,
    counted: Counted,
) -> HostState:
    """Return a host as the census counts it.

    Args:
        hypervisor: of the host.
        node: of the host; None: there is none.
        lease: of its node agent; None while not enough is known.
        labels: see `domains`.
        settled: a recovered host that has been in order since then is back: it only waits to be
            taken back, perhaps for another host that has failed.
        counted: see `Counted`.
    """
    status, reported = hypervisor.status, ready(node)
    recovered = hypervisor.spec.maintenance == Maintenance.HA or is_fenced(hypervisor)
    healthy = healthy_since(hypervisor) if reported == "True" else None
    if healthy is not None and healthy <= settled and not is_fenced(hypervisor):
        recovered = False
    evacuated = _is_evacuated(hypervisor)
    if healthy is not None and evacuated:
        recovered = False  # it reports, and waits for a reboot: nothing of it is unknown
    unwell = reported in {"False", "Unknown"}
    agent = get_condition(hypervisor.conditions, _Type.AGENT_REPORTING)
    silent = agent is not None and agent.reason == AgentReportingReason.AGENT_SILENT
    return HostState(
        hypervisor.metadata.name,
        unwell=unwell or recovered,
        evacuated=evacuated,
        stale=reported == "Unknown" or silent,
        observed=bool(reported) and lease is not None and lease.state is not LeaseState.UNRENEWED,
        since=status.unhealthySince if unwell else None,
        recovering=counted(hypervisor) if _is_recovered_now(hypervisor) else None,
        free_mib=_free(hypervisor),
        domains=domains(hypervisor, labels),
    )


def instances(hypervisor: Hypervisor) -> int:
    """Return how many instances the host's agent reported last."""
    return hypervisor.status.numInstances or 0


def memory_mib(hypervisor: Hypervisor) -> int:
    """Return the memory of all of them together."""
    return int(units(hypervisor.status.allocation.get(MEMORY))) // _MIB


def _is_evacuated(hypervisor: Hypervisor) -> bool:
    """Whether the operator's records alone have the host as dead, with nothing left to recover.

    The host's own reports do not count: they would make room in the gates.
    """
    fencing, recovery = hypervisor.fencing, hypervisor.status.recovery
    dead = fencing is not None and is_declared_dead(fencing)
    return dead and recovery is not None and recovery.phase == RecoveryPhase.RECOVERED


def _is_recovered_now(hypervisor: Hypervisor) -> bool:
    """Whether its recovery is under way: neither done, given up, nor held up by its fence device.

    Hosts that cannot be fenced wait for a person, for as long as that takes, and the next attempt
    checks the gates again.
    """
    evicting = get_condition(hypervisor.conditions, _Type.EVICTING)
    over = evicting is not None and evicting.status == "False"
    fencing = hypervisor.fencing
    held_up = fencing is not None and fencing.phase == FencingPhase.FAILED
    return hypervisor.spec.maintenance == Maintenance.HA and not (over or held_up)


def _free(hypervisor: Hypervisor) -> int:
    status = hypervisor.status
    if hypervisor.spec.maintenance or not is_true(hypervisor.conditions, "Ready"):
        return 0
    if is_network_broken(hypervisor):
        return 0
    has = units(status.effectiveCapacity.get(MEMORY)) or units(status.capacity.get(MEMORY))
    return max(int(has) // _MIB - memory_mib(hypervisor), 0)


class CensusCache:
    """Keeps a census for a moment.

    Args:
        states: returns every host.
        clock: times how long the census is kept.
        counted: see `Counted`.
    """

    def __init__(
        self, states: Callable[[], Iterable[HostState]], clock: Clock, counted: Counted
    ) -> None:
        self._states, self._clock, self._counted = states, clock, counted
        self._kept: tuple[float, Census] | None = None
        self._begun: dict[str, int] = {}

    def begin(self, hypervisor: Hypervisor) -> None:
        """Count a host as being recovered from now on, before the write that shows it."""
        self._begun[hypervisor.metadata.name] = self._counted(hypervisor)

    def written(self, name: str) -> None:
        """Count a host by its stored state again: the write is over."""
        self._begun.pop(name, None)
        self._kept = None

    def census(self) -> Census:
        """Return the fleet as of the last moment, with recoveries that have begun since."""
        now = self._clock.monotonic()
        if self._kept is None or now - self._kept[0] > KEPT:
            self._kept = now, census(self._states())
        counted = self._kept[1]
        if not self._begun:
            return counted
        return counted.with_recovering({**counted.recovering, **self._begun})
