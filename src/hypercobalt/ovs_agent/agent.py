"""Wires the OVS agent's concerns to one switch and one API server, and runs them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from hypercobalt.adapters.ovs.mirrors import Mirrors
from hypercobalt.adapters.ovs.port import Switch
from hypercobalt.agent.applier import Applier, Report
from hypercobalt.agent.diagnostics.server import Subject, diagnostics
from hypercobalt.agent.process import Agent, managed
from hypercobalt.api.conditions import ConditionStatus
from hypercobalt.api.diagnostics import DiagnosticsEndpoint
from hypercobalt.api.hypervisor import Hypervisor, lists_all
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.api.hypervisor_status import MOST_PORTS
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.ovsnode import NodeReference, OVSNode, OVSNodeSpec, OVSNodeStatus
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.ovs_agent import probes, suspicion
from hypercobalt.ovs_agent.diagnostics.captures import Captures, keep_swept
from hypercobalt.ovs_agent.exporter import Exporter
from hypercobalt.ovs_agent.facts import SwitchFacts, with_hosted
from hypercobalt.ovs_agent.judging import Judge
from hypercobalt.ovs_agent.observing import SwitchObserver
from hypercobalt.ovs_agent.settings import OVSAgentSettings
from hypercobalt.ovs_agent.status.compose import FIELDS, compose
from hypercobalt.ovs_agent.status.parts import Board, Parts
from hypercobalt.ovs_agent.uses import uses
from hypercobalt.runtime import AlreadyExistsError, Connection, Informer, Kube, Manager
from hypercobalt.runtime.events import Recorder
from hypercobalt.runtime.write_cache import Latest

log = get_logger(__name__)

NAME: Final = "ovs-agent"
"""Name of the Lease, `ovs-agent-NODE`, and of the field manager."""

REPORTER: Final = "ovs.c5c3.io/ovs-agent"
"""Reporting controller of Events."""

_Type = HypervisorConditionType
_CREATE_AGAIN: Final = 5.0  # seconds


async def run(settings: OVSAgentSettings, connection: Connection, switch: Switch) -> None:
    """Run the agent of one host until SIGTERM or SIGINT.

    Raises:
        ConfigurationError: a setting cannot be used.
    """
    async with managed(settings, connection, NAME) as manager:
        register(settings, manager, switch)
        log.info("ovs_agent_started", node=settings.node, rundir=str(settings.ovs_rundir))
        await manager.run()


def register(settings: OVSAgentSettings, manager: Manager, switch: Switch) -> None:
    """Have the manager run every concern of an agent."""
    kube, clock = manager.kube, manager.clock
    board = Board(clock, Parts())
    fields = f"metadata.name={settings.node}"
    informer = manager.informer(OVSNode, settings.namespace, fields=fields)
    own = Latest(informer)
    agent = Agent(NAME, settings, manager, lambda: own.value)
    observer = SwitchObserver(switch, clock)
    judge = Judge(
        observer.facts,
        board,
        clock,
        counters=settings.counters,
        read_at=observer.read_at,
        doubt=observer.doubt,
    )
    applier = Applier(kube, report(settings), board, informer)
    hypervisor = Latest(manager.informer(Hypervisor, fields=fields))
    recorder = manager.recorder(REPORTER)

    async def observe() -> None:
        async with asyncio.TaskGroup() as tasks:
            probes.begin(tasks, switch, observer, settings, clock)
            suspicion.begin(tasks, switch, observer)
            await observer.follow()

    async def write() -> None:
        await informer.wait_synced()
        judge.adopt(own.value.status.issues if own.value else ())
        await applier.run()

    exporter = Exporter(switch, observer, judge, by_table=settings.table_metrics)
    manager.metrics.registry.register(exporter)
    manager.add_refresh(exporter.refresh)
    agent.observe("switch", observe)
    agent.observe("judge", judge.run)
    subject = Subject(NAME, OVSNode, settings.node, settings.namespace, REPORTER, lambda: own.value)
    mirrors = Mirrors(settings.paths.ovs / "db.sock", settings.node, settings.paths.root)
    captures = Captures(
        lambda: observer.facts.value, switch, mirrors, clock, by_mirror=settings.capture_by_mirror
    )
    offered = (*uses(switch, observer, judge), *captures.uses())
    serve = diagnostics(manager, settings, subject, offered, partial(_publish, board))
    agent.act("mirrors", lambda: keep_swept(mirrors, observer.facts, clock))
    if serve is not None:
        agent.act("diagnostics", serve)
    agent.observe("instances", lambda: _follow_instances(hypervisor, observer))
    agent.act("object", lambda: _keep_object(kube, settings, informer, own))
    agent.act("status", write)
    agent.act("events", lambda: _record(recorder, judge, own))
    manager.add_check(
        "switch", lambda: None if judge.latest else "switch not read yet", readiness=True
    )
    manager.add_check("status", lambda: applier.refusal, readiness=True)


def report(settings: OVSAgentSettings) -> Report[OVSNode, Parts, OVSNodeStatus]:
    """How the status of the host's OVSNode is written."""

    def carrying(status: OVSNodeStatus) -> OVSNode:
        mine = new_object(settings)
        return OVSNode(metadata=mine.metadata, spec=mine.spec, status=status)

    return Report(NAME, FIELDS, lambda found: found.status, carrying, compose)


