"""Metrics of Evictions. Label sets are closed: no names of hosts or instances."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter


class EvictionMetrics:
    """The metrics, in the process's registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.claims = Counter(
            "hypercobalt_instance_claims",
            "Claims of another host for which an Eviction has not started an instance, once each.",
            registry=registry,
        )
