"""`HypervisorDisabled`: whether new servers are placed on the host, as Nova has it.

It is compared with Nova: in maintenance a service that was enabled by other means is disabled
again, and its reason follows the mode. Enabling goes by the reason. The operator enables what it
has disabled, and what it has to enable by contract: a host at the end of its onboarding, and at the
end of a maintenance. It leaves alone what was disabled, or forced down, by other means, what
nova-compute has disabled itself because it lost libvirt, a host that is being onboarded, and one in
maintenance `ha` where another service sets that. A Node under pressure takes no new servers, nor
does a host whose memory has failed or whose own switch is broken. A failure that all hosts share,
such as of OVN's database, disables no host.

A host is enabled while its service reports: else Nova leaves the trait COMPUTE_STATUS_DISABLED in
Placement for up to a minute more. One that counts as dead is taken back by the HA service first.

Source: openstack-hypervisor-operator, internal/controller/hypervisor_maintenance_controller.go;
nova, virt/libvirt/driver.py, _set_host_enabled, and api/openstack/compute/schemas/services.py.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from hypercobalt.api.eviction import Eviction
from hypercobalt.api.fencing import RECORD, is_declared_dead
from hypercobalt.api.hypervisor import EMPTYING, Maintenance
from hypercobalt.api.hypervisor_conditions import (
    NETWORK_BROKEN,
    AcceptsReason,
    DisabledReason,
    NodeHealthyReason,
    OnboardingReason,
)
from hypercobalt.compute.errors import ComputeError
from hypercobalt.compute.model import Host
from hypercobalt.compute.port import Hosts
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.operator.lifecycle.evictions import Evictions, keeps_disabled
from hypercobalt.operator.lifecycle.reads import Reads
from hypercobalt.operator.lifecycle.step import (
    PATIENCE,
    POLL,
    LifecycleFacts,
    StepOutcome,
    Type,
    is_onboarding,
)
from hypercobalt.operator.shared.ha_mode import HaMode

log = get_logger(__name__)

NAME: Final = "HypervisorMaintenance"
_BY_NOVA: Final = "AUTO: "  # nova's DISABLE_PREFIX
_LONGEST: Final = 255  # characters that Nova takes as a reason
_OURS: Final = re.compile(
    r"Hypervisor CRD: spec\.maintenance=\w+|Node condition: \w+|Network condition: \w+"
    r"|Eviction [a-z0-9.-]+: .*",
    re.DOTALL,
)
_PRESSURES: Final = (NodeHealthyReason.DISK_PRESSURE, NodeHealthyReason.MEMORY_PRESSURE)
_Why = DisabledReason


@dataclass(frozen=True, slots=True)
class DesiredService:
    """Desired state of the host in the compute service.

    Args:
        enabled: new servers are placed there.
        reason: why no servers are placed there.
        yields: leave the host alone if another client has disabled it, or forced it down.
    """

    enabled: bool
    reason: str = ""
    yields: bool = False


def desired(
    facts: LifecycleFacts, eviction: Eviction | None, ha: HaMode = HaMode.EXTERNAL
) -> DesiredService | None:
    """Return the desired state; None leaves the host as it is.

    Args:
        facts: of the pass.
        eviction: one that empties the host without a maintenance, if there is one.
        ha: who reacts to failures of hosts.
    """
    mode = facts.hypervisor.spec.maintenance or Maintenance.NONE
    theirs = mode == Maintenance.HA and ha is HaMode.EXTERNAL
    if facts.host is None or is_onboarding(facts) or theirs:
        return None
    if mode in EMPTYING or mode == Maintenance.HA:
        return DesiredService(False, f"Hypervisor CRD: spec.maintenance={mode}")
    if eviction is not None:
        text = f"Eviction {eviction.metadata.name}: {eviction.spec.reason}"
        return DesiredService(False, text[:_LONGEST], yields=True)
    pressed = _is_false_for(facts, Type.NODE_HEALTHY, _PRESSURES)
    failed = _is_false_for(facts, Type.ACCEPTS_NEW_INSTANCES, (AcceptsReason.MEMORY_FAILED,))
    if (unwell := pressed or failed) and ha is not HaMode.OFF:
        return DesiredService(False, f"Node condition: {unwell}", yields=True)
    if broken := _is_false_for(facts, Type.NETWORK_HEALTHY, NETWORK_BROKEN):
        return DesiredService(False, f"Network condition: {broken}", yields=True)
    if _is_held_by_ha(facts, ha):
        return None
    in_service = facts.holds(Type.ONBOARDING, "False", OnboardingReason.SUCCEEDED)
    others = facts.condition(Type.ONBOARDING) is None  # onboarded by other means
    noted = facts.condition(Type.HYPERVISOR_DISABLED)
    disabled = noted is not None and noted.status == "True"
    if not (in_service or others or disabled):
        return None
    # What was disabled until now by us, or by the HA service, is over, as is what is not noted.
    ends = noted is None or (disabled and noted.reason != _Why.BY_OTHERS)
    return DesiredService(True, yields=not ends)


def _is_held_by_ha(facts: LifecycleFacts, ha: HaMode) -> bool:
    """Whether the host counts as dead: the HA service takes it back before it is enabled."""
    record = facts.hypervisor.fencing
    return ha is HaMode.INTERNAL and record is not None and is_declared_dead(record)


def _is_false_for(facts: LifecycleFacts, type_: str, reasons: Collection[str]) -> str:
    """Return the reason of a False condition, if it is one of `reasons`; else ""."""
    found = facts.condition(type_)
    why = found.reason if found is not None and found.status == "False" else ""
    return why if why in reasons else ""


def differs(host: Host, wanted: DesiredService) -> bool:
    """Whether the compute service has to be changed."""
    if not wanted.enabled:
        if host.enabled:
            return True
        yields = wanted.yields and not _is_ours(host)
        return host.disabled_reason != wanted.reason and not yields
    if host.disabled_reason.startswith(_BY_NOVA) and not host.forced_down:
        return False
    if wanted.yields and not _is_ours(host):
        return False
    return not host.enabled or host.forced_down


def _is_ours(host: Host) -> bool:
    """Whether the host was disabled by this operator, or by the existing one."""
    return not host.enabled and _OURS.fullmatch(host.disabled_reason) is not None


class ServiceSync:
    """The shell around the rules."""

    name = NAME
    reads = Reads(
        conditions=frozenset({Type.NODE_HEALTHY, Type.NETWORK_HEALTHY, Type.ACCEPTS_NEW_INSTANCES}),
        fields=frozenset({"spec.maintenance"}),
        annotations=frozenset({RECORD}),
    )

    def __init__(self, hosts: Hosts, evictions: Evictions, ha: HaMode) -> None:
        self._hosts, self._evictions, self._ha = hosts, evictions, ha

    async def run(self, facts: LifecycleFacts) -> StepOutcome:
        name = facts.hypervisor.metadata.name
        wanted = desired(facts, keeps_disabled(self._evictions.of(name)), self._ha)
        if wanted is None or facts.host is None:
            return StepOutcome(facts)
        host = facts.host
        if not differs(host, wanted):
            return StepOutcome(_set(facts, host))
        if wanted.enabled and not (host.up or host.forced_down):
            return StepOutcome(_waiting(facts, host), POLL)
        try:
            after = await self._apply(host, wanted)
        except ComputeError as error:
            return _failed(facts, host, wanted, error)
        return StepOutcome(_set(replace(facts, host=after), after))

    async def _apply(self, host: Host, wanted: DesiredService) -> Host:
        if wanted.enabled:
            log.info("enabling_host", host=host.name, was=host.disabled_reason)
            await self._hosts.enable(host)
            return replace(host, enabled=True, disabled_reason="", forced_down=False)
        log.info("disabling_host", host=host.name, reason=wanted.reason)
        await self._hosts.disable(host, wanted.reason)
        return replace(host, enabled=False, disabled_reason=wanted.reason)


def _set(facts: LifecycleFacts, host: Host) -> LifecycleFacts:
    status, reason, text = _state(host)
    return facts.with_condition(Type.HYPERVISOR_DISABLED, status, reason, text)


def _waiting(facts: LifecycleFacts, host: Host) -> LifecycleFacts:
    text = (
        f"Hypervisor is disabled: {host.disabled_reason or 'without a reason'}; waiting for its "
        "compute service to report, then it is enabled"
    )
    return facts.with_condition(Type.HYPERVISOR_DISABLED, "True", _Why.SUCCEEDED, text)


def _state(host: Host) -> tuple[str, DisabledReason, str]:
    if host.enabled and not host.forced_down:
        return "False", _Why.SUCCEEDED, "Hypervisor is enabled"
    if _is_ours(host):
        return "True", _Why.SUCCEEDED, f"Hypervisor is disabled: {host.disabled_reason}"
    what = "disabled" if not host.enabled else "forced down"
    why = host.disabled_reason or "without a reason"
    text = f"Hypervisor is {what} outside hypercobalt; not managed: {why}"
    return "True", _Why.BY_OTHERS, text


def _failed(
    facts: LifecycleFacts, host: Host, wanted: DesiredService, error: HypercobaltError
) -> StepOutcome:
    """Keep the condition at the host's actual state; an eviction waits for it."""
    text = f"Cannot {'enable' if wanted.enabled else 'disable'} the host: {error}"
    status = "False" if host.enabled else "True"
    after = facts.with_condition(Type.HYPERVISOR_DISABLED, status, _Why.FAILED, text)
    return StepOutcome(after, PATIENCE, error)
