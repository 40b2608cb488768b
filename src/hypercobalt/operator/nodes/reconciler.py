"""Makes a Hypervisor for every Node with the label, and writes what `hypervisor` decides for it.

The status is written before the spec, so that a spec which is refused holds up nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Final

from hypercobalt.api.conditions import (
    ConditionStatus,
    get_condition,
)
from hypercobalt.api.core import Node
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import (
    HypervisorConditionType,
)
from hypercobalt.logs import get_logger
from hypercobalt.operator.agents.pods import AgentPods, PodsReport
from hypercobalt.operator.nodes.conditions import CLOSED_BY_HOST
from hypercobalt.operator.nodes.contested import Contested
from hypercobalt.operator.nodes.from_node import first, follow
from hypercobalt.operator.nodes.hypervisor import (
    HypervisorPlan,
    agents_must_leave,
    decide,
    held_by,
    orphaned,
)
from hypercobalt.operator.shared.evictions import FINALIZER
from hypercobalt.operator.shared.hypervisors import is_kept
from hypercobalt.operator.shared.node_facts import (
    takes_all_along,
)
from hypercobalt.operator.shared.status_writer import StatusWriter
from hypercobalt.runtime import (
    AlreadyExistsError,
    Cache,
    Clock,
    Kube,
    Recorder,
    Result,
)
from hypercobalt.runtime.finalizer import Finalizer
from hypercobalt.runtime.precedence import Precedence
from hypercobalt.runtime.write_cache import WriteCache

log = get_logger(__name__)

NAME: Final = "hypervisor"

_Type = HypervisorConditionType


class HypervisorReconciler:
    """The shell around `decide`.

    Args:
        kube: writes as this controller.
        nodes: those that are hypervisors.
        hypervisors: what the controllers share.
        statuses: writes this controller's part of the status.
        pods: the agents' pods.
        contested: finds other hosts' claims to a host's values.
        copied: keys of the labels to copy from a Node.
        recovers: this operator recovers hosts that fail; else what it kept for that is let go.
        precedence: that Nodes without a Hypervisor have; their first pass ends it.
    """

    def __init__(
        self,
        kube: Kube,
        nodes: Cache[Node],
        hypervisors: WriteCache[Hypervisor],
        statuses: StatusWriter,
        pods: AgentPods,
        *,
        contested: Contested,
        copied: Collection[str],
        recovers: bool,
        precedence: Precedence,
        clock: Clock,
        events: Recorder,
    ) -> None:
        self._precedence = precedence
        self._kube, self._clock, self._events = kube.as_manager(NAME), clock, events
        self._nodes, self._hypervisors, self._pods = nodes, hypervisors, pods
        self._statuses, self._contested = statuses, contested
        self._copied, self._recovers = tuple(copied), recovers
        self._recovery = Finalizer(FINALIZER, self._kube, hypervisors)

    async def reconcile(self, name: str, /) -> Result:
        try:
            return await self._pass(name)
        finally:
            self._precedence.end(name)

    async def _pass(self, name: str) -> Result:
        node, known = self._nodes.get(name), self._hypervisors.get(name)
        if known is not None and not self._recovers and self._recovery.is_on(known):
            await self._recovery.remove(known)  # of a host that failed before `--ha` was changed
            return Result(timedelta(0))
        if node is None:
            self._pods.release(name)
            if known is not None and is_kept(known):
                await self._without_node(known)
            return Result()
        if known is None and takes_all_along(node):
            return Result()
        hypervisor = known or await self._create(node)
        if hypervisor is None:
            return Result(timedelta(0))  # its turn comes again, after those that have none yet
        if hypervisor.metadata.deletionTimestamp is not None and not is_kept(hypervisor):
            return Result()
        report = self._agent_pods(hypervisor, node)
        rivals = self._contested.rivals(node, hypervisor)
        plan = decide(node, hypervisor, report, self._copied, self._clock.now(), rivals=rivals)
        self._record_change(hypervisor, plan)
        written = await self._statuses.put(hypervisor, plan.part)
        if plan.wanted != hypervisor and not is_kept(hypervisor):
            log.info("updating_hypervisor", hypervisor=name)
            async with self._hypervisors.turn(name):
                newest = self._hypervisors.get(name) or written
                wanted = plan.held.recorded(follow(newest, node, self._copied))
                self._hypervisors.added(await self._kube.patch(newest, wanted))
        return Result(plan.requeue_after)

    async def _without_node(self, hypervisor: Hypervisor) -> None:
        name = hypervisor.metadata.name
        if await self._kube.get(Node, name) is None:  # or it is not a hypervisor any more
            await self._statuses.put(hypervisor, orphaned(hypervisor, self._clock.now()))

    async def _create(self, node: Node) -> Hypervisor | None:
        """Create a Hypervisor, and return an existing one of that name; None for a new one."""
        empty = first(node, self._copied)
        held = held_by(node, empty, self._contested.rivals(node, empty))
        wanted = held.recorded(empty)
        log.info("creating_hypervisor", hypervisor=node.metadata.name)
        try:
            made = await self._kube.create(wanted)
        except AlreadyExistsError:
            # One that the label selector does not choose: it gets the Node's labels below.
            known = await self._kube.get(Hypervisor, node.metadata.name)
            if known is None:
                raise
            return known
        self._hypervisors.added(made)
        return None

    def _agent_pods(self, hypervisor: Hypervisor, node: Node) -> PodsReport | None:
        if agents_must_leave(hypervisor, node):
            return self._pods.follow(node.metadata.name)
        self._pods.release(node.metadata.name)
        return None

    def _record_refusal(self, hypervisor: Hypervisor, plan: HypervisorPlan) -> None:
        type_ = _Type.IDENTITY_ACCEPTED
        before, now = (
            get_condition(some, type_) for some in (hypervisor.conditions, plan.part.conditions)
        )
        if now is None or now.status == ConditionStatus.TRUE:
            return
        if before is None or (before.reason, before.message) != (now.reason, now.message):
            self._events.record(
                hypervisor, "Warning", now.reason, now.message, action="CheckingIdentity"
            )

    def _record_closing(self, hypervisor: Hypervisor, plan: HypervisorPlan) -> None:
        """Record that the host is closed to new instances, or open again; a Node has its Event."""
        type_ = _Type.ACCEPTS_NEW_INSTANCES
        before, now = (
            get_condition(some, type_) for some in (hypervisor.conditions, plan.part.conditions)
        )
        if now is None or (before and (before.status, before.reason) == (now.status, now.reason)):
            return
        if now.status == ConditionStatus.FALSE and now.reason in CLOSED_BY_HOST:
            text = "HostClosed"
            self._events.record(hypervisor, "Warning", text, now.message, action="ObservingHost")
        elif before is not None and before.reason in CLOSED_BY_HOST:
            why = f"AcceptsNewInstances is no longer {before.reason}: {now.message}"
            self._events.record(hypervisor, "Normal", "HostOpened", why, action="ObservingHost")

    def _record_change(self, hypervisor: Hypervisor, plan: HypervisorPlan) -> None:
        """Record Events of the Node's health, of a host that is closed, and of a refused claim."""
        self._record_refusal(hypervisor, plan)
        self._record_closing(hypervisor, plan)
        before = get_condition(hypervisor.conditions, _Type.NODE_HEALTHY)
        now = get_condition(plan.part.conditions, _Type.NODE_HEALTHY)
        if now is None or (before and (before.status, before.reason) == (now.status, now.reason)):
            return
        text = f"Node{now.reason}"
        if now.status != ConditionStatus.TRUE:
            self._events.record(hypervisor, "Warning", text, now.message, action="ObservingNode")
        elif before is not None:
            self._events.record(hypervisor, "Normal", text, now.message, action="ObservingNode")
