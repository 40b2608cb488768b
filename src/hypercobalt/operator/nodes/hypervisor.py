"""Node to Hypervisor: makes one for every Node with the label, and keeps what comes from the Node.

The status is written before the spec, so that a spec which is refused holds up nothing. Its part of
the status: internal address, `Terminating`, `AgentPodsEvicted`, and the health of the Node. A
condition that no longer applies becomes False rather than being taken away, because whoever wrote
it before us still owns it too.

Source: openstack-hypervisor-operator, internal/controller/hypervisor_controller.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from msgspec.structs import replace

from hypercobalt.api.conditions import (
    Condition,
    ConditionStatus,
    get_condition,
    is_true,
    set_condition,
)
from hypercobalt.api.core import Node
from hypercobalt.api.holders import ADDRESS, HOST_UUID, Settled, settle, uuid_claim, way_out
from hypercobalt.api.hypervisor import Hypervisor, Maintenance, is_evicted
from hypercobalt.api.hypervisor_conditions import (
    AgentPodsReason,
    HypervisorConditionType,
    IdentityReason,
    SpecFrozenReason,
    TerminatingReason,
)
from hypercobalt.api.incident import Incident, IncidentType
from hypercobalt.logs import get_logger
from hypercobalt.operator.agents.pods import OVERDUE, AgentPods, Report, still_running
from hypercobalt.operator.nodes.conditions import CLOSED_BY_HOST, accepts, health
from hypercobalt.operator.nodes.contested import Contested, Rivals, address_claim
from hypercobalt.operator.nodes.from_node import first, follow, frozen
from hypercobalt.operator.shared.evictions import FINALIZER
from hypercobalt.operator.shared.hypervisors import is_kept
from hypercobalt.operator.shared.node_facts import (
    as_listed,
    internal_ip,
    is_offboarding,
    is_terminating,
    takes_all_along,
)
from hypercobalt.operator.shared.status_writer import Part, StatusWriter
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
TYPES: Final = frozenset(
    {
        _Type.TERMINATING,
        _Type.AGENT_PODS_EVICTED,
        _Type.NODE_HEALTHY,
        _Type.ACCEPTS_NEW_INSTANCES,
        _Type.SPEC_FROZEN,
        _Type.IDENTITY_ACCEPTED,
    }
)
"""Conditions that this controller writes."""


_Verdict: TypeAlias = tuple[str, str, str, str]
"""Type, status, reason and message of a condition."""


NO_RIVALS: Final = Rivals()


@dataclass(frozen=True, slots=True)
class Held:
    """Values that a host holds: see `api.holders`."""

    address: Settled
    uuid: Settled

    def recorded(self, hypervisor: Hypervisor) -> Hypervisor:
        """Return the Hypervisor with these values recorded."""
        record = {ADDRESS: self.address.held, HOST_UUID: self.uuid.held}
        meta = hypervisor.metadata
        return replace(
            hypervisor, metadata=replace(meta, annotations={**meta.annotations, **record})
        )


def held_by(node: Node, hypervisor: Hypervisor, rivals: Rivals) -> Held:
    """Return the values that a host holds from now on."""
    return Held(
        settle(address_claim(hypervisor, node), rivals.addresses),
        settle(uuid_claim(hypervisor), rivals.uuids),
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """Actions of one pass on an existing Hypervisor.

    Args:
        part: all of this controller's fields in the status.
        wanted: with labels, annotations and spec as the Node requires them.
        held: the host's address and UUID.
        requeue_after: look again then; None waits for a change.
    """

    part: Part
    wanted: Hypervisor
    held: Held
    requeue_after: timedelta | None = None


def agents_must_leave(hypervisor: Hypervisor, node: Node) -> bool:
    """Whether the agents' pods have to leave now: the host is empty, for good."""
    return (
        hypervisor.spec.maintenance == Maintenance.TERMINATION
        and is_evicted(hypervisor)
        and is_offboarding(node)
    )


def decide(
    node: Node,
    hypervisor: Hypervisor,
    pods: Report | None,
    copied: Collection[str],
    now: datetime,
    *,
    rivals: Rivals = NO_RIVALS,
) -> Plan:
    """Decide what a Hypervisor should be.

    Args:
        node: as read.
        hypervisor: as read.
        pods: the agents' pods on the Node, if the time has come for them to leave.
        copied: keys of the labels to copy from the Node.
        now: the only clock that this function sees.
        rivals: other hosts' claims to this one's values.
    """
    conditions = hypervisor.conditions
    requeue_after: timedelta | None = None
    found = health(node)
    verdicts: list[_Verdict] = [
        (_Type.NODE_HEALTHY, found.status, found.reason, found.message),
        (
            _Type.ACCEPTS_NEW_INSTANCES,
            *accepts(
                found,
                get_condition(conditions, _Type.NETWORK_HEALTHY),
                hypervisor.status.incidents,
            ),
        ),
    ]
    if is_terminating(node):
        text = "The Node is being removed"
        verdicts.append((_Type.TERMINATING, "True", TerminatingReason.TERMINATING, text))
    elif get_condition(conditions, _Type.TERMINATING):
        text = "The Node is not terminating"
        verdicts.append((_Type.TERMINATING, "False", TerminatingReason.NOT_TERMINATING, text))
    if fields := frozen(hypervisor, node):
        verdicts.append((_Type.SPEC_FROZEN, *_frozen(fields)))
    elif get_condition(conditions, _Type.SPEC_FROZEN):
        text = "The spec equals the Node"
        verdicts.append((_Type.SPEC_FROZEN, "False", SpecFrozenReason.IN_STEP, text))
    if pods is not None and not pods.unread:
        verdicts.append((_Type.AGENT_PODS_EVICTED, *_evicted(still_running(pods.pods))))
    elif pods is not None:
        requeue_after = OVERDUE
        if pods.overdue:
            verdicts.append((_Type.AGENT_PODS_EVICTED, *_unread(pods.unread)))
    elif is_true(conditions, _Type.AGENT_PODS_EVICTED):
        text = "The host is not being offboarded"
        verdicts.append((_Type.AGENT_PODS_EVICTED, "False", AgentPodsReason.NOT_OFFBOARDING, text))
    held = held_by(node, hypervisor, rivals)
    if held.address.refused or held.uuid.refused:
        verdicts.append((_Type.IDENTITY_ACCEPTED, *_refused(held)))
    elif get_condition(conditions, _Type.IDENTITY_ACCEPTED):
        text = "No other host holds the address or the UUID of this one"
        verdicts.append((_Type.IDENTITY_ACCEPTED, "True", IdentityReason.ACCEPTED, text))
    # One that another host holds is shown where there is none before it: nothing connects there.
    known = as_listed(node, held.address.held) if held.address.held else None
    address = known or internal_ip(node, hypervisor.status.internalIp)
    part = Part(TYPES, _own(conditions, verdicts, now), {"internalIp": address})
    return Plan(part, held.recorded(follow(hypervisor, node, copied)), held, requeue_after)


