"""The HA agent's metrics.

Label sets are closed; there is no instance among them.

Source: the HA reference, section 11.
"""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)


class IncidentMetrics:
    """All of them, in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.events = Counter(
            "ha_events_total",
            "Events by kind, reaction and verdict.",
            ("type", "detail", "class"),
            registry=registry,
        )
        self.open = Gauge(
            "ha_incidents_open", "Open incidents by type.", ("class",), registry=registry
        )
        self.recoveries = Counter(
            "ha_recoveries_total",
            "Recoveries by action and result: requested, exists, taken, dry-run, resumed, refused.",
            ("action", "result"),
            registry=registry,
        )
        self.recovery_seconds = Histogram(
            "ha_recovery_duration_seconds",
            "From the first sign of an incident until its instance ran again, if recovered.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.suppressed = Counter(
            "ha_suppressed_total",
            "Reactions that were held back, by reason: maintenance, migration, eviction, storm …",
            ("reason",),
            registry=registry,
        )
        self.connected = Gauge(
            "ha_libvirt_connected", "1 while libvirt is connected, else 0.", registry=registry
        )
        self.reconnects = Counter(
            "ha_libvirt_reconnects_total", "Connections to libvirt after a loss.", registry=registry
        )
        self.missed = Counter(
            "ha_resync_missed_events_total",
            "Changes that a listing has shown without an event.",
            registry=registry,
        )
        self.unprobed = Gauge(
            "ha_unprobed_instances",
            "Running instances whose emulators the last round of probes could not reach.",
            registry=registry,
        )
        self.depth = Gauge(
            "ha_queue_depth", "Events of libvirt that wait to be classified.", registry=registry
        )
        self.journal_failing = Gauge(
            "ha_journal_failing",
            "1 after the last write of the journal or the configuration failed, else 0.",
            registry=registry,
        )
        self.config_valid = Gauge(
            "ha_config_valid",
            "1 while the ConfigMap is valid or absent.",
            registry=registry,
        )
