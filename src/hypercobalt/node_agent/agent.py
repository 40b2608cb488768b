"""Wires an agent's concerns to one host, one libvirt and one API server, and runs them.

Every concern is a service of the runtime's manager. One that is late when the process is to stop is
cancelled: whatever it was about to write is written by the next start, which looks at the world
again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from hypercobalt.adapters.host import incarnation
from hypercobalt.adapters.host.port import Shutdown, System, Units
from hypercobalt.adapters.libvirt.port import Libvirt
from hypercobalt.api.certificate import IssuerReference
from hypercobalt.api.core import Secret
from hypercobalt.api.host_certificate import CertificateSource
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.host import certificates, operating_system
from hypercobalt.node_agent.host.certificates import Certificates
from hypercobalt.node_agent.host.os_update import OsUpdate
from hypercobalt.node_agent.host.requested import RequestedCertificate, RequestSettings
from hypercobalt.node_agent.host.shutdown_drain import Evacuation
from hypercobalt.node_agent.host.units import UnitConditions
from hypercobalt.node_agent.libvirt.exporter import Exporter
from hypercobalt.node_agent.libvirt.state import LibvirtState
from hypercobalt.node_agent.migrations.follow import Migrations
from hypercobalt.node_agent.presence import Presence
from hypercobalt.node_agent.settings import Settings
from hypercobalt.node_agent.status.applier import FIELD_MANAGER, Applier
from hypercobalt.node_agent.status.board import Board
from hypercobalt.node_agent.status.compose import OWN_CONDITIONS
from hypercobalt.node_agent.status.text import condition_type
from hypercobalt.runtime import Connection, Kube, Limits, Manager, Metrics
from hypercobalt.runtime.endpoints import Guard
from hypercobalt.runtime.guard import guard
from hypercobalt.runtime.manager import Service
from hypercobalt.runtime.tasks import first
from hypercobalt.runtime.write_cache import Latest

log = get_logger(__name__)

STOP_DEADLINE: Final = timedelta(seconds=5)
"""Less than systemd's and the kubelet's patience."""

Concern = Callable[[], Coroutine[None, None, None]]

_LIMITS: Final = Limits(deadline=timedelta(seconds=15), attempt=timedelta(seconds=5), connections=4)


@dataclass(frozen=True, slots=True)
class Host:
    """What the agent talks to on its host."""

    libvirt: Libvirt
    units: Units
    shutdown: Shutdown
    system: System


async def run(settings: Settings, connection: Connection, host: Host) -> None:
    """Run the agent of one host until SIGTERM or SIGINT.

    Raises:
        ConfigurationError: a setting cannot be used.
    """
    metrics = Metrics()
    async with Kube(
        connection, field_manager=FIELD_MANAGER, limits=_LIMITS, metrics=metrics
    ) as kube:
        manager = Manager(
            kube,
            metrics=metrics,
            address=settings.health,
            metrics_address=settings.metrics,
            metrics_guard=_metrics_guard(settings, kube),
            stop_deadline=STOP_DEADLINE,
        )
        exporter = Exporter(host.libvirt)
        metrics.registry.register(exporter)
        manager.add_refresh(exporter.refresh)
        register(settings, manager, host)
        log.info("starting_node_agent", hypervisor=settings.node, libvirt=settings.libvirt_uri)
        await manager.run()


def _metrics_guard(settings: Settings, kube: Kube) -> Guard | None:
    if settings.metrics is None or not settings.metrics_secure:
        return None
    return guard(kube, settings.metrics_certificate)


def register(settings: Settings, manager: Manager, host: Host) -> None:
    """Have the manager run every concern of an agent."""
    kube, board = manager.kube, Board(manager.clock)
    own = manager.informer(Hypervisor, fields=f"metadata.name={settings.node}")
    hypervisor = Latest(own)
    presence = _presence(settings, manager, hypervisor)
    types = (*OWN_CONDITIONS, *(condition_type(unit) for unit in settings.units))
    applier = Applier(kube, settings.node, board, own, own=types)
    migrations = Migrations(kube, host.libvirt, settings, clock=manager.clock)
    state = LibvirtState(
        host.libvirt, board, units=settings.units, listeners=(migrations.on_event,)
    )
    observers: dict[str, Concern] = {
        "libvirt": state.run,
        "units": UnitConditions(host.units, board, settings.units).run,
        "operating-system": lambda: operating_system.follow(host.system, board),
        "presence": presence.run,
    }
    actors: dict[str, Concern] = {
        "status": applier.run,
        "migrations": migrations.run,
        "os-update": OsUpdate(host.units, hypervisor, board).run,
        "evacuation": Evacuation(host.shutdown, kube, hypervisor, board).run,
    }
    if settings.pki is not None and settings.source is CertificateSource.REQUEST:
        actors["certificates"] = RequestedCertificate(
            _request_settings(settings, settings.pki),
            host.units,
            kube,
            hypervisor=hypervisor,
            board=board,
            clock=manager.clock,
        ).run
    elif settings.pki is not None:
        log.warning("certificate_keys_from_secrets", way_out="--certificate-source=request")
        told = certificates.Settings(
            settings.node, settings.namespace, settings.pki, settings.issuer, settings.addresses
        )
        fields = f"metadata.name={told.secret_name}"
        secret = Latest(manager.informer(Secret, settings.namespace, fields=fields))
        actors["certificates"] = Certificates(
            told, host.units, kube, hypervisor=hypervisor, secret=secret, board=board
        ).run
    for name, concern in observers.items():
        manager.add_service(name, _until_stop(concern))
    for name, concern in actors.items():
        manager.add_service(name, _until_stop(_once(presence, concern)))
    manager.add_check(
        "libvirt", lambda: None if state.settled else "nothing known yet", readiness=True
    )
    manager.add_check("status", lambda: applier.refusal, readiness=True)
    manager.add_check("lease", lambda: _waiting(presence), readiness=True)


def _request_settings(settings: Settings, pki: Path) -> RequestSettings:
    issuer = IssuerReference(settings.issuer, settings.issuer_kind, "cert-manager.io")
    return RequestSettings(
        settings.node, settings.namespace, pki, issuer, settings.addresses, settings.ca
    )


def _presence(settings: Settings, manager: Manager, own: Latest[Hypervisor]) -> Presence:
    here = incarnation.this_process()

    def is_over(holder: str) -> bool:
        other = incarnation.parse(holder)
        return other is not None and incarnation.is_over(other, here, incarnation.start_of)

    return Presence(
        manager.kube,
        f"node-agent-{settings.node}",
        settings.namespace,
        str(here),
        is_over=is_over,
        hypervisor=own,
        clock=manager.clock,
    )


def _waiting(presence: Presence) -> str | None:
    if presence.held.is_set():
        return None
    return f"held by {presence.holder}" if presence.holder else "not taken yet"


def _once(presence: Presence, concern: Concern) -> Concern:
    """The concern, from when this agent has the host."""

    async def run() -> None:
        await presence.held.wait()
        await concern()

    return run


def _until_stop(concern: Concern) -> Service:
    async def service(stop: asyncio.Event) -> None:
        await first(stop.wait(), concern())

    return service
