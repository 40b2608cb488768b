"""Input and output of the steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

import msgspec

from hypercobalt.api.conditions import (
    Condition,
    ConditionStatus,
    get_condition,
    remove_condition,
    set_condition,
)
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import (
    AgentReportingReason,
    HypervisorConditionType,
    LibvirtConnectionReason,
    OnboardingReason,
)
from hypercobalt.api.hypervisor_status import Wait
from hypercobalt.compute.model import Host
from hypercobalt.errors import HypercobaltError
from hypercobalt.operator.lifecycle.reads import Reads

POLL: Final = timedelta(seconds=10)
"""Interval between two reads of an operation in OpenStack, which sends no events."""

PATIENCE: Final = timedelta(minutes=1)
"""Interval between two reads while a person or another program has to act first."""

Type = HypervisorConditionType


@dataclass(frozen=True, slots=True)
class LifecycleFacts:
    """A host as a step sees it.

    Args:
        hypervisor: with what the steps before have set in its status.
        host: as the compute service reports it; None when it does not, or does not answer.
        now: the only clock that a step sees.
        compared: names of things that this pass has already compared with the compute service, as
            the steps call them; the next round does not compare them again.
    """

    hypervisor: Hypervisor
    host: Host | None
    now: datetime
    compared: frozenset[tuple[str, ...]] = frozenset()

    def condition(self, type_: str) -> Condition | None:
        """Return the condition of that type, as it stands in this pass."""
        return get_condition(self.hypervisor.conditions, type_)

    def holds(self, type_: str, status: str, *reasons: str) -> bool:
        """Whether the condition has that status, and one of the reasons if any are given."""
        found = self.condition(type_)
        return (
            found is not None
            and found.status == status
            and (not reasons or found.reason in reasons)
        )

    def with_condition(
        self,
        type_: str,
        status: str,
        reason: str,
        message: str,
        *,
        of_spec: bool = False,
        waits_for: str = "",
    ) -> LifecycleFacts:
        """Return the facts with a condition set.

        Args:
            type_: of the condition.
            status: True, False or Unknown.
            reason: from a closed set.
            message: for a person; the time since when is added to what waits.
            of_spec: note the generation of the spec that it was computed from.
            waits_for: what the condition waits for; "" for nothing.
        """
        waits = self._other_waits(type_)
        if waits_for:
            now = self.now.replace(microsecond=0)
            wait = self._wait(type_, waits_for) or Wait(type_, waits_for, now)
            waits = tuple(sorted((*waits, wait), key=lambda one: one.condition))
            message = f"{message}, since {wait.since:%Y-%m-%dT%H:%M:%SZ}"
        conditions = set_condition(
            self.hypervisor.conditions,
            type_,
            status,
            reason,
            message,
            now=self.now,
            observed_generation=self.hypervisor.metadata.generation if of_spec else None,
        )
        return self.with_status(conditions=conditions, waits=waits)

    def waits(self, type_: str, what: str) -> bool:
        """Whether the condition of that type waits for the given thing."""
        return self._wait(type_, what) is not None

    def _wait(self, type_: str, what: str) -> Wait | None:
        key = (type_, what)
        waits = self.hypervisor.status.waits
        return next((one for one in waits if (one.condition, one.waitsFor) == key), None)

    def _other_waits(self, type_: str) -> tuple[Wait, ...]:
        return tuple(one for one in self.hypervisor.status.waits if one.condition != type_)

    def with_compared(self, *what: str) -> LifecycleFacts:
        """Return the facts, once the thing is known to be right in the compute service."""
        return replace(self, compared=self.compared | {what})

    def without_condition(self, type_: str) -> LifecycleFacts:
        """Return the facts without a condition."""
        left = remove_condition(self.hypervisor.conditions, type_)
        return self.with_status(conditions=left, waits=self._other_waits(type_))

    def with_status(self, **fields: Any) -> LifecycleFacts:  # noqa: ANN401 - fields of the status, by name
        """Return the facts with fields of the status set."""
        status = msgspec.structs.replace(self.hypervisor.status, **fields)
        return replace(self, hypervisor=msgspec.structs.replace(self.hypervisor, status=status))


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """Result of a step.

    Args:
        facts: for the next step.
        look_again: after this long, unless something changes before; None waits for a change.
        error: what stopped the step; it is in the conditions already.
        final: write the status before anything else is done.
    """

    facts: LifecycleFacts
    look_again: timedelta | None = None
    error: HypercobaltError | None = None
    final: bool = False


class LifecycleStep(Protocol):
    """One concern of a pass."""

    @property
    def name(self) -> str:
        """Label of the metrics: the name of the existing operator's controller."""
        ...

    @property
    def reads(self) -> Reads:
        """Fields of a Hypervisor that the step decides by, besides the ones that steps write."""
        ...

    async def run(self, facts: LifecycleFacts) -> StepOutcome:
        """Read, decide, act; an error on the way becomes a condition."""
        ...


def is_silent(facts: LifecycleFacts) -> bool:
    """Whether the node agent's last report is no longer known to be true."""
    if facts.holds(Type.AGENT_REPORTING, ConditionStatus.FALSE, AgentReportingReason.AGENT_SILENT):
        return True
    return facts.holds(
        Type.LIBVIRT_CONNECTION, ConditionStatus.UNKNOWN, LibvirtConnectionReason.AGENT_SILENT
    )


def is_onboarding(facts: LifecycleFacts) -> bool:
    """Whether an onboarding is under way, which has the host to itself.

    An aborted onboarding that still has test servers to delete no longer has it: a host in
    maintenance is disabled and emptied meanwhile.
    """
    found = facts.condition(Type.ONBOARDING)
    if found is None or found.status != ConditionStatus.TRUE:
        return False
    return found.reason != OnboardingReason.ABORTED
