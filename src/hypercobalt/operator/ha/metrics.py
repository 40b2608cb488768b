"""What the HA service counts. Label sets are closed: no names of hosts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from hypercobalt.ha.guard import Gate


class HaMetrics:
    """The metrics, in the process's registry."""

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
            "1 while the gate was closed for the host that was judged last, else 0.",
            ("gate",),
            registry=registry,
        )
        self.unhealthy = Gauge(
            "hypercobalt_ha_nodes_unhealthy",
            "Hosts that are unwell, or recovered and not back, at the last census.",
            registry=registry,
        )

    def judged(self, answers: tuple[Gate, ...]) -> None:
        """Note the gates' answers."""
        for gate in answers:
            self._blocked.labels(gate.name).set(not gate.passed)
