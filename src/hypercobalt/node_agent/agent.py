"""Wires the node agent's concerns to one host, one libvirt and one API server, and runs them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from hypercobalt.adapters.host.boot import Boot
from hypercobalt.adapters.host.journal import Journal
from hypercobalt.adapters.host.port import Pods, Shutdown, System, Units
from hypercobalt.adapters.host.watchdog import Watchdog
from hypercobalt.adapters.libvirt.events import Event
from hypercobalt.adapters.libvirt.port import Libvirt
from hypercobalt.agent.applier import Applier, Report
from hypercobalt.agent.certificates.install import Installer
from hypercobalt.agent.diagnostics.server import Subject, diagnostics
from hypercobalt.agent.process import Agent, managed
from hypercobalt.agent.text import condition_type
from hypercobalt.api.coordination import OPERATOR_LEASE, Lease
from hypercobalt.api.core import ConfigMap
from hypercobalt.api.diagnostics import DiagnosticsEndpoint
from hypercobalt.api.host_certificate import CertificateReason
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import NODE_AGENT_TYPES, HypervisorConditionType
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.fencing.guests import AllGuests, Ended
from hypercobalt.node_agent.fencing.order import FencingOrder
from hypercobalt.node_agent.fencing.peers import Peers, programs
from hypercobalt.node_agent.fencing.self_fencing import Outside, SelfFencing
from hypercobalt.node_agent.fencing.signs import Heartbeat, any_answers
from hypercobalt.node_agent.host import certificates, launchers, operating_system, tls_files
from hypercobalt.node_agent.host.autostart import Autostart
from hypercobalt.node_agent.host.os_update import OsUpdate
from hypercobalt.node_agent.host.shutdown_drain import ShutdownDrain
from hypercobalt.node_agent.host.units import UnitConditions
from hypercobalt.node_agent.incidents.assembly import Incidents
from hypercobalt.node_agent.libvirt.exporter import Exporter
from hypercobalt.node_agent.libvirt.state import LibvirtState
from hypercobalt.node_agent.libvirt.stored_definitions import StoredDefinitions
from hypercobalt.node_agent.logs import Logs
from hypercobalt.node_agent.migrations.follow import Migrations
from hypercobalt.node_agent.operator_lease import OperatorLease
from hypercobalt.node_agent.settings import NodeAgentSettings, SelfFencingSettings
from hypercobalt.node_agent.status.compose import compose
from hypercobalt.node_agent.status.inventory import FIELDS
from hypercobalt.node_agent.status.parts import Board, Parts
from hypercobalt.node_agent.uses import uses
from hypercobalt.runtime import Connection, Informer, Manager
from hypercobalt.runtime.write_cache import Latest

log = get_logger(__name__)

HEARTBEAT: Final = ".hypercobalt-heartbeat-"
"""Name of the file on the shared storage that self-fencing writes, before the host's name."""

NAME: Final = "node-agent"
"""Name of the Lease, `node-agent-NODE`."""

REPORTER: Final = "kvm.cloud.sap/node-agent"
"""Reporting controller of Events."""

FIELD_MANAGER: Final = "kvm-node-agent"
"""Field manager: the existing agent's, so that its fields pass to us."""


@dataclass(frozen=True, slots=True)
class Host:
    """What the agent talks to on its host."""

    libvirt: Libvirt
    units: Units
    shutdown: Shutdown
    system: System
    boot: Boot
    pods: Pods


async def run(settings: NodeAgentSettings, connection: Connection, host: Host) -> None:
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


