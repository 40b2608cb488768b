"""`Offboarded`: the host leaves OpenStack, when it is empty and its agents are gone.

The message names each thing that is waited for, and each is read again: no wait lasts for ever.
That the host is empty is read from OpenStack and from its launcher pods, not from the status, and
its resource provider goes
even if its service has gone already. Ids in the status never select an object for deletion: a
captured host could have written them. This pass must have found the service by the host's name, and
a provider that was left behind must have the Node's name in Placement.

A nova-compute that still runs makes its resource provider again, so a host that has left is checked
again, after a minute and in each later pass.

Source: openstack-hypervisor-operator, internal/controller/offboarding_controller.go.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum, auto
from typing import Final

from hypercobalt.api.hypervisor import Maintenance, is_evicted
from hypercobalt.api.hypervisor_conditions import OffboardedReason, RegisteredReason
from hypercobalt.compute.errors import ComputeError
from hypercobalt.compute.model import Host
from hypercobalt.compute.port import ComputeService
from hypercobalt.logs import get_logger
from hypercobalt.operator.agents.launcher_pods import LauncherPods
from hypercobalt.operator.lifecycle.reads import Reads
from hypercobalt.operator.lifecycle.step import PATIENCE, POLL, LifecycleFacts, StepOutcome, Type
from hypercobalt.operator.shared.guests import waiting_text
from hypercobalt.operator.shared.node_facts import HOSTNAME_LABEL, host_names
from hypercobalt.operator.shared.wording import incoming_moves

log = get_logger(__name__)

NAME: Final = "offboarding"
DONE: Final = "Offboarding successful"
SERVICE: Final = "cannot delete service"
PROVIDER: Final = "cannot get resource provider"
CLEAN_UP: Final = "cannot clean up resource provider"
"""How a message begins, as the existing operator's: people match these texts."""
GUESTS: Final = "VirtualMachineInstances"
"""What is waited for while launcher pods run."""

_CLAIMED: Final = RegisteredReason.CLAIMED


class OffboardingAction(Enum):
    """Next action of offboarding."""

    NOTHING = auto()
    WAIT = auto()
    REMOVE = auto()
    """Check in OpenStack that the host is empty, and remove it."""
    LOOK_AGAIN = auto()
    """The host has left: remove a provider that was made again."""


@dataclass(frozen=True, slots=True)
class OffboardingPlan:
    """Action of one pass.

    Args:
        next: see `OffboardingAction`.
        text: what is waited for, for a person.
        waits_for: the same for programs.
    """

    next: OffboardingAction
    text: str = ""
    waits_for: str = ""


def decide(facts: LifecycleFacts) -> OffboardingPlan:
    """Decide whether the host may leave, and what it waits for.

    Whether the host is empty is read by the shell, at the last moment.
    """
    spec, status = facts.hypervisor.spec, facts.hypervisor.status
    if not spec.lifecycleEnabled or spec.maintenance != Maintenance.TERMINATION:
        return OffboardingPlan(OffboardingAction.NOTHING)
    if facts.holds(Type.OFFBOARDED, "True"):
        return OffboardingPlan(OffboardingAction.LOOK_AGAIN)
    onboarding = facts.condition(Type.ONBOARDING)
    if onboarding is not None and onboarding.status == "True":
        text = f"Waiting for the onboarding to be aborted: {onboarding.message}"
        return OffboardingPlan(OffboardingAction.WAIT, text, Type.ONBOARDING)
    # Unknown to OpenStack: what is left there is at most a resource provider.
    unknown = facts.holds(Type.REGISTERED, "False", RegisteredReason.NOT_REGISTERED)
    forgotten = unknown and facts.hypervisor.metadata.deletionTimestamp is not None
    found = facts.condition(Type.EVICTING)
    # A host that was never in OpenStack may run instances: its Eviction shows what is reported.
    has_any = bool(status.serviceId) or (found is not None and not _is_claimed(facts))
    if has_any and not forgotten and not is_evicted(facts.hypervisor):
        why = f": {found.message}" if found is not None else ""
        return OffboardingPlan(
            OffboardingAction.WAIT, f"Waiting for the host to be evicted{why}", Type.EVICTING
        )
    pods = facts.condition(Type.AGENT_PODS_EVICTED)
    if pods is None or pods.status != "True":
        why = f": {pods.message}" if pods is not None else ""
        text = f"Waiting for agent pods to be evicted{why}"
        return OffboardingPlan(OffboardingAction.WAIT, text, Type.AGENT_PODS_EVICTED)
    registered = facts.condition(Type.REGISTERED)
    if registered is not None and registered.status == "Unknown":
        return OffboardingPlan(OffboardingAction.WAIT, registered.message, Type.REGISTERED)
    if _is_claimed(facts):
        return OffboardingPlan(OffboardingAction.REMOVE)  # nothing in OpenStack is its own
    if status.aggregates and not unknown:
        left = ", ".join(one.name for one in status.aggregates)
        text = f"Waiting for aggregates to be removed, current: {left}"
        return OffboardingPlan(OffboardingAction.WAIT, text, Type.AGGREGATES_UPDATED)
    return OffboardingPlan(OffboardingAction.REMOVE)


