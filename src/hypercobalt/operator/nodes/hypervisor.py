"""Decides what a Hypervisor should be by its Node: its spec, labels and a part of its status.

That part: internal address, `Terminating`, `AgentPodsEvicted`, and the health of the Node. A
condition that no longer applies becomes False rather than being taken away, because whoever wrote
it before us still owns it too. Pure.

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
from hypercobalt.operator.agents.pods import OVERDUE, PodsReport, still_running
from hypercobalt.operator.nodes.conditions import accepts, health
from hypercobalt.operator.nodes.contested import Rivals, address_claim
from hypercobalt.operator.nodes.from_node import follow, frozen
from hypercobalt.operator.shared.node_facts import (
    as_listed,
    internal_ip,
    is_offboarding,
    is_terminating,
)
from hypercobalt.operator.shared.status_writer import Part

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
class HeldValues:
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


def held_by(node: Node, hypervisor: Hypervisor, rivals: Rivals) -> HeldValues:
    """Return the values that a host holds from now on."""
    return HeldValues(
        settle(address_claim(hypervisor, node), rivals.addresses),
        settle(uuid_claim(hypervisor), rivals.uuids),
    )


@dataclass(frozen=True, slots=True)
class HypervisorPlan:
    """Actions of one pass on an existing Hypervisor.

    Args:
        part: all of this controller's fields in the status.
        wanted: with labels, annotations and spec as the Node requires them.
        held: the host's address and UUID.
        requeue_after: look again then; None waits for a change.
    """

    part: Part
    wanted: Hypervisor
    held: HeldValues
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
    pods: PodsReport | None,
    copied: Collection[str],
    now: datetime,
    *,
    rivals: Rivals = NO_RIVALS,
) -> HypervisorPlan:
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
    return HypervisorPlan(
        part, held.recorded(follow(hypervisor, node, copied)), held, requeue_after
    )


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


def _refused(held: HeldValues) -> tuple[str, str, str]:
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