def register(settings: NodeAgentSettings, manager: Manager, host: Host) -> None:
    """Have the manager run every concern of an agent."""
    kube, board = manager.kube, Board(manager.clock)
    board.put(replace(board.parts, boot=host.boot))
    own = manager.informer(Hypervisor, fields=f"metadata.name={settings.node}")
    hypervisor = Latest(own)
    agent = Agent(NAME, settings, manager, lambda: hypervisor.value)
    subject = Subject(NAME, Hypervisor, settings.node, "", REPORTER, lambda: hypervisor.value)
    logs = uses(Logs(Journal(settings.host_root), manager.clock))
    if serve := diagnostics(manager, settings, subject, logs, partial(_publish, board)):
        agent.act("diagnostics", serve)
    types = (*NODE_AGENT_TYPES, *(condition_type(unit) for unit in settings.units))
    applier = Applier(kube, report(settings.node, types), board, own)
    migrations = Migrations(kube, host.libvirt, settings, clock=manager.clock)
    ended = Ended()
    guests = AllGuests(host.libvirt, launchers.PodLaunchers(host.pods))
    order = FencingOrder(
        kube,
        guests,
        hypervisor,
        board,
        boot=host.boot.id,
        renewals=lambda: agent.renewals,
        ended=ended,
        clock=manager.clock,
        lease=settings.lease,
    )
    listeners: list[Callable[[Event], None]] = [migrations.on_event, order.on_event]
    agent.act("fencing-order", order.run)
    if settings.store_definitions:
        stored = StoredDefinitions(
            kube, host.libvirt, hypervisor, board, namespace=settings.namespace, boot=host.boot.id
        )
        listeners.append(stored.on_event)
        agent.act("definitions", stored.run)
    else:
        board.drop_condition(HypervisorConditionType.DEFINITIONS_STORED)
    if settings.ha_config:
        incidents = _incidents(settings, manager, host, board, hypervisor, ended=ended)
        listeners.append(incidents.on_event)
        agent.observe("incidents", incidents.observe)
        agent.act("recoveries", incidents.recover)
    state = LibvirtState(host.libvirt, board, units=settings.units, listeners=listeners)
    agent.observe("libvirt", state.run)
    if settings.ha_config:
        agent.observe("autostart", Autostart(host.units, board).run)
    _observe_host(agent, settings, host, board, own)
    agent.observe("operator", _operator(settings, manager, board).run)
    agent.act("status", applier.run)
    agent.act("migrations", migrations.run)
    agent.act("os-update", OsUpdate(host.units, hypervisor, board).run)
    checks = programs(settings.health.port if settings.health else None)
    agent.act("peers", Peers(hypervisor, board, checks, clock=manager.clock).run)
    if settings.self_fencing is not None:
        outside, watchdog = self_fencing(
            settings.self_fencing, settings.node, lambda: agent.renewals
        )
        fence = SelfFencing(
            settings.self_fencing.window,
            outside,
            guests,
            board,
            boot=host.boot.id,
            ended=ended,
            watchdog=watchdog,
            clock=manager.clock,
        )
        agent.observe("self-fencing", fence.run)
    agent.act(
        "shutdown-drain",
        ShutdownDrain(host.shutdown, kube, hypervisor, board, node=settings.node).run,
    )
    if settings.pki is not None:
        installer = tls_files.installer(settings.pki, host.units, board, settings.ca)
        _certificates(settings, agent, manager, installer, hypervisor)
    manager.add_check(
        "libvirt", lambda: None if state.settled else "libvirt not read yet", readiness=True
    )
    manager.add_check("status", lambda: applier.refusal, readiness=True)


def _observe_host(
    agent: Agent,
    settings: NodeAgentSettings,
    host: Host,
    board: Board,
    own: Informer[Hypervisor],
) -> None:
    agent.observe("units", UnitConditions(host.units, board, settings.units).run)
    agent.observe("operating-system", lambda: operating_system.follow(host.system, board))
    own.add_handler(launchers.StoredLaunchers(host.pods))
    agent.observe("launchers", lambda: launchers.follow(host.pods, board))


def self_fencing(
    settings: SelfFencingSettings, node: str, renewals: Callable[[], int]
) -> tuple[Outside, Watchdog | None]:
    """What a host looks at that may be cut off, and what resets it.

    Raises:
        ConfigurationError: the watchdog cannot be used.
    """
    outside = Outside(
        renewals,
        partial(any_answers, settings.witnesses),
        Heartbeat(settings.storage / f"{HEARTBEAT}{node}").is_writable,
    )
    return outside, Watchdog(settings.watchdog, settings.window) if settings.watchdog else None


def report(node: str, own: Collection[str]) -> Report[Hypervisor, Parts, HypervisorStatus]:
    """How the status of a host's Hypervisor is written.

    Args:
        node: name of the Hypervisor.
        own: condition types that are the agent's.
    """
    return Report(
        FIELD_MANAGER,
        (*FIELDS, "incidents", "diagnostics"),
        status_of=lambda hypervisor: hypervisor.status,
        carrying=lambda status: Hypervisor(metadata=ObjectMeta(name=node), status=status),
        compose=lambda parts, stored, kept: compose(parts, stored, kept, own),
    )


def _operator(settings: NodeAgentSettings, manager: Manager, board: Board) -> OperatorLease:
    namespace = settings.operator_namespace or settings.namespace
    read = partial(manager.kube.get, Lease, OPERATOR_LEASE, namespace)
    return OperatorLease(read, board, manager.clock)


def _publish(board: Board, endpoint: DiagnosticsEndpoint) -> None:
    board.put(replace(board.parts, diagnostics=endpoint))


def _incidents(
    settings: NodeAgentSettings,
    manager: Manager,
    host: Host,
    board: Board,
    hypervisor: Latest[Hypervisor],
    *,
    ended: Ended,
) -> Incidents:
    namespace, _, name = settings.ha_config.partition("/")
    return Incidents(
        manager.kube,
        host.libvirt,
        board,
        settings,
        hypervisor,
        clock=manager.clock,
        boot=host.boot.id,
        ended=ended.take,
        config=Latest(manager.informer(ConfigMap, namespace, fields=f"metadata.name={name}")),
        recorder=manager.recorder(REPORTER),
        registry=manager.metrics.registry,
    )


def _certificates(
    settings: NodeAgentSettings,
    agent: Agent,
    manager: Manager,
    installer: Installer,
    hypervisor: Latest[Hypervisor],
) -> None:
    if not settings.issuer:
        text = "ISSUER_NAME is not set, so no certificate is requested"
        installer.fail(CertificateReason.REQUEST_FAILED, text)
        return
    kube, clock = manager.kube, manager.clock
    concern = certificates.requested(settings, kube, installer, hypervisor, clock=clock)
    agent.act("certificates", concern.run)
