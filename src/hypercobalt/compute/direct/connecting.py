"""The compute service `direct` on real hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Gauge

from hypercobalt.adapters.libvirt import uri
from hypercobalt.adapters.libvirt.on_demand import OnDemandDaemons
from hypercobalt.adapters.ovn.northbound import Northbound
from hypercobalt.adapters.ovs.remote import parse_remotes
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.compute.direct.definitions import Stored
from hypercobalt.compute.direct.directory import HypervisorDirectory, fill
from hypercobalt.compute.direct.guarded import GuardedDaemons, GuardedPorts
from hypercobalt.compute.direct.ports import NoPorts, Ports
from hypercobalt.compute.direct.service import DirectService
from hypercobalt.compute.direct.settings import EXPOSURES, DirectSettings, exposures
from hypercobalt.compute.leadership import LeaderGuard
from hypercobalt.logs import get_logger

log = get_logger(__name__)


def connect(
    hypervisors: Callable[[], Iterable[Hypervisor]],
    registry: CollectorRegistry,
    settings: DirectSettings,
    guard: LeaderGuard,
    stored: Stored,
) -> DirectService:
    """Assemble the service; no host is connected to yet.

    Raises:
        ConfigurationError: an address cannot be read.
    """
    for template in (settings.control, settings.migration):
        uri.parse(fill(template, "host", "192.0.2.1"))
    report_exposures(settings, registry)
    ports: Ports = NoPorts()
    if settings.northbound:
        ports = Northbound(parse_remotes(settings.northbound))
    directory = HypervisorDirectory(hypervisors, settings)
    daemons = GuardedDaemons(OnDemandDaemons(), guard)
    return DirectService(
        directory,
        daemons,
        GuardedPorts(ports, guard),
        stored=stored,
        tls=settings.tls,
        allowed=settings.allowed,
    )


def report_exposures(settings: DirectSettings, registry: CollectorRegistry) -> None:
    """Log and count what the settings leave unprotected; once for each registry."""
    gauge = Gauge(
        "hypercobalt_direct_exposed",
        "1 while migrations or libvirt can be read or changed between hosts, by kind.",
        ("kind",),
        registry=registry,
    )
    found = exposures(settings)
    for kind in EXPOSURES:
        gauge.labels(kind).set(kind in found)
    for kind, what in found.items():
        log.warning("migration_traffic_exposed", kind=kind, what=what)
