"""Metrics of the domain: how many hosts and Evictions are in which state.

They are counted out of the caches at each scrape. A state that needs a person has a series
of its own with a number above 0: an alert on the value of a False condition never fires.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hypercobalt.api.conditions import Condition, get_condition, is_true
from hypercobalt.api.eviction import (
    Eviction,
    EvictionReason,
    InstancePhase,
    evicting,
)
from hypercobalt.api.ha_switch import is_paused, switched_off
from hypercobalt.api.hypervisor import Hypervisor, Maintenance
from hypercobalt.api.hypervisor_conditions import (
    FencedReason,
    HaConfigReason,
    HypervisorConditionType,
    NetworkHealthyReason,
    ReadyReason,
    RecoveryBlockedReason,
)
from hypercobalt.api.incident import IncidentType

_Type = HypervisorConditionType


class HaState(StrEnum):
    """States of `hypercobalt_ha_hosts`; a host may be in several."""

    FENCED = "Fenced"
    ATTEMPTING = "Attempting"
    UNFENCED = "Unfenced"
    GATES_CLOSED = "GatesClosed"
    MANY_HOSTS = "ManyHosts"
    CRASH_LOOP = "CrashLoop"
    AWAITS_REBOOT = "AwaitsReboot"
    CONFIG_INVALID = "ConfigInvalid"
    NO_CONFIG = "NoConfig"


class DefinitionsState(StrEnum):
    """States of `hypercobalt_definitions`: reasons of `DefinitionsStored`, and its absence."""

    STORED = "Stored"
    LEFT_OUT = "LeftOut"
    NO_KEY = "NoKey"
    NOT_STORED = "NotStored"
    NOT_REPORTED = "NotReported"


HA_STATES: Final[Mapping[tuple[str, str], HaState]] = {
    (_Type.FENCED, FencedReason.PROVEN): HaState.FENCED,
    (_Type.FENCED, FencedReason.ATTEMPTING): HaState.ATTEMPTING,
    (_Type.FENCED, FencedReason.FAILED): HaState.UNFENCED,
    (_Type.FENCED, FencedReason.REFUSED): HaState.UNFENCED,
    (_Type.RECOVERY_BLOCKED, RecoveryBlockedReason.GATES_CLOSED): HaState.GATES_CLOSED,
    (_Type.RECOVERY_BLOCKED, RecoveryBlockedReason.MANY_HOSTS): HaState.MANY_HOSTS,
    (_Type.RECOVERY_BLOCKED, RecoveryBlockedReason.CRASH_LOOP): HaState.CRASH_LOOP,
    (_Type.RECOVERY_BLOCKED, RecoveryBlockedReason.AWAITS_REBOOT): HaState.AWAITS_REBOOT,
    (_Type.HA_CONFIG_VALID, HaConfigReason.INVALID): HaState.CONFIG_INVALID,
    (_Type.HA_CONFIG_VALID, HaConfigReason.NONE_VALID): HaState.NO_CONFIG,
    (_Type.HA_CONFIG_VALID, HaConfigReason.NOT_READ): HaState.NO_CONFIG,
}
"""State of high availability by a condition's type and reason."""
_BLOCKED: Final = frozenset(
    {HaState.GATES_CLOSED, HaState.MANY_HOSTS, HaState.CRASH_LOOP, HaState.AWAITS_REBOOT}
)


class Overview(Collector):
    """A collector for the process's registry.

    Args:
        hypervisors: returns the known Hypervisors.
        evictions: returns the known Evictions.
    """

    def __init__(
        self,
        hypervisors: Callable[[], Iterable[Hypervisor]],
        evictions: Callable[[], Iterable[Eviction]],
    ) -> None:
        self._hypervisors, self._evictions = hypervisors, evictions

    def describe(self) -> Iterable[Metric]:
        """Return the families of `collect`, without a read of the caches."""
        return self._families([], [])

    def collect(self) -> Iterable[Metric]:
        return self._families(list(self._hypervisors()), list(self._evictions()))

    def _families(
        self, hypervisors: list[Hypervisor], evictions: list[Eviction]
    ) -> Iterable[Metric]:
        hosts = Counter(
            _reason(get_condition(one.conditions, _Type.READY), ReadyReason) for one in hypervisors
        )
        states = Counter(_reason(evicting(one.status), EvictionReason) for one in evictions)
        phases = Counter(
            str(entry.phase or "") for one in evictions for entry in one.status.instances
        )
        yield _family(
            "hypercobalt_hypervisors", "Hosts, by the reason of Ready.", hosts, ReadyReason
        )
        yield _family(
            "hypercobalt_evictions", "Evictions, by the reason of Evicting.", states, EvictionReason
        )
        yield _family(
            "hypercobalt_eviction_instances",
            "Instances that Evictions name, by their phase.",
            phases,
            InstancePhase,
        )
        yield _family(
            "hypercobalt_ha_hosts",
            "Hosts, by what high availability waits for; none where recovery is switched off.",
            Counter(str(state) for one in hypervisors for state in ha_states(one)),
            HaState,
        )
        networks = Counter(
            found.reason
            for one in hypervisors
            if (found := get_condition(one.conditions, _Type.NETWORK_HEALTHY)) is not None
        )
        yield _family(
            "hypercobalt_networks",
            "Hosts that have, or had, an OVSNode, by the reason of NetworkHealthy.",
            networks,
            NetworkHealthyReason,
        )
        definitions = Counter(state for one in hypervisors if (state := definitions_state(one)))
        yield _family(
            "hypercobalt_definitions",
            "Hosts whose instances are to be started elsewhere when they die, by whether their "
            "definitions are stored.",
            definitions,
            DefinitionsState,
        )
        incidents = Counter(
            str(found.type) for one in hypervisors for found in one.status.incidents
        )
        yield _family(
            "hypercobalt_incidents",
            "Open incidents that Hypervisors name, by their type.",
            incidents,
            IncidentType,
            label="type",
        )


def definitions_state(hypervisor: Hypervisor) -> str:
    """Return whether the definitions of a host's domains are stored; "" where none are read.

    A missing report, as from an older agent, counts for hosts with high availability.
    """
    found = get_condition(hypervisor.conditions, _Type.DEFINITIONS_STORED)
    if hypervisor.status.definitionsKey is None:
        return ""
    if found is not None:
        return found.reason
    recovers = is_true(hypervisor.conditions, _Type.HA_ENABLED)
    return DefinitionsState.NOT_REPORTED if recovers else ""


def ha_states(hypervisor: Hypervisor) -> Iterable[HaState]:
    """Return what high availability waits for on a host.

    A blocked recovery does not count for a host with high availability switched off.
    """
    spec = hypervisor.spec
    silenced = (
        spec.maintenance in {Maintenance.MANUAL, Maintenance.AUTO}
        or spec.highAvailability is False
        or spec.lifecycleEnabled is False
        or is_paused(hypervisor)
        or bool(switched_off(hypervisor))
    )
    for one in hypervisor.conditions:
        state = HA_STATES.get((one.type, one.reason))
        if state is not None and not (silenced and state in _BLOCKED):
            yield state


def _reason(found: Condition | None, known: Iterable[str]) -> str:
    return found.reason if found is not None and found.reason in set(known) else ""


def _family(
    name: str, doc: str, counted: Counter[str], known: Iterable[str], *, label: str = "state"
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, doc, labels=(label,))
    for state in known:
        family.add_metric((str(state),), counted[state])
    if counted[""]:
        family.add_metric(("Unknown",), counted[""])
    return family
