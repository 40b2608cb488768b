"""`Registered`: whether the compute service knows the host, and under which ids.

Names are compared whole: `node1` never is `node10`. A host that two Hypervisors would be (their
names begin alike, and the service knows first labels only) belongs to the one of exactly its name.

Source: openstack-hypervisor-operator, internal/controller/onboarding_controller.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import RegisteredReason
from hypercobalt.compute.errors import UnreachableError
from hypercobalt.compute.model import Host
from hypercobalt.compute.port import ComputeService
from hypercobalt.errors import HypercobaltError
from hypercobalt.operator.lifecycle.evicting import EMPTYING
from hypercobalt.operator.lifecycle.step import PATIENCE, Facts, Outcome, Type
from hypercobalt.operator.node_facts import host_names

NAME: Final = "registration"

Claimants = Callable[[str], Iterable[Hypervisor]]
"""Gives the Hypervisors that have a service's id in their status."""


def decide(
    facts: Facts, found: Host | None, claimants: Iterable[Hypervisor], service: str
) -> Facts:
    """Say whether the host is registered.

    Args:
        facts: of the pass.
        found: what the compute service knows under the Hypervisor's names.
        claimants: Hypervisors, this one or others, that have the host's service in their status.
        service: name of the compute service.
    """
    name = facts.hypervisor.metadata.name
    if found is None:
        known = facts.hypervisor.status.serviceId
        text = (
            f"{service} no longer knows a host {name!r}: does its nova-compute run?"
            if known
            else f"Waiting for nova-compute: {service} knows no host {name!r}"
        )
        message = facts.waiting(Type.REGISTERED, text)
        lost = facts.say(Type.REGISTERED, "False", RegisteredReason.NOT_REGISTERED, message)
        return replace(lost, host=None)
    owner = min(
        {name, *(other.metadata.name for other in claimants)},
        key=lambda one: (one != found.name, one),
    )
    if owner != name:
        text = (
            f"Host {found.name} of {service} belongs to hypervisor {owner}: "
            "give one of the two another name"
        )
        message = facts.waiting(Type.REGISTERED, text)
        taken = facts.say(Type.REGISTERED, "False", RegisteredReason.CLAIMED, message)
        return replace(taken.having(hypervisorId=None, serviceId=None), host=None)
    noted = facts.having(hypervisorId=found.hypervisor_id, serviceId=found.service_id)
    text = f"{service} knows it as {found.name}"
    said = noted.say(Type.REGISTERED, "True", RegisteredReason.REGISTERED, text)
    return replace(said, host=found)


class Registration:
    """The shell around `decide`."""

    name = NAME

    def __init__(self, service: ComputeService, claimants: Claimants) -> None:
        self._service, self._claimants = service, claimants

    async def run(self, facts: Facts) -> Outcome:
        if not _is_ours(facts.hypervisor):
            return Outcome(facts)
        try:
            found = await self._find(facts.hypervisor)
        except UnreachableError as error:
            return _failed(facts, RegisteredReason.UNREACHABLE, error)
        except HypercobaltError as error:
            return _failed(facts, RegisteredReason.FAILED, error)
        claimants = self._claimants(found.service_id) if found else ()
        after = decide(facts, found, claimants, self._service.name)
        return Outcome(after, None if after.host else PATIENCE)

    async def _find(self, hypervisor: Hypervisor) -> Host | None:
        for name in host_names(hypervisor):
            found = await self._service.hosts.get(name)
            if found is not None:
                return found
        return None


def _is_ours(hypervisor: Hypervisor) -> bool:
    """Whether to look for the host: somebody else's is, unless it is to be emptied.

    That takes no lifecycle: a host that is to take no servers has to be disabled all the same.
    """
    spec = hypervisor.spec
    emptied = spec.maintenance in EMPTYING
    return bool(spec.lifecycleEnabled or hypervisor.status.serviceId or emptied)


def _failed(facts: Facts, reason: RegisteredReason, error: HypercobaltError) -> Outcome:
    message = facts.waiting(Type.REGISTERED, f"Cannot ask the compute service: {error}")
    said = facts.say(Type.REGISTERED, "Unknown", reason, message)
    return Outcome(replace(said, host=None), PATIENCE, error)
