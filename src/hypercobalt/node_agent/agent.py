"""Wires the node agent's concerns to one host, one libvirt and one API server, and runs them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from hypercobalt.adapters.host.port import Shutdown, System, Units
from hypercobalt.adapters.libvirt.port import Libvirt
from hypercobalt.agent.applier import Applier, Report
from hypercobalt.agent.certificates.install import Installer
from hypercobalt.agent.process import Agent, Concern, managed
from hypercobalt.agent.text import condition_type
from hypercobalt.api.core import Secret
from hypercobalt.api.host_certificate import CertificateSource
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.host import certificates, operating_system, tls_files
from hypercobalt.node_agent.host.os_update import OsUpdate
from hypercobalt.node_agent.host.shutdown_drain import ShutdownDrain
from hypercobalt.node_agent.host.units import UnitConditions
from hypercobalt.node_agent.libvirt.exporter import Exporter
from hypercobalt.node_agent.libvirt.state import LibvirtState
from hypercobalt.node_agent.migrations.follow import Migrations
from hypercobalt.node_agent.settings import Settings
from hypercobalt.node_agent.status.compose import OWN_CONDITIONS, compose
from hypercobalt.node_agent.status.inventory import FIELDS
from hypercobalt.node_agent.status.parts import Board, Parts
from hypercobalt.runtime import Connection, Manager
from hypercobalt.runtime.write_cache import Latest

log = get_logger(__name__)

FIELD_MANAGER: Final = "kvm-node-agent"
"""As the existing agent's, so that its fields pass to us."""


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
    async with managed(settings, connection, FIELD_MANAGER) as manager:
        exporter = Exporter(host.libvirt)
        manager.metrics.registry.register(exporter)
        manager.add_refresh(exporter.refresh)
        register(settings, manager, host)
        log.info("node_agent_started", hypervisor=settings.node, libvirt=settings.libvirt_uri)
        await manager.run()


def register(settings: Settings, manager: Manager, host: Host) -> None:
    """Have the manager run every concern of an agent."""
    kube, board = manager.kube, Board(manager.clock)
    own = manager.informer(Hypervisor, fields=f"metadata.name={settings.node}")
    hypervisor = Latest(own)
    agent = Agent("node-agent", settings, manager, lambda: hypervisor.value)
    types = (*OWN_CONDITIONS, *(condition_type(unit) for unit in settings.units))
    applier = Applier(kube, report(settings.node, types), board, own)
    migrations = Migrations(kube, host.libvirt, settings, clock=manager.clock)
    state = LibvirtState(
        host.libvirt, board, units=settings.units, listeners=(migrations.on_event,)
    )
    agent.observe("libvirt", state.run)
    agent.observe("units", UnitConditions(host.units, board, settings.units).run)
    agent.observe("operating-system", lambda: operating_system.follow(host.system, board))
    agent.act("status", applier.run)
    agent.act("migrations", migrations.run)
    agent.act("os-update", OsUpdate(host.units, hypervisor, board).run)
    agent.act("shutdown-drain", ShutdownDrain(host.shutdown, kube, hypervisor, board).run)
    if settings.pki is not None:
        installer = tls_files.installer(settings.pki, host.units, board)
        agent.act("certificates", _certificates(settings, manager, installer, hypervisor))
    manager.add_check(
        "libvirt", lambda: None if state.settled else "libvirt not read yet", readiness=True
    )
    manager.add_check("status", lambda: applier.refusal, readiness=True)


def report(node: str, own: Collection[str]) -> Report[Hypervisor, Parts, HypervisorStatus]:
    """How the status of a host's Hypervisor is written.

    Args:
        node: name of the Hypervisor.
        own: condition types that are the agent's.
    """
    return Report(
        FIELD_MANAGER,
        FIELDS,
        status_of=lambda hypervisor: hypervisor.status,
        carrying=lambda status: Hypervisor(metadata=ObjectMeta(name=node), status=status),
        compose=lambda parts, stored, kept: compose(parts, stored, kept, own),
    )


def _certificates(
    settings: Settings, manager: Manager, installer: Installer, hypervisor: Latest[Hypervisor]
) -> Concern:
    kube, clock = manager.kube, manager.clock
    if settings.source is CertificateSource.REQUEST:
        return certificates.requested(settings, kube, installer, hypervisor, clock=clock).run
    log.warning("certificate_keys_from_secrets", way_out="--certificate-source=request")
    fields = f"metadata.name={certificates.secret_name(settings)}"
    secret = Latest(manager.informer(Secret, settings.namespace, fields=fields))
    return certificates.Certificates(
        settings, kube, installer, hypervisor=hypervisor, secret=secret
    ).run
