"""What the calls to OpenStack are counted by."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from hypercobalt.adapters.openstack.trust import EXPOSURES
from hypercobalt.logs import get_logger

log = get_logger(__name__)

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 60.0)


class OpenStackMetrics:
    """Metrics of the calls, in `registry`; one set for each registry.

    Labels: service as in the catalogue, method of HTTP, code of the answer (`<error>` for none).
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.calls = Counter(
            "hypercobalt_openstack_requests_total",
            "Requests to OpenStack; code is <error> when none was answered.",
            ("service", "method", "code"),
            registry=registry,
        )
        self.seconds = Histogram(
            "hypercobalt_openstack_request_duration_seconds",
            "Length of a request, the wait for a thread included.",
            ("service", "method"),
            buckets=_SECONDS,
            registry=registry,
        )
        self._exposed = Gauge(
            "hypercobalt_openstack_exposed",
            "1 while traffic to OpenStack can be read or changed on its way, by kind.",
            ("kind",),
            registry=registry,
        )
        for kind in EXPOSURES:
            self._exposed.labels(kind).set(0)
        self._noted: set[tuple[str, str]] = set()

    def exposed(self, kind: str, what: str) -> None:
        """Count an exposure, and log it once."""
        self._exposed.labels(kind).set(1)
        if (kind, what) not in self._noted:
            self._noted.add((kind, what))
            log.warning("openstack_traffic_exposed", kind=kind, what=what)
