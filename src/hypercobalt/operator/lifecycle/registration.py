"""`Registered`: whether the compute service lists the host, and under which ids.

`ComputeServiceUp`: whether the host's own service reports to it.

Names are compared whole: `node1` never is `node10`. If a host fits two Hypervisors (their names
begin alike, and the service has first labels only), `claims` decides which has it;
both get a Warning Event when one is turned away.

Source: openstack-hypervisor-operator, internal/controller/onboarding_controller.go.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Final

from hypercobalt.api.conditions import is_true
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import ComputeServiceReason, RegisteredReason
from hypercobalt.compute.errors import UnreachableError
from hypercobalt.compute.model import Host
from hypercobalt.compute.port import ComputeService
from hypercobalt.errors import HypercobaltError
from hypercobalt.operator.lifecycle.claims import owner, wants_host
from hypercobalt.operator.lifecycle.reads import Reads
from hypercobalt.operator.lifecycle.step import PATIENCE, LifecycleFacts, StepOutcome, Type
from hypercobalt.operator.shared.node_facts import HOSTNAME_LABEL, host_names
from hypercobalt.runtime import Recorder

NAME: Final = "registration"

Claimants = Callable[[Host], Iterable[Hypervisor]]
"""Returns the Hypervisors that may have a claim to a host, by its name or by its service."""

Elsewhere = Callable[[Host], Awaitable[Iterable[Hypervisor]]]
"""Reads the same of other shards.

Raises:
    HypercobaltError: they cannot be read.
"""


def decide(
    facts: LifecycleFacts, found: Host | None, claimants: Iterable[Hypervisor], service: str
) -> LifecycleFacts:
    """Set whether the host is registered.

    Args:
        facts: of the pass.
        found: hosts of the compute service under the Hypervisor's names.
        claimants: Hypervisors, this one or others, that may have a claim to the host.
        service: name of the compute service.
    """
    own = facts.hypervisor
    name = own.metadata.name
    if found is None:
        known = own.status.serviceId
        text = (
            f"{service} no longer has a host {name!r}; check that nova-compute runs there"
            if known
            else f"Waiting for nova-compute: {service} has no host {name!r}"
        )
        reason = RegisteredReason.NOT_REGISTERED
        lost = facts.with_condition(Type.REGISTERED, "False", reason, text, waits_for=reason)
        return replace(lost.without_condition(Type.COMPUTE_SERVICE_UP), host=None)
    has = owner(found, own, claimants).metadata.name
    if has != name:
        text = (
            f"Host {found.name} of {service} belongs to hypervisor {has}: change the name or the "
            "hostname label of one of the two Nodes"
        )
        reason = RegisteredReason.CLAIMED
        taken = facts.with_condition(
            Type.REGISTERED, "False", reason, text, waits_for=f"{reason} {has}"
        )
        taken = taken.without_condition(Type.COMPUTE_SERVICE_UP)
        return replace(taken.with_status(hypervisorId=None, serviceId=None), host=None)
    noted = facts.with_status(hypervisorId=found.hypervisor_id, serviceId=found.service_id)
    text = f"Registered with {service} as {found.name}"
    after = noted.with_condition(Type.REGISTERED, "True", RegisteredReason.REGISTERED, text)
    return replace(after, host=found)


def with_service(facts: LifecycleFacts, service: str) -> LifecycleFacts:
    """Set whether the host's own service reports to the compute service.

    Args:
        facts: of a registered host.
        service: name of the compute service.
    """
    host, reason = facts.host, ComputeServiceReason.UP
    if host is None:
        return facts
    text = f"The compute service of {host.name} reports to {service}"
    if host.forced_down:
        reason = ComputeServiceReason.FORCED_DOWN
        text = f"{service} has the compute service of {host.name} as forced down"
    elif not host.up:
        reason = ComputeServiceReason.DOWN
        text = (
            f"The compute service of {host.name} does not report to {service}: nothing is started, "
            "stopped or moved there; check that nova-compute runs on the host"
        )
    status = "True" if reason is ComputeServiceReason.UP else "False"
    return facts.with_condition(Type.COMPUTE_SERVICE_UP, status, reason, text)


def _is_unregistered(hypervisor: Hypervisor) -> bool:
    """Whether the compute service is not known to have the host."""
    return not is_true(hypervisor.conditions, Type.REGISTERED)


class Registration:
    """The shell around `decide`."""

    name = NAME
    reads = Reads(
        fields=frozenset({"spec.lifecycleEnabled", "spec.maintenance"}),
        labels=frozenset({HOSTNAME_LABEL}),
        # Without OpenStack a host is known once it has an address.
        at_times={"status.internalIp": _is_unregistered},
    )

    def __init__(
        self,
        service: ComputeService,
        claimants: Claimants,
        events: Recorder,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self._service, self._claimants, self._events = service, claimants, events
        self._elsewhere = elsewhere

    async def run(self, facts: LifecycleFacts) -> StepOutcome:
        if not wants_host(facts.hypervisor):
            return StepOutcome(facts)
        try:
            found = await self._find(facts.hypervisor)
            claimants = await self._claims(facts.hypervisor, found) if found else ()
        except UnreachableError as error:
            return _failed(facts, RegisteredReason.UNREACHABLE, error)
        except HypercobaltError as error:
            return _failed(facts, RegisteredReason.FAILED, error)
        after = decide(facts, found, claimants, self._service.name)
        if self._service.counts_servers:  # else the name is the host's own report, shown elsewhere
            after = with_service(after, self._service.name)
        if found is not None and _is_turned_away(after) and not _is_turned_away(facts):
            self._report(owner(found, facts.hypervisor, claimants), after, found)
        return StepOutcome(after, PATIENCE if _is_turned_away(after) else None)

    def _report(self, has: Hypervisor, after: LifecycleFacts, found: Host) -> None:
        """Record a Warning on both: neither may lose a host to the other unseen."""
        other = after.hypervisor
        condition = after.condition(Type.REGISTERED)
        note = condition.message if condition else ""
        self._events.record(other, "Warning", "RegisteredClaimed", note, action="Registering")
        note = (
            f"Hypervisor {other.metadata.name} claims host {found.name} of {self._service.name} "
            "as well; it stays with this one"
        )
        self._events.record(has, "Warning", "HostClaimed", note, action="Registering")

    async def _claims(self, hypervisor: Hypervisor, found: Host) -> tuple[Hypervisor, ...]:
        own = tuple(self._claimants(found))
        if self._elsewhere is None or hypervisor.status.serviceId == found.service_id:
            return own
        return (*own, *await self._elsewhere(found))

    async def _find(self, hypervisor: Hypervisor) -> Host | None:
        for name in host_names(hypervisor):
            found = await self._service.hosts.get(name)
            if found is not None:
                return found
        return None


def _is_turned_away(facts: LifecycleFacts) -> bool:
    return facts.holds(Type.REGISTERED, "False", RegisteredReason.CLAIMED)


def _failed(
    facts: LifecycleFacts, reason: RegisteredReason, error: HypercobaltError
) -> StepOutcome:
    text = f"Cannot read the host from the compute service: {error}"
    after = facts.with_condition(Type.REGISTERED, "Unknown", reason, text, waits_for=reason)
    if facts.condition(Type.COMPUTE_SERVICE_UP) is not None:
        why = ComputeServiceReason.NOT_READ
        after = after.with_condition(Type.COMPUTE_SERVICE_UP, "Unknown", why, text)
    return StepOutcome(replace(after, host=None), PATIENCE, error)
