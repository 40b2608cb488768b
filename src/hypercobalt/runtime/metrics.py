"""Every metric of the runtime, in one registry per process part; no global state.

The names and labels are those of controller-runtime and client-go, so that dashboards and alerts
made for them work. Label sets are closed: no object names.

Source: sigs.k8s.io/controller-runtime, pkg/internal/controller/metrics and pkg/metrics.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_PASS_SECONDS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0),
    *(5.0, 10.0, 20.0, 30.0, 60.0),
)
_QUEUE_SECONDS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0)
_CALL_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)


class Metrics:
    """The runtime's metrics in `registry`; a manager, its client and its queues share one."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._declare_controller()
        self._declare_queue()
        self._declare_client()
        self._declare_informer()
        self.leader = self._gauge(
            "leader_election_master_status",
            "1 while this process holds the lease, else 0.",
            "name",
        )

    def _declare_controller(self) -> None:
        self.reconcile_total = self._counter(
            "controller_runtime_reconcile_total",
            "Passes per controller and result: success, requeue_after or error.",
            *("controller", "result"),
        )
        self.reconcile_errors = self._counter(
            "controller_runtime_reconcile_errors_total", "Passes that raised.", "controller"
        )
        self.terminal_errors = self._counter(
            "controller_runtime_terminal_reconcile_errors_total",
            "Passes that raised a terminal error, which is not retried.",
            "controller",
        )
        self.reconcile_seconds = self._histogram(
            "controller_runtime_reconcile_time_seconds",
            "Length of a pass.",
            "controller",
            buckets=_PASS_SECONDS,
        )
        self.active_workers = self._gauge(
            "controller_runtime_active_workers", "Passes running now.", "controller"
        )
        self.max_concurrent = self._gauge(
            "controller_runtime_max_concurrent_reconciles",
            "Passes that may run at once.",
            "controller",
        )

    def _declare_queue(self) -> None:
        self.queue_depth = self._gauge("workqueue_depth", "Keys that wait for a worker.", "name")
        self.queue_adds = self._counter(
            "workqueue_adds_total", "Keys taken in, duplicates not counted.", "name"
        )
        self.queue_retries = self._counter(
            "workqueue_retries_total", "Keys put back with backoff.", "name"
        )
        self.queue_seconds = self._histogram(
            "workqueue_queue_duration_seconds",
            "How long a key waits for a worker.",
            "name",
            buckets=_QUEUE_SECONDS,
        )
        self.work_seconds = self._histogram(
            "workqueue_work_duration_seconds",
            "How long a worker holds a key.",
            "name",
            buckets=_QUEUE_SECONDS,
        )

    def _declare_client(self) -> None:
        self.requests = self._counter(
            "rest_client_requests_total",
            "HTTP requests to the API server; code is <error> when none was answered.",
            *("code", "method", "host"),
        )
        self.call_seconds = self._histogram(
            "hypercobalt_kube_call_duration_seconds",
            "Length of a call with its retries.",
            *("verb", "resource", "code"),
            buckets=_CALL_SECONDS,
        )

    def _declare_informer(self) -> None:
        self.informer_objects = self._gauge(
            "hypercobalt_informer_objects", "Objects in the cache.", "resource"
        )
        self.informer_restarts = self._counter(
            "hypercobalt_informer_restarts_total",
            "Watches that ended other than in good order, per reason.",
            *("resource", "reason"),
        )
        self.unreadable = self._counter(
            "hypercobalt_informer_unreadable_total",
            "Objects that do not have the shape of their type and were left out.",
            "resource",
        )
        self.events_dropped = self._counter(
            "hypercobalt_events_dropped_total",
            "Events that were not recorded, per reason: rate, full or refused.",
            "reason",
        )

    def _counter(self, name: str, doc: str, *labels: str) -> Counter:
        return Counter(name, doc, labels, registry=self.registry)

    def _gauge(self, name: str, doc: str, *labels: str) -> Gauge:
        return Gauge(name, doc, labels, registry=self.registry)

    def _histogram(
        self, name: str, doc: str, *labels: str, buckets: tuple[float, ...]
    ) -> Histogram:
        return Histogram(name, doc, labels, buckets=buckets, registry=self.registry)
