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
    """The runtime's metrics in `registry`; a manager, its client and its queues share one.

    Two series of the same name in one registry are a mistake and raise, so make one `Metrics` for
    each `CollectorRegistry`.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._declare_controller()
        self._declare_queue()
        self._declare_client()
        self._declare_informer()
        self.leader = Gauge(
            "leader_election_master_status",
            "1 while this process holds the lease, else 0.",
            ["name"],
            registry=self.registry,
        )

    def _declare_controller(self) -> None:
        self.reconcile_total = Counter(
            "controller_runtime_reconcile_total",
            "Passes per controller and result: success, requeue_after or error.",
            ["controller", "result"],
            registry=self.registry,
        )
        self.reconcile_errors = Counter(
            "controller_runtime_reconcile_errors_total",
            "Passes that raised.",
            ["controller"],
            registry=self.registry,
        )
        self.terminal_errors = Counter(
            "controller_runtime_terminal_reconcile_errors_total",
            "Passes that raised a terminal error, which is not retried.",
            ["controller"],
            registry=self.registry,
        )
        self._declare_workers()

    def _declare_workers(self) -> None:
        self.reconcile_seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "Length of a pass.",
            ["controller"],
            buckets=_PASS_SECONDS,
            registry=self.registry,
        )
        self.active_workers = Gauge(
            "controller_runtime_active_workers",
            "Passes running now.",
            ["controller"],
            registry=self.registry,
        )
        self.max_concurrent = Gauge(
            "controller_runtime_max_concurrent_reconciles",
            "Passes that may run at once.",
            ["controller"],
            registry=self.registry,
        )

    def _declare_queue(self) -> None:
        self.queue_depth = Gauge(
            "workqueue_depth", "Keys that wait for a worker.", ["name"], registry=self.registry
        )
        self.queue_adds = Counter(
            "workqueue_adds_total",
            "Keys taken in, duplicates not counted.",
            ["name"],
            registry=self.registry,
        )
        self.queue_retries = Counter(
            "workqueue_retries_total",
            "Keys put back with backoff.",
            ["name"],
            registry=self.registry,
        )
        self.queue_seconds = Histogram(
            "workqueue_queue_duration_seconds",
            "How long a key waits for a worker.",
            ["name"],
            buckets=_QUEUE_SECONDS,
            registry=self.registry,
        )
        self.work_seconds = Histogram(
            "workqueue_work_duration_seconds",
            "How long a worker holds a key.",
            ["name"],
            buckets=_QUEUE_SECONDS,
            registry=self.registry,
        )

    def _declare_client(self) -> None:
        self.requests = Counter(
            "rest_client_requests_total",
            "HTTP requests to the API server; code is <error> when none was answered.",
            ["code", "method", "host"],
            registry=self.registry,
        )
        self.call_seconds = Histogram(
            "hypercobalt_kube_call_duration_seconds",
            "Length of a call with its retries.",
            ["verb", "resource", "code"],
            buckets=_CALL_SECONDS,
            registry=self.registry,
        )

    def _declare_informer(self) -> None:
        self.informer_objects = Gauge(
            "hypercobalt_informer_objects",
            "Objects in the cache.",
            ["resource"],
            registry=self.registry,
        )
        self.informer_restarts = Counter(
            "hypercobalt_informer_restarts_total",
            "Watches that ended other than in good order, per reason.",
            ["resource", "reason"],
            registry=self.registry,
        )
        self.unreadable = Counter(
            "hypercobalt_informer_unreadable_total",
            "Objects that do not have the shape of their type and were left out.",
            ["resource"],
            registry=self.registry,
        )
        self.events_dropped = Counter(
            "hypercobalt_events_dropped_total",
            "Events that were not recorded, per reason: rate, full or refused.",
            ["reason"],
            registry=self.registry,
        )
