"""`Onboarding`: takes a host from its registration to servers of every project.

Initial (checks, test aggregates) - Testing (smoke test) - Handover (traits, aggregates, HA) -
Succeeded. It ends in every case: the message names what it waits for, a permanent failure makes it
False/Aborted, and there is a way back from there: a change of the spec (lifecycle off and on again)
at once, and time.

None begins, and none goes on, while the host is in maintenance, since it enables the host and boots
a server there. An onboarding that has begun is aborted, and begins again when the maintenance ends.

A host that has servers already, because its status was lost or it was onboarded by other means,
is not tested: the test would take it away from their owners' aggregates. It goes to Handover at
once. A host that is not tested for another reason goes through Initial as every other. The checks
are never skipped.

Source: openstack-hypervisor-operator, internal/controller/onboarding_controller.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import Final

from hypercobalt.api.conditions import Condition
from hypercobalt.api.hypervisor import Hypervisor, Maintenance
from hypercobalt.api.hypervisor_conditions import AggregatesReason, OnboardingReason
from hypercobalt.operator.lifecycle.holding import is_tested
from hypercobalt.operator.lifecycle.settings import LifecycleSettings
from hypercobalt.operator.lifecycle.step import POLL, LifecycleFacts, Type
from hypercobalt.operator.shared.ha_mode import HaMode

NAME: Final = "onboarding"
_Why = OnboardingReason

LIFECYCLE_OFF: Final = "Aborted due to LifecycleEnabled being false"
DELETED: Final = "Aborted because the Hypervisor is being deleted"
TERMINATION: Final = "Aborted due to MaintenanceTermination"
MAINTENANCE: Final = "Aborted due to maintenance; begins again when that ends"
_FAILED: Final = AggregatesReason.FAILED


class Act(Enum):
    """Action of the shell before the condition becomes true."""

    NONE = auto()
    CLEAN_UP = auto()
    """Delete the test servers."""
    ENABLE = auto()
    """Let servers be placed on the host, which is in the aggregates of its test, or its own."""
    TEST = auto()
    """Go on with the smoke test."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Why a host is not tested.

    Args:
        why: in words.
        stays: it has servers, and stays in their aggregates.
    """

    why: str
    stays: bool = False


@dataclass(frozen=True, slots=True)
class OnboardingPlan:
    """Actions of one pass.

    Args:
        act: see `Act`.
        condition: status, reason and message of `Onboarding` once that is done; None leaves it.
        waits_for: what the condition then waits for.
        look_again: after this long; None waits for a change.
    """

    act: Act = Act.NONE
    condition: tuple[str, OnboardingReason, str] | None = None
    waits_for: str = ""
    look_again: timedelta | None = None


def is_wanted(facts: LifecycleFacts) -> bool:
    """Whether the host should be in service, or come into it."""
    spec, going = facts.hypervisor.spec, facts.hypervisor.metadata.deletionTimestamp
    return bool(spec.lifecycleEnabled) and spec.maintenance != Maintenance.TERMINATION and not going


def may_go_on(facts: LifecycleFacts) -> bool:
    """Whether the onboarding may go on now: the host is wanted, and not in maintenance."""
    return is_wanted(facts) and not facts.hypervisor.spec.maintenance


def decide(
    facts: LifecycleFacts,
    skip: Skip | None,
    unmet: str,
    settings: LifecycleSettings,
    *,
    grouped: bool = True,
) -> OnboardingPlan:
    """Decide the next step.

    Args:
        facts: of the pass.
        skip: why the host is not tested; None when it is.
        unmet: the check that does not pass; "" when all do, or none is due.
        settings: the pause after a failure, and who reacts to failures of hosts.
        grouped: the compute service has aggregates.
    """
    found = facts.condition(Type.ONBOARDING)
    if not is_wanted(facts):
        return _abort(facts, found, _why_not(facts.hypervisor))
    if not may_go_on(facts):
        rests = found is None or found.status == "False"
        return OnboardingPlan() if rests else _abort(facts, found, MAINTENANCE)
    if facts.host is None or facts.holds(Type.ONBOARDING, "False", _Why.SUCCEEDED):
        return OnboardingPlan()
    if found is None or found.reason == _Why.ABORTED or found.status != "True":
        return _begin(facts, found, skip, settings)
    if found.reason == _Why.INITIAL:
        return _initial(facts, skip, unmet, grouped=grouped)
    if found.reason == _Why.TESTING:
        return _handover(facts, skip) if skip else _testing(facts, grouped=grouped)
    return _end(facts, unmet, settings.ha)


def is_checked(facts: LifecycleFacts, settings: LifecycleSettings) -> bool:
    """Whether the checks are due: before a test, and at the end when nothing else is missing."""
    found = facts.condition(Type.ONBOARDING)
    if found is None or found.status != "True":
        return False
    ends = found.reason == _Why.HANDOVER and not _missing(facts, settings.ha)
    return found.reason == _Why.INITIAL or ends


def _why_not(hypervisor: Hypervisor) -> str:
    if not hypervisor.spec.lifecycleEnabled:
        return LIFECYCLE_OFF
    leaves = hypervisor.spec.maintenance == Maintenance.TERMINATION
    return TERMINATION if leaves else DELETED


def _abort(facts: LifecycleFacts, found: Condition | None, why: str) -> OnboardingPlan:
    """Take back an onboarding that has begun, or ended well: the host is not ours now."""
    tested = is_tested(facts.hypervisor)
    if not tested and found is None:
        return OnboardingPlan()
    # Where nothing was booted, the test project is not read: it may not exist.
    return OnboardingPlan(Act.CLEAN_UP if tested else Act.NONE, ("False", _Why.ABORTED, why))


def _begin(
    facts: LifecycleFacts, found: Condition | None, skip: Skip | None, settings: LifecycleSettings
) -> OnboardingPlan:
    if found is not None and found.status == "False" and _rests(facts, found):
        left = found.lastTransitionTime + settings.retry_pause - facts.now
        if left > timedelta(0):
            return OnboardingPlan(look_again=left)
    if skip is not None and skip.stays:
        return _handover(facts, skip)
    return OnboardingPlan(condition=("True", _Why.INITIAL, "Onboarding begins"))


def _rests(facts: LifecycleFacts, found: Condition) -> bool:
    """Whether it failed with the present spec: a change of the spec starts another onboarding."""
    return found.observedGeneration == facts.hypervisor.metadata.generation


def _initial(
    facts: LifecycleFacts, skip: Skip | None, unmet: str, *, grouped: bool
) -> OnboardingPlan:
    if skip is not None and skip.stays:
        return _handover(facts, skip)
    if unmet:
        return _unmet(facts, _Why.INITIAL, unmet)
    waits = _lacks_aggregates(facts) if grouped else ""
    if waits:
        return OnboardingPlan(
            condition=("True", _Why.INITIAL, waits), waits_for=Type.AGGREGATES_UPDATED
        )
    if skip is not None:
        return _handover(facts, skip)
    return OnboardingPlan(Act.ENABLE, ("True", _Why.TESTING, "Smoke test begins"))


def _testing(facts: LifecycleFacts, *, grouped: bool) -> OnboardingPlan:
    """Wait until the host is in its zone: before that, Nova would not find it for the test."""
    waits = _lacks_aggregates(facts) if grouped else ""
    if waits:
        return OnboardingPlan(
            condition=("True", _Why.TESTING, waits), waits_for=Type.AGGREGATES_UPDATED
        )
    return OnboardingPlan(Act.TEST)


def _lacks_aggregates(facts: LifecycleFacts) -> str:
    """Return what the test aggregates wait for; "" when the host is in them."""
    found = facts.condition(Type.AGGREGATES_UPDATED)
    if found is None or found.reason not in (AggregatesReason.TEST_AGGREGATES, _FAILED):
        return "Waiting for the test aggregates"
    failed = found.reason == _FAILED
    return f"Waiting for the test aggregates: {found.message}" if failed else ""


def _handover(facts: LifecycleFacts, skip: Skip) -> OnboardingPlan:
    act = Act.CLEAN_UP if is_tested(facts.hypervisor) else Act.NONE
    text = f"No smoke test ({skip.why}); waiting for the remaining conditions"
    return OnboardingPlan(act, ("True", _Why.HANDOVER, text))


def _missing(facts: LifecycleFacts, ha: HaMode) -> list[str]:
    """Return conditions that must be True at the end, and are not."""
    wanted = [Type.AGGREGATES_UPDATED, Type.TRAITS_UPDATED]
    if facts.hypervisor.spec.highAvailability and ha is not HaMode.OFF:
        wanted.append(Type.HA_ENABLED)
    return [type_ for type_ in wanted if not facts.holds(type_, "True")]


def _end(facts: LifecycleFacts, unmet: str, ha: HaMode) -> OnboardingPlan:
    if missing := _missing(facts, ha):
        text = f"Waiting for {'; '.join(_lacks(facts, type_) for type_ in missing)}"
        return OnboardingPlan(condition=("True", _Why.HANDOVER, text), waits_for=" ".join(missing))
    if unmet:
        return _unmet(facts, _Why.HANDOVER, unmet)
    return OnboardingPlan(Act.ENABLE, ("False", _Why.SUCCEEDED, "Onboarding completed"))


def _unmet(facts: LifecycleFacts, stage: OnboardingReason, unmet: str) -> OnboardingPlan:
    """Wait for the host to be in order: switches and probes are not watched, the status is."""
    poll = POLL if facts.holds(Type.LIBVIRT_CONNECTION, "True") else None
    text = f"Waiting for checks of the host: {unmet}"
    return OnboardingPlan(condition=("True", stage, text), waits_for="Checks", look_again=poll)


def _lacks(facts: LifecycleFacts, type_: str) -> str:
    found = facts.condition(type_)
    if found is not None:
        return f"{type_} ({found.message})"
    if type_ == Type.HA_ENABLED:
        return f"{type_} (no node agent and no HA service has reported)"
    return type_
