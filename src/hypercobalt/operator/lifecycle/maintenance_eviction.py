"""`Evicting` and `status.evicted`: maintenance makes an Eviction, and shows how far it is.

Only an Eviction of the whole host that has succeeded since the maintenance began counts as one.
After a failed or cancelled one the host is not empty, and a termination goes no further until
the Eviction is deleted, and a new one made. Servers that come to an empty host leave by a new one
as well, and a host to which a migration goes on (`incoming`) is not empty yet. For launcher pods
that come to it another one is made, too: it waits for their end. The conditions go when the
maintenance ends.

Source: openstack-hypervisor-operator, internal/controller/hypervisor_maintenance_controller.go.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace as with_fields

from hypercobalt.api.conditions import ConditionStatus
from hypercobalt.api.eviction import (
    Eviction,
    EvictionReason,
    Trigger,
    empties,
    evicting,
    has_ended,
    whole_host,
)
from hypercobalt.api.hypervisor import EMPTYING, Hypervisor, Maintenance, is_evicted
from hypercobalt.api.hypervisor_conditions import IncomingReason, RegisteredReason, SyncReason
from hypercobalt.api.meta import owner_reference
from hypercobalt.compute.errors import ComputeError, RefusedError, UnreachableError
from hypercobalt.compute.model import Move
from hypercobalt.compute.port import ComputeService
from hypercobalt.logs import get_logger
from hypercobalt.operator.agents.launcher_pods import LauncherPods
from hypercobalt.operator.lifecycle.evictions import REASON, Evictions
from hypercobalt.operator.lifecycle.reads import Reads
from hypercobalt.operator.lifecycle.step import (
    PATIENCE,
    POLL,
    LifecycleFacts,
    StepOutcome,
    Type,
    is_onboarding,
)
from hypercobalt.operator.shared.evictions import present
from hypercobalt.operator.shared.guests import NO_GUESTS, HostGuests, waiting_text
from hypercobalt.operator.shared.ha_mode import HaMode
from hypercobalt.operator.shared.wording import count, incoming_moves
from hypercobalt.runtime import AlreadyExistsError, ConflictError, Kube

log = get_logger(__name__)

NAME: Final = "evicting"
_CAME_BACK: Final = "ServersCameBack"
_CONDITIONS: Final = (Type.EVICTING, Type.INCOMING_MIGRATIONS_SETTLED)
_NAMED: Final = 5  # servers in a message


@dataclass(frozen=True, slots=True)
class MaintenancePlan:
    """Actions of one pass.

    Args:
        create: Eviction to create, if there is none of its name.
        delete: Eviction to delete: this one, and none that was made since.
        condition: status, reason and message of `Evicting`.
        waits_for: what the condition then waits for.
        evicted: for the status; None leaves it.
        remove_condition: remove the condition, with what it waits for.
    """

    create: Eviction | None = None
    delete: Eviction | None = None
    condition: tuple[str, SyncReason, str] | None = None
    waits_for: str = ""
    evicted: bool | None = None
    remove_condition: bool = False


def decide(
    facts: LifecycleFacts,
    eviction: Eviction | None,
    labels: Collection[str],
    forgotten: timedelta | None,
    recovery: Eviction | None = None,
    *,
    incoming: Collection[Move] | None = (),
    guests: HostGuests = NO_GUESTS,
) -> MaintenancePlan:
    """Decide the actions for the host's maintenance.

    Args:
        facts: of the pass.
        eviction: the one of the Hypervisor's name, if there is one.
        labels: keys of the labels to copy to a new one.
        forgotten: after so long a host that the compute service does not list has no servers there;
            None where the hosts keep the servers, and a host is not listed for want of its address.
        recovery: the one of the HA service, if this operator is that.
        incoming: moves to the host that go on; None when they could not be read.
        guests: VirtualMachineInstances on the host.
    """
    hypervisor, mode = facts.hypervisor, facts.hypervisor.spec.maintenance or Maintenance.NONE
    if mode == Maintenance.HA and recovery is not None:
        return _recovered(recovery)
    if mode == Maintenance.HA or (mode in EMPTYING and is_onboarding(facts)):
        return MaintenancePlan()
    if mode not in EMPTYING:
        known = any(facts.condition(type_) is not None for type_ in _CONDITIONS)
        if not known and not hypervisor.status.evicted:
            return MaintenancePlan()
        there = eviction is not None and eviction.metadata.deletionTimestamp is None
        ours = there and eviction is not None and empties(eviction, hypervisor.metadata.name)
        return MaintenancePlan(
            delete=eviction if ours else None, evicted=False, remove_condition=True
        )
    over = eviction is None or has_ended(eviction.status)
    if over and mode == Maintenance.TERMINATION and _is_forgotten(facts, forgotten):
        evicted = is_evicted(facts.hypervisor)
        return MaintenancePlan() if evicted else _without_service(facts, guests)
    again = bool(_back(facts) or incoming or guests.there)
    if eviction is None:
        if is_evicted(facts.hypervisor) and not again:
            return MaintenancePlan()  # finished, and the Eviction deleted since
        return _running(facts, create=_eviction(hypervisor, labels))
    return _mirror(facts, eviction, incoming, again=again)


def _recovered(eviction: Eviction) -> MaintenancePlan:
    """Show how far the recovery of a failed host is."""
    name, found = eviction.metadata.name, evicting(eviction.status)
    if found is None or found.status != ConditionStatus.FALSE:
        text = f"Eviction {name} recovers its instances"
        return MaintenancePlan(condition=("True", SyncReason.RUNNING, text), evicted=False)
    if found.reason == EvictionReason.SUCCEEDED:
        return MaintenancePlan(condition=("False", SyncReason.SUCCEEDED, "Evicted"), evicted=True)
    text = f"Eviction {name} {found.reason}: {found.message}"
    return MaintenancePlan(condition=("False", SyncReason.FAILED, text), evicted=False)


def _mirror(
    facts: LifecycleFacts, eviction: Eviction, incoming: Collection[Move] | None, *, again: bool
) -> MaintenancePlan:
    """Show how far an Eviction of this maintenance is; else have one made."""
    name, found = eviction.metadata.name, evicting(eviction.status)
    over = found is not None and found.status == ConditionStatus.FALSE
    if eviction.metadata.deletionTimestamp is not None:
        if is_evicted(facts.hypervisor):
            return MaintenancePlan()
        return _running(facts, f"Waiting for Eviction {name} to be deleted")
    if not empties(eviction, facts.hypervisor.metadata.name):
        if over:
            return _anew(facts, eviction)
        what = "named instances" if eviction.spec.instances else "the instances"
        text = (
            f"Waiting for Eviction {name} to end, which moves only {what} of "
            f"{eviction.spec.hypervisor}"
        )
        return MaintenancePlan(condition=("True", SyncReason.RUNNING, text), evicted=False)
    if not over or found is None:
        return _running(facts)
    if facts.condition(Type.EVICTING) is None:
        return _anew(facts, eviction)  # it ended before this maintenance began
    if found.reason == EvictionReason.SUCCEEDED and again:
        return _anew(facts, eviction)
    if incoming is None and not is_evicted(facts.hypervisor):
        return _running(facts)
    if found.reason == EvictionReason.SUCCEEDED:
        return MaintenancePlan(condition=("False", SyncReason.SUCCEEDED, "Evicted"), evicted=True)
    text = f"Eviction {name} {found.reason}: {found.message}"
    return MaintenancePlan(condition=("False", SyncReason.FAILED, text), evicted=False)


def settled(
    facts: LifecycleFacts, incoming: Sequence[Move] | None, error: str = ""
) -> LifecycleFacts:
    """Set whether migrations to the host go on.

    Args:
        facts: of the pass.
        incoming: those that do; None when they could not be read.
        error: why not.
    """
    type_ = Type.INCOMING_MIGRATIONS_SETTLED
    if incoming is None:
        reason, text = IncomingReason.NOT_READ, f"Cannot list the migrations to this host: {error}"
        return facts.with_condition(type_, "Unknown", reason, text, waits_for=reason)
    if incoming:
        reason, text = IncomingReason.WAITING, f"Waiting for {incoming_moves(incoming)}"
        return facts.with_condition(type_, "False", reason, text, waits_for=reason)
    text = "No incoming migrations targeting this host"
    return facts.with_condition(type_, "True", IncomingReason.SETTLED, text)


def _is_to_be_empty(facts: LifecycleFacts) -> bool:
    """Whether the maintenance empties the host."""
    return facts.hypervisor.spec.maintenance in EMPTYING and not is_onboarding(facts)


def _look_again(facts: LifecycleFacts) -> timedelta | None:
    found = facts.condition(Type.INCOMING_MIGRATIONS_SETTLED)
    if found is not None and found.status != ConditionStatus.TRUE:
        return POLL if found.status == ConditionStatus.FALSE else PATIENCE
    return PATIENCE if _may_be_forgotten(facts) else None


def _is_forgotten(facts: LifecycleFacts, after: timedelta | None) -> bool:
    """Whether the compute service has not had a registered host for long."""
    found = facts.condition(Type.REGISTERED)
    return (
        after is not None
        and found is not None
        and found.reason == RegisteredReason.NOT_REGISTERED
        and bool(facts.hypervisor.status.serviceId)
        and facts.now - found.lastTransitionTime >= after
    )


def _is_leaving(hypervisor: Hypervisor) -> bool:
    return hypervisor.spec.maintenance == Maintenance.TERMINATION


def _may_be_forgotten(facts: LifecycleFacts) -> bool:
    """Whether only time has to pass until the host counts as forgotten."""
    leaves = _is_leaving(facts.hypervisor) and not is_evicted(facts.hypervisor)
    return leaves and _is_forgotten(facts, timedelta(0))


def _without_service(facts: LifecycleFacts, guests: HostGuests) -> MaintenancePlan:
    """Decide for a host that the compute service no longer lists.

    The compute service deletes no service that has servers; its agent may list others. The last
    report of an agent is out of date once it is silent on a Node that is not in order.
    """
    if guests.any:
        text = f"the compute service no longer has the host; {waiting_text(guests, 'the host')}"
        return MaintenancePlan(condition=("False", SyncReason.FAILED, text), evicted=False)
    there = facts.hypervisor.status.numInstances or 0
    reports = facts.holds(Type.NODE_HEALTHY, "True") or facts.holds(Type.AGENT_REPORTING, "True")
    if there and reports:
        text = (
            f"the compute service no longer has the host, but its node agent reports "
            f"{count(there)} there: identify them, then destroy them or register the host again"
        )
        return MaintenancePlan(condition=("False", SyncReason.FAILED, text), evicted=False)
    text = "Evicted: the compute service no longer has the host, and deletes none that has servers"
    return MaintenancePlan(condition=("False", SyncReason.SUCCEEDED, text), evicted=True)


def _anew(facts: LifecycleFacts, eviction: Eviction) -> MaintenancePlan:
    """Delete an Eviction that does not cover the present servers; a new one follows."""
    return _running(facts, delete=eviction)


def _back(facts: LifecycleFacts) -> tuple[str, ...]:
    """Return servers on a host that was empty: a resize was reverted, or they were placed there."""
    return facts.host.servers if facts.host is not None and is_evicted(facts.hypervisor) else ()


def _running(
    facts: LifecycleFacts,
    text: str = "Evicting",
    *,
    create: Eviction | None = None,
    delete: Eviction | None = None,
) -> MaintenancePlan:
    """Show that instances leave; a message on returned servers stays until they have left."""
    condition: tuple[str, SyncReason, str] | None = ("True", SyncReason.RUNNING, text)
    waits_for = ""
    if back := _back(facts):
        named = ", ".join(back[:_NAMED]) + (" …" if len(back) > _NAMED else "")
        # In the existing operator's words, which people match.
        text = (
            f"Evicting again: Hypervisor still has {len(back)} running VMs, "
            f"which came when the host was empty: {named}"
        )
        condition, waits_for = ("True", SyncReason.RUNNING, text), _CAME_BACK
    elif facts.waits(Type.EVICTING, _CAME_BACK):
        condition = None
    return MaintenancePlan(create, delete, condition=condition, waits_for=waits_for, evicted=False)


def _eviction(hypervisor: Hypervisor, labels: Collection[str]) -> Eviction:
    meta = hypervisor.metadata
    # Owned by one that is deleted in the foreground, it would be deleted at once, and made again.
    going = meta.deletionTimestamp is not None
    return whole_host(
        hypervisor,
        REASON,
        Trigger.TERMINATION if _is_leaving(hypervisor) else Trigger.MAINTENANCE,
        owner=None if going else owner_reference(hypervisor, controller=True, blocks=True),
        labels={key: meta.labels[key] for key in labels if key in meta.labels},
    )


class EvictingSync:
    """The shell around `decide`."""

    name = NAME

    def __init__(
        self,
        kube: Kube,
        service: ComputeService,
        evictions: Evictions,
        labels: Collection[str],
        forgotten: timedelta,
        *,
        launchers: LauncherPods,
        ha: HaMode,
    ) -> None:
        self._launchers, self._ha = launchers, ha
        self._kube, self._evictions, self._labels = kube, evictions, tuple(labels)
        self._hosts, self._moves = service.hosts, service.moves
        self._forgotten = forgotten if service.counts_servers else None
        self.reads = Reads(
            fields=frozenset({"spec.maintenance", "metadata.deletionTimestamp"}),
            labels=frozenset(labels),
            at_times={
                "status.numInstances": _is_leaving,
                Type.NODE_HEALTHY: _is_leaving,
                Type.AGENT_REPORTING: _is_leaving,
            },
        )
        self._deleted: dict[str, str] = {}
        """UIDs of deleted Evictions by names, until the watch reports the deletion."""

    async def run(self, facts: LifecycleFacts) -> StepOutcome:
        name = facts.hypervisor.metadata.name
        facts, incoming = await self._settle(facts)
        seen, eviction = await self._seen(facts), self._known(name, facts.now)
        recovery, guests = self._recovery(name), await self._guests(facts)
        labels, after = self._labels, self._forgotten
        plan = decide(seen, eviction, labels, after, recovery, incoming=incoming, guests=guests)
        if plan.delete is not None:
            log.info("deleting_eviction", eviction=name)
            uid = plan.delete.metadata.uid
            with suppress(ConflictError):  # another has its name by now: the watch reports it
                await self._kube.delete(Eviction, name, uid=uid)
            self._deleted[name] = uid
        if plan.create is not None:
            log.info("eviction_created", eviction=name)
            try:
                self._evictions.newest.added(await self._kube.create(plan.create))
            except AlreadyExistsError:
                log.info("eviction_exists", eviction=name)  # the watch reports it
        if plan.condition is not None:
            facts = facts.with_condition(Type.EVICTING, *plan.condition, waits_for=plan.waits_for)
        if plan.remove_condition:
            for type_ in _CONDITIONS:
                facts = facts.without_condition(type_)
        if plan.evicted is not None:
            facts = facts.with_status(evicted=plan.evicted)
        return StepOutcome(facts, _look_again(facts))

    async def _settle(
        self, facts: LifecycleFacts
    ) -> tuple[LifecycleFacts, tuple[Move, ...] | None]:
        """Return moves to a host that must be empty, and the facts with their condition."""
        if facts.host is None or not _is_to_be_empty(facts):
            return facts, ()
        if is_evicted(facts.hypervisor) and not facts.host.up:
            return facts, ()  # switched off once it was empty: it stays so
        try:
            incoming = await self._moves.incoming(facts.host.name)
        except ComputeError as error:
            log.warning("incoming_migrations_not_read", host=facts.host.name, error=str(error))
            return settled(facts, None, str(error)), None
        return settled(facts, incoming), incoming

    async def _guests(self, facts: LifecycleFacts) -> HostGuests:
        """Return the guests of a host that must be empty, whose launcher pods are then watched."""
        name = facts.hypervisor.metadata.name
        if not _is_to_be_empty(facts):
            self._launchers.release(name)
            return NO_GUESTS
        return await self._launchers.follow(name, name)

    def _recovery(self, name: str) -> Eviction | None:
        if self._ha is HaMode.EXTERNAL:
            return None
        return present(self._evictions.of(name))

    async def _seen(self, facts: LifecycleFacts) -> LifecycleFacts:
        """Return the facts, with an evicted host's servers counted again if any are shown."""
        if not _back(facts) or facts.host is None:
            return facts
        try:
            return replace(facts, host=await self._hosts.get(facts.host.name, fresh=True))
        except (UnreachableError, RefusedError) as error:
            log.warning("evicted_host_not_counted", host=facts.host.name, error=str(error))
            return replace(facts, host=None)  # the status stays, and the next pass reads again

    def _known(self, name: str, now: datetime) -> Eviction | None:
        found = self._evictions.newest.get(name)
        if found is None or found.metadata.uid != self._deleted.get(name):
            self._deleted.pop(name, None)
            return found
        meta = with_fields(
            found.metadata, deletionTimestamp=found.metadata.deletionTimestamp or now
        )
        return with_fields(found, metadata=meta)
