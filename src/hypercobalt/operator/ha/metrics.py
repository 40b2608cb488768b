"""Metrics of the HA service. Label sets are closed: no names of hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge

from hypercobalt.ha.host_failure.guard import Gate


class HaMetrics:
    """The metrics, in the process's registry; gauges are states of now, not of the last pass."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.fences = Counter(
            "hypercobalt_ha_fence",
            "Attempts to switch a host off, by their result.",
            ("result",),
            registry=registry,
        )
        self.recoveries = Counter(
            "hypercobalt_ha_recoveries",
            "Steps taken for hosts that have failed.",
            ("action",),
            registry=registry,
        )
        self._blocked = Gauge(
            "hypercobalt_ha_guard_blocked",
            "Hosts that have failed, or may have, and for which the gate is closed.",
            ("gate",),
            registry=registry,
        )
        self._unhealthy = Gauge(
            "hypercobalt_ha_nodes_unhealthy",
            "Hosts that are unhealthy, or recovered and not back.",
            registry=registry,
        )
        self._closed: dict[str, frozenset[str]] = {}

    def count_unhealthy(self, unwell: Callable[[], int]) -> None:
        """Count unhealthy hosts by `unwell` at each scrape."""
        self._unhealthy.set_function(lambda: float(unwell()))

    def judged(self, host: str, answers: Iterable[Gate]) -> None:
        """Count the gates that are closed for a host; with no answers the host is left out."""
        closed: set[str] = set()
        for gate in answers:
            self._blocked.labels(gate.name)  # 0 shows that it was checked
            if not gate.passed:
                closed.add(gate.name)
        before = self._closed.pop(host, frozenset())
        if closed:
            self._closed[host] = frozenset(closed)
        for name in before - closed:
            self._blocked.labels(name).dec()
        for name in closed - before:
            self._blocked.labels(name).inc()