def new_object(settings: OVSAgentSettings) -> OVSNode:
    """The OVSNode of this host, without a status."""
    return OVSNode(
        metadata=ObjectMeta(name=settings.node, namespace=settings.namespace),
        spec=OVSNodeSpec(nodeRef=NodeReference(name=settings.node)),
    )


def _publish(board: Board, endpoint: DiagnosticsEndpoint) -> None:
    board.put(replace(board.parts, diagnostics=endpoint))


async def _keep_object(
    kube: Kube, settings: OVSAgentSettings, informer: Informer[OVSNode], own: Latest[OVSNode]
) -> None:
    """Create the OVSNode whenever there is none."""
    await informer.wait_synced()
    while True:
        found = own.value
        if found is None:
            try:
                with suppress(AlreadyExistsError):
                    own.added(await kube.create(new_object(settings)))
            except HypercobaltError as error:
                log.warning("object_not_created", object=settings.node, error=str(error))
                await asyncio.sleep(_CREATE_AGAIN)
                continue
        await own.changed(found)


async def _follow_instances(hypervisor: Latest[Hypervisor], observer: SwitchObserver) -> None:
    """Keep the facts' instances equal to those that the node agent reports."""
    while True:
        found = hypervisor.value
        observer.update(partial(_with_instances, hypervisor=found))
        await hypervisor.changed(found)


def _with_instances(facts: SwitchFacts, hypervisor: Hypervisor | None) -> SwitchFacts:
    instances = instances_of(hypervisor)
    wanted = None
    if hypervisor is not None and instances is not None:
        wanted = ports_of(hypervisor)
    return with_hosted(replace(facts, instances=instances, wanted=wanted))


def ports_of(hypervisor: Hypervisor) -> dict[str, tuple[str, ...]] | None:
    """Ports of each instance that runs, by its UUID; None unless all of them are listed."""
    listed = hypervisor.status.instancePorts
    if listed is None or len(listed) >= MOST_PORTS:
        return None
    found: dict[str, tuple[str, ...]] = {}
    for one in listed:
        instance = one.instance.lower()
        found[instance] = (*found.get(instance, ()), one.port)
    return found


def instances_of(hypervisor: Hypervisor | None) -> dict[str, bool] | None:
    """Whether each instance runs, by UUID; None unless its node agent reports all of them now."""
    if hypervisor is None or not lists_all(hypervisor):
        return None
    true = {one.type for one in hypervisor.conditions if one.status == ConditionStatus.TRUE}
    away = {one.type for one in hypervisor.conditions if one.status != ConditionStatus.TRUE}
    if _Type.LIBVIRT_CONNECTION not in true or _Type.AGENT_REPORTING in away:
        return None
    return {one.id.lower(): one.active for one in hypervisor.status.instances}


async def _record(recorder: Recorder, judge: Judge, own: Latest[OVSNode]) -> None:
    """An Event for each issue that appears, and for each that disappears."""
    while True:
        appeared, tracked = await judge.news.get()
        while own.value is None:
            await own.changed(None)
        finding = tracked.finding
        note = finding.message if appeared else f"No more: {finding.message}"
        recorder.record(
            own.value,
            "Warning" if appeared else "Normal",
            finding.code if appeared else f"{finding.code}Resolved",
            note,
            action="Observing",
        )
