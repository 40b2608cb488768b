"""Gauges of high availability end with the state that they show."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from hypercobalt.ha.host_failure.guard import Gate
from hypercobalt.operator.ha.metrics import HaMetrics

BLOCKED = "hypercobalt_ha_guard_blocked"


def gates(*closed: str) -> tuple[Gate, ...]:
    return tuple(Gate(name, name not in closed, "") for name in ("Observer", "Cliff"))


def test_closed_gates_count_hosts_until_each_is_well_again() -> None:
    registry = CollectorRegistry()
    metrics = HaMetrics(registry)

    def blocked() -> tuple[float | None, ...]:
        names = ("Observer", "Cliff")
        return tuple(registry.get_sample_value(BLOCKED, {"gate": name}) for name in names)

    metrics.judged("kvm-a", gates("Cliff"))
    metrics.judged("kvm-a", gates("Cliff"))
    metrics.judged("kvm-b", gates("Cliff", "Observer"))
    assert blocked() == (1.0, 2.0)
    metrics.judged("kvm-b", gates())
    assert blocked() == (0.0, 1.0)
    metrics.judged("kvm-a", ())
    metrics.judged("kvm-a", ())
    assert blocked() == (0.0, 0.0)


def test_unhealthy_hosts_are_counted_at_the_scrape() -> None:
    registry = CollectorRegistry()
    unwell = [3, 0]
    HaMetrics(registry).count_unhealthy(lambda: unwell.pop(0))
    found = [registry.get_sample_value("hypercobalt_ha_nodes_unhealthy") for _ in range(2)]
    assert found == [3.0, 0.0]
