"""`TraitsUpdated`: the traits of the spec are on the host's resource provider.

The present traits are read from Placement, so that drift is seen; the order of names does not
matter, and an empty list applies at once. Traits that others have put there stay: only traits that
this operator has put (`status.appliedTraits`) are removed.

Source: openstack-hypervisor-operator, internal/controller/traits_controller.go; Placement API
reference, "Resource provider traits"; names as Placement's schema has them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from hypercobalt.api.conditions import ConditionStatus
from hypercobalt.api.hypervisor import Hypervisor, Maintenance
from hypercobalt.api.hypervisor_conditions import OnboardingReason, SyncReason
from hypercobalt.compute.errors import ComputeConflictError, ComputeError, UnreachableError
from hypercobalt.compute.model import ProviderTraits
from hypercobalt.compute.port import ComputeService, Traits
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.operator.lifecycle.reads import Reads
from hypercobalt.operator.lifecycle.step import PATIENCE, LifecycleFacts, StepOutcome, Type

log = get_logger(__name__)

NAME: Final = "traits"
CUSTOM: Final = "CUSTOM_"
_NAME: Final = re.compile(r"[A-Z0-9_]{1,255}", re.ASCII)
_TRIES: Final = 3
MOST: Final = 256
"""Traits of one host. Placement has no limit of its own; each is looked up there by its name."""
_NAMED: Final = 10  # names in one message, each cut to
_CUT: Final = 64  # characters


@dataclass(frozen=True, slots=True)
class TraitPlan:
    """Actions of one pass.

    Args:
        put: all traits to set; None when they are as they should be.
        applied: those of them that are the operator's.
        invalid: wanted names that are no valid trait names.
        excess: wanted names beyond `MOST`.
    """

    put: tuple[str, ...] | None
    applied: tuple[str, ...]
    invalid: tuple[str, ...] = ()
    excess: tuple[str, ...] = ()


def is_due(facts: LifecycleFacts) -> bool:
    """Whether traits are due: from Handover on, and not in a termination."""
    spec, onboarding = facts.hypervisor.spec, facts.condition(Type.ONBOARDING)
    if not spec.lifecycleEnabled or spec.maintenance == Maintenance.TERMINATION:
        return False
    if onboarding is None or facts.host is None:
        return False
    return (
        onboarding.status == ConditionStatus.FALSE or onboarding.reason == OnboardingReason.HANDOVER
    )


def decide(hypervisor: Hypervisor, current: ProviderTraits) -> TraitPlan:
    """Decide which traits the provider should have.

    Args:
        hypervisor: its spec has the desired ones, its status those that were set earlier.
        current: as Placement has them.
    """
    named = tuple(dict.fromkeys(hypervisor.spec.customTraits))
    valid = tuple(name for name in named if _NAME.fullmatch(name))
    invalid = tuple(sorted(set(named) - set(valid)))
    wanted = set(valid[:MOST])
    there = set(current.names)
    target = there - (set(applied(hypervisor)) - wanted) | wanted
    put = tuple(sorted(target)) if target != there else None
    return TraitPlan(put, tuple(sorted(wanted)), invalid, valid[MOST:])


def applied(hypervisor: Hypervisor) -> tuple[str, ...]:
    """Return traits put earlier; the existing operator noted all, and counted all custom ones."""
    status = hypervisor.status
    if status.appliedTraits is not None:
        return status.appliedTraits
    return tuple(name for name in status.traits if name.startswith(CUSTOM))


def is_settled(hypervisor: Hypervisor) -> bool:
    """Whether the traits of the spec equal the last ones that were put."""
    return set(applied(hypervisor)) == set(hypervisor.spec.customTraits)


class TraitSync:
    """The shell around `decide`."""

    name = NAME
    reads = Reads(
        fields=frozenset({"spec.lifecycleEnabled", "spec.maintenance", "spec.customTraits"})
    )

    def __init__(self, service: ComputeService) -> None:
        self._service = service

    async def run(self, facts: LifecycleFacts) -> StepOutcome:
        if not is_due(facts) or facts.host is None or (NAME,) in facts.compared:
            return StepOutcome(facts)
        traits = self._service.traits
        if traits is None:
            wanted = len(facts.hypervisor.spec.customTraits)
            ignored = f"; {wanted} of spec.customTraits are ignored" if wanted else ""
            text = f"{self._service.name} has no traits{ignored}"
            return StepOutcome(_set(facts, "True", text))
        try:
            return await self._sync(facts, traits, facts.host.hypervisor_id)
        except UnreachableError as error:
            if facts.holds(Type.TRAITS_UPDATED, "True") and is_settled(facts.hypervisor):
                return StepOutcome(facts, PATIENCE, error)  # nothing is known to be wrong
            return _failed(facts, error)
        except ComputeError as error:
            return _failed(facts, error)

    async def _sync(self, facts: LifecycleFacts, traits: Traits, provider: str) -> StepOutcome:
        attempt = 0
        while True:
            attempt += 1
            # nova-compute's reports move the generation: what was read earlier confirms, and a
            # change begins with what is there now.
            fresh = attempt > 1 or not is_settled(facts.hypervisor)
            current = await traits.get(provider, fresh=fresh)
            if current is None:
                text = f"Placement has no resource provider {provider}; check nova-compute"
                return StepOutcome(_set(facts, "False", text))
            plan = decide(facts.hypervisor, current)
            if plan.put is None:
                return _done(facts, plan, current)
            name = facts.hypervisor.metadata.name
            log.info("setting_traits", hypervisor=name, traits=",".join(plan.put))
            try:
                after = await traits.put(provider, ProviderTraits(plan.put, current.generation))
            except ComputeConflictError:
                if attempt == _TRIES:
                    raise
            else:
                return _done(facts, plan, after)


def _done(facts: LifecycleFacts, plan: TraitPlan, there: ProviderTraits) -> StepOutcome:
    done = facts.with_status(traits=tuple(sorted(there.names)), appliedTraits=plan.applied)
    wrong: list[str] = []
    if plan.invalid:
        names = _listed(plan.invalid)
        wrong.append(f"invalid trait names (A-Z, 0-9, _; at most 255 characters): {names}")
    if plan.excess:
        wrong.append(f"more than {MOST} traits, not set: {_listed(plan.excess)}")
    if wrong:
        return StepOutcome(_set(done, "False", f"Failed to update traits: {'; '.join(wrong)}"))
    return StepOutcome(_set(done.with_compared(NAME), "True", "Traits updated"))


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(
        repr(name if len(name) <= _CUT else f"{name[:_CUT]}…") for name in names[:_NAMED]
    )
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown


def _set(facts: LifecycleFacts, status: str, message: str) -> LifecycleFacts:
    reason = SyncReason.SUCCEEDED if status == "True" else SyncReason.FAILED
    return facts.with_condition(Type.TRAITS_UPDATED, status, reason, message)


def _failed(facts: LifecycleFacts, error: HypercobaltError) -> StepOutcome:
    return StepOutcome(_set(facts, "False", f"Failed to update traits: {error}"), PATIENCE, error)
