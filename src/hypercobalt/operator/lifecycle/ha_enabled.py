"""`HaEnabled`: whether the host's instances are recovered after a failure.

It is True when no other controller has switched it off, the node agent reports libvirt and, where
this operator is the HA service, the agent's configuration is valid, the host starts no guests by
itself and a fence device is set up.
The condition is written under a field manager of its own and never by force: the API server refuses
to change one that an outside HA service has written, and that condition stays that service's.

Source: openstack-hypervisor-operator, the controller removed in commit a9e7332.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from hypercobalt.api.conditions import Condition, get_condition
from hypercobalt.api.ha_switch import HA_ENABLED, switched_off
from hypercobalt.api.hypervisor import Hypervisor, is_evicted
from hypercobalt.api.hypervisor_conditions import HaEnabledReason, OnboardingReason
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.logs import get_logger
from hypercobalt.operator.lifecycle.reads import Reads
from hypercobalt.operator.lifecycle.step import LifecycleFacts, StepOutcome, Type, is_silent
from hypercobalt.operator.shared.ha_mode import HaMode
from hypercobalt.runtime import ConflictError, Kube
from hypercobalt.runtime.write_cache import WriteCache

log = get_logger(__name__)

NAME: Final = "ha"
_Why = HaEnabledReason

ENABLED: Final = "The node agent reports the host's instances"
SILENT: Final = "The node agent does not report libvirt; failures would go undetected"
_AGENT_SILENT: Final = "The node agent does not report: see AgentReporting"
_OFF: Final = "High availability is off in the spec"
_SWITCHED_OFF: Final = "High availability is switched off for the host"
_EMPTY: Final = "The host is empty"
_NOT_YET: Final = "The host is not in service yet"
_OFF_EVERYWHERE: Final = "High availability is off for all hosts (--ha off)"


@dataclass(frozen=True, slots=True)
class FencingReadiness:
    """Whether hosts can be fenced.

    Args:
        problem: returns why a host cannot be fenced, by its name; "" when it can.
        labels: keys of the labels that the result depends on.
    """

    problem: Callable[[str], str]
    labels: Collection[str]


def decide(
    facts: LifecycleFacts, ha: HaMode = HaMode.EXTERNAL, unfenced: str = ""
) -> tuple[str, HaEnabledReason, str] | None:
    """Return whether high availability is on; None leaves the condition as it is, or absent.

    Args:
        facts: of the pass.
        ha: who reacts to failures of hosts.
        unfenced: why the host cannot be fenced; "" when it can, or need not be.
    """
    onboarding, found = facts.condition(Type.ONBOARDING), facts.condition(Type.HA_ENABLED)
    if onboarding is None:
        return None
    verdict = _verdict(facts, onboarding, ha, unfenced)
    if found is None and verdict[0] != "True" and ha is HaMode.EXTERNAL:
        return None  # never enabled: no condition means that
    return verdict


def _verdict(
    facts: LifecycleFacts, onboarding: Condition, ha: HaMode, unfenced: str
) -> tuple[str, HaEnabledReason, str]:
    if ha is HaMode.OFF:
        return "False", _Why.SUCCEEDED, _OFF_EVERYWHERE
    if not facts.hypervisor.spec.highAvailability:
        return "False", _Why.SUCCEEDED, _OFF
    if is_evicted(facts.hypervisor):
        return "False", _Why.EVICTED, _EMPTY
    under_way = onboarding.status == "True" and onboarding.reason != OnboardingReason.HANDOVER
    if under_way or onboarding.reason == OnboardingReason.ABORTED:
        return "False", _Why.ONBOARDING, _NOT_YET
    if why := switched_off(facts.hypervisor):
        return "False", _Why.SUCCEEDED, f"{_SWITCHED_OFF}: {why}"
    if is_silent(facts):
        return "Unknown", _Why.AGENT_SILENT, _AGENT_SILENT
    if not facts.holds(Type.LIBVIRT_CONNECTION, "True"):
        return "Unknown", _Why.FAILED, SILENT
    if ha is HaMode.INTERNAL:
        config = facts.condition(Type.HA_CONFIG_VALID)
        if config is not None and config.status != "True":
            return "Unknown", _Why.FAILED, f"The node agent's configuration: {config.message}"
        autostart = facts.condition(Type.AUTOSTART_OFF)
        if autostart is not None and autostart.status == "False":
            return "Unknown", _Why.FAILED, autostart.message
        if unfenced:
            return "Unknown", _Why.FAILED, f"The host cannot be fenced: {unfenced}"
    return "True", _Why.SUCCEEDED, ENABLED


class HaEnabledSync:
    """The shell around `decide`; it writes at once, apart from the other steps."""

    name = NAME

    def __init__(
        self,
        kube: Kube,
        hypervisors: WriteCache[Hypervisor],
        ha: HaMode,
        fencing: FencingReadiness,
    ) -> None:
        self._ha, self._fencing = ha, fencing
        self.reads = Reads(
            conditions=frozenset(
                {
                    *(Type.LIBVIRT_CONNECTION, Type.AGENT_REPORTING),
                    *(Type.HA_CONFIG_VALID, Type.AUTOSTART_OFF, Type.HA_ENABLED),
                    Type.FENCE_DEVICES_PROVEN,
                }
            ),
            fields=frozenset({"spec.highAvailability"}),
            labels=frozenset(fencing.labels),
            annotations=frozenset({HA_ENABLED}),
        )
        self._kube, self._hypervisors = kube.as_manager(NAME), hypervisors
        self._theirs: dict[str, Condition] = {}
        """Conditions that an outside HA service has written, by Hypervisor: not ours to change."""

    async def run(self, facts: LifecycleFacts) -> StepOutcome:
        name, found = facts.hypervisor.metadata.name, facts.condition(Type.HA_ENABLED)
        verdict = decide(facts, self._ha, self._fencing.problem(name))
        if verdict is None or (found is not None and found == self._theirs.get(name)):
            return StepOutcome(facts)
        after = facts.with_condition(Type.HA_ENABLED, *verdict)
        condition = after.condition(Type.HA_ENABLED)
        if condition is None or condition == found:
            return StepOutcome(facts)
        mine = Hypervisor(
            metadata=ObjectMeta(name=name), status=HypervisorStatus(conditions=(condition,))
        )
        log.info("ha_enabled_set", hypervisor=name, status=condition.status)
        try:
            async with self._hypervisors.turn(name):
                written = await self._kube.apply(mine, subresource="status")
                self._hypervisors.wrote(written)
        except ConflictError:
            if found is not None:  # or what it writes comes with the next change
                self._theirs[name] = found
            return StepOutcome(facts)
        self._theirs.pop(name, None)
        theirs = get_condition(written.conditions, Type.HA_ENABLED)
        return StepOutcome(after if theirs == condition else facts)