class Offboarding:
    """The shell around `decide`."""

    name = NAME
    reads = Reads(
        conditions=frozenset({Type.AGENT_PODS_EVICTED}),
        fields=frozenset(
            {"spec.lifecycleEnabled", "spec.maintenance", "metadata.deletionTimestamp"}
        ),
        labels=frozenset({HOSTNAME_LABEL}),
    )

    def __init__(self, service: ComputeService, launchers: LauncherPods) -> None:
        self._launchers = launchers
        self._hosts, self._moves, self._service = service.hosts, service.moves, service.name
        self._providers = service.providers

    async def run(self, facts: LifecycleFacts) -> StepOutcome:
        plan = decide(facts)
        if plan.next is OffboardingAction.NOTHING:
            return StepOutcome(facts)
        if plan.next is OffboardingAction.WAIT:  # for what is a change of the status
            return StepOutcome(_waits(facts, plan.text, plan.waits_for))
        try:
            host = await self._find(facts)
        except ComputeError as error:
            has_left = plan.next is OffboardingAction.LOOK_AGAIN
            after = facts if has_left else _waits(facts, f"cannot find the host: {error}", "Host")
            return StepOutcome(after, PATIENCE, error)
        if host is None and plan.next is OffboardingAction.LOOK_AGAIN:
            return StepOutcome(facts, _again(facts))
        return await self._remove(facts, host)

    async def _remove(self, facts: LifecycleFacts, host: Host | None) -> StepOutcome:
        if host is not None and host.servers:
            count = len(host.servers)
            text = (
                f"Hypervisor still has {count} running VMs: "
                f"openstack server list --all-projects --host {host.name}"
            )
            return StepOutcome(_waits(facts, text, "Servers"), POLL)
        if (outcome := await self._guests(facts)) is not None:
            return outcome
        if host is not None and (outcome := await self._incoming(facts, host)) is not None:
            return outcome
        if host is not None and (outcome := await self._forget(facts, host)) is not None:
            return outcome
        status, text = facts.hypervisor.status, DONE
        if host is None and (status.serviceId or status.hypervisorId):
            name = facts.hypervisor.metadata.name
            text = f"{DONE}; {self._service} has no host {name}: nothing was deleted there"
        done = replace(facts, host=None).with_status(aggregates=())
        done = done.without_condition(Type.COMPUTE_SERVICE_UP)
        done = done.with_condition(
            Type.REGISTERED, "False", RegisteredReason.NOT_REGISTERED, "Offboarded"
        )
        done = done.with_condition(Type.OFFBOARDED, "True", OffboardedReason.OFFBOARDED, text)
        return StepOutcome(done, PATIENCE)

    async def _guests(self, facts: LifecycleFacts) -> StepOutcome | None:
        """Return what is waited for while launcher pods run on the host; None for none.

        Its node agent is gone, so what that has reported last is out of date.
        """
        name = facts.hypervisor.metadata.name
        guests = await self._launchers.read(name)
        if not guests.any:
            return None
        text = waiting_text(guests, name)
        return StepOutcome(_waits(facts, f"{text[:1].upper()}{text[1:]}", GUESTS), POLL)

    async def _incoming(self, facts: LifecycleFacts, host: Host) -> StepOutcome | None:
        """Return what is waited for while servers are on their way to the host; None for none."""
        if not host.service_id:
            return None
        try:
            incoming = await self._moves.incoming(host.name)
        except ComputeError as error:
            after = _waits(facts, f"cannot list the migrations to the host: {error}", "Host")
            return StepOutcome(after, PATIENCE, error)
        if not incoming:
            return None
        text = f"Waiting for {incoming_moves(incoming)}"
        return StepOutcome(_waits(facts, text, Type.INCOMING_MIGRATIONS_SETTLED), POLL)

    async def _forget(self, facts: LifecycleFacts, host: Host) -> StepOutcome | None:
        """Remove service and provider, and return what is waited for, None when both are gone."""
        log.info("removing_host", host=host.name, service=host.service_id)
        failing = SERVICE
        try:
            if host.service_id:
                await self._hosts.remove(host)
            failing = PROVIDER
            if self._providers is not None and await self._providers.exists(host):
                failing = CLEAN_UP
                await self._providers.remove(host)
        except ComputeError as error:
            return StepOutcome(_waits(facts, f"{failing}: {error}", failing), PATIENCE, error)
        return None

    async def _find(self, facts: LifecycleFacts) -> Host | None:
        """Return the present host, if this pass found it for this Hypervisor; else its remains.

        The remains of a host without a service are a resource provider with the Node's name.
        """
        for name in host_names(facts.hypervisor):
            found = await self._hosts.get(name, fresh=True)
            if found is not None:
                own = facts.host is not None and facts.host.service_id == found.service_id
                return found if own else None
        meta, status = facts.hypervisor.metadata, facts.hypervisor.status
        claimed = facts.holds(Type.REGISTERED, "False", _CLAIMED)
        if self._providers is None or not status.hypervisorId or claimed:
            return None
        return await self._providers.left_over(meta.name, status.hypervisorId)


def _is_claimed(facts: LifecycleFacts) -> bool:
    """Whether the host of its name belongs to another Hypervisor."""
    return facts.holds(Type.REGISTERED, "False", _CLAIMED)


def _waits(facts: LifecycleFacts, text: str, what: str) -> LifecycleFacts:
    reason = OffboardedReason.OFFBOARDING
    return facts.with_condition(Type.OFFBOARDED, "False", reason, text, waits_for=what)


def _again(facts: LifecycleFacts) -> timedelta | None:
    """Return when to check again a host that has left: once, a minute after that."""
    found = facts.condition(Type.OFFBOARDED)
    is_new = found is not None and facts.now - found.lastTransitionTime < PATIENCE
    return PATIENCE if is_new else None