def orphaned(hypervisor: Hypervisor, now: datetime) -> Part:
    """Return the part of the status when the Node is gone, with its pods."""
    text = "The Node is gone"
    verdicts: list[_Verdict] = [(_Type.TERMINATING, "True", TerminatingReason.TERMINATING, text)]
    if hypervisor.spec.maintenance == Maintenance.TERMINATION:
        verdicts.append((_Type.AGENT_PODS_EVICTED, "True", AgentPodsReason.NO_AGENT_PODS, text))
    return Part(TYPES, _own(hypervisor.conditions, verdicts, now))


def _frozen(fields: tuple[str, ...]) -> tuple[str, str, str]:
    text = (
        f"The Node has other {', '.join(fields)}: the spec is frozen while its maintenance is "
        "termination; delete the Hypervisor to create it again from the Node"
    )
    return "True", SpecFrozenReason.NODE_DIFFERS, text


def _refused(held: Held) -> tuple[str, str, str]:
    """Where both are refused, the reason is that of the address."""
    found: list[str] = []
    if has := held.address.holder:
        found.append(
            f"host {has} holds the address {held.address.refused}, which this host's Node lists as "
            f"well; it stays with {has}: {way_out(has)}"
        )
    if has := held.uuid.holder:
        found.append(
            f"host {has} holds the host UUID {held.uuid.refused}, which this host's node agent "
            f"reports as well; it stays with {has}: {way_out(has)}"
        )
    claimed = IdentityReason.ADDRESS_CLAIMED if held.address.holder else IdentityReason.UUID_CLAIMED
    return "False", claimed, "; ".join(found)


def _evicted(left: tuple[str, ...]) -> tuple[str, str, str]:
    if left:
        text = f"{len(left)} agent pods still run: {', '.join(left)}"
        return "False", AgentPodsReason.AGENT_PODS_RUNNING, text
    return "True", AgentPodsReason.NO_AGENT_PODS, "No agent pod is left on the Node"


def _unread(namespaces: tuple[str, ...]) -> tuple[str, str, str]:
    text = f"Cannot list the pods in {', '.join(namespaces)} yet; check the operator's RBAC"
    return "Unknown", AgentPodsReason.NOT_READ, text


def _own(
    stored: tuple[Condition, ...], verdicts: list[_Verdict], now: datetime
) -> tuple[Condition, ...]:
    """Return this controller's conditions: new ones, and those that stay as they are."""
    conditions = tuple(one for one in stored if one.type in TYPES)
    for verdict in verdicts:
        conditions = set_condition(conditions, *verdict, now=now)
    return conditions


def worth_a_pass(old: Hypervisor | None, new: Hypervisor | None) -> bool:
    """A predicate: what the rules above look at may have changed.

    The node agent's writes, a few seconds apart on a busy host, mostly change none of this.
    """
    return old is None or new is None or _inputs(old) != _inputs(new)


def _inputs(hypervisor: Hypervisor) -> tuple[object, ...]:
    meta, types = hypervisor.metadata, (*sorted(TYPES), _Type.EVICTING, _Type.NETWORK_HEALTHY)
    return (
        *(meta.labels, meta.annotations, meta.deletionTimestamp, meta.finalizers),
        *(hypervisor.spec, hypervisor.status.internalIp, hypervisor.status.hostUUID),
        *(get_condition(hypervisor.conditions, type_) for type_ in types),
        *((one.id, one.severity) for one in _of_memory(hypervisor)),
    )


def _of_memory(hypervisor: Hypervisor) -> Iterable[Incident]:
    found = hypervisor.status.incidents
    return (one for one in found if one.type == IncidentType.MEMORY_FAILURE)


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

    def _agent_pods(self, hypervisor: Hypervisor, node: Node) -> Report | None:
        if agents_must_leave(hypervisor, node):
            return self._pods.follow(node.metadata.name)
        self._pods.release(node.metadata.name)
        return None

    def _record_refusal(self, hypervisor: Hypervisor, plan: Plan) -> None:
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

    def _record_closing(self, hypervisor: Hypervisor, plan: Plan) -> None:
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

    def _record_change(self, hypervisor: Hypervisor, plan: Plan) -> None:
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
