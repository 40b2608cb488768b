"""Metrics of the domain: how many hosts and Evictions are in which state.

They are counted out of the caches at each scrape. A state that needs a person has a series
of its own with a number above 0: an alert on the value of a False condition never fires.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hypercobalt.api.conditions import Condition, get_condition
from hypercobalt.api.eviction import (
    Eviction,
    EvictionReason,
    InstancePhase,
    evicting,
)
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType, ReadyReason


class Overview(Collector):
    """A collector for the process's registry.

    Args:
        hypervisors: gives those that are known.
        evictions: likewise.
    """

    def __init__(
        self,
        hypervisors: Callable[[], Iterable[Hypervisor]],
        evictions: Callable[[], Iterable[Eviction]],
    ) -> None:
        self._hypervisors, self._evictions = hypervisors, evictions

    def describe(self) -> Iterable[Metric]:
        """What `collect` gives, without asking the caches."""
        return self._families([], [])

    def collect(self) -> Iterable[Metric]:
        return self._families(list(self._hypervisors()), list(self._evictions()))

    def _families(
        self, hypervisors: list[Hypervisor], evictions: list[Eviction]
    ) -> Iterable[Metric]:
        hosts = Counter(
            _reason(get_condition(one.conditions, HypervisorConditionType.READY), ReadyReason)
            for one in hypervisors
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


def _reason(found: Condition | None, known: Iterable[str]) -> str:
    return found.reason if found is not None and found.reason in set(known) else ""


def _family(name: str, doc: str, counted: Counter[str], known: Iterable[str]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, doc, labels=("state",))
    for state in known:
        family.add_metric((str(state),), counted[state])
    if counted[""]:
        family.add_metric(("Unknown",), counted[""])
    return family
