"""`HypervisorDisabled`: whether new servers are placed on the host, as Nova has it.

It is compared with Nova, so a service that somebody else has enabled or disabled is put right, and
its reason follows the mode of maintenance. Left alone are: a host that is being onboarded, one in
maintenance `ha` (the HA service fences it), and one that nova-compute has disabled itself because
it lost libvirt (it enables itself again, and would not know that we did).

Source: openstack-hypervisor-operator, internal/controller/hypervisor_maintenance_controller.go;
nova, virt/libvirt/driver.py, _set_host_enabled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from hypercobalt.api.eviction import Eviction
from hypercobalt.api.hypervisor import Maintenance
from hypercobalt.api.hypervisor_conditions import OnboardingReason, SyncReason
from hypercobalt.compute.errors import ConflictError, RefusedError, UnreachableError
from hypercobalt.compute.model import Host
from hypercobalt.compute.port import Hosts
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.operator.lifecycle.evicting import EMPTYING, Evictions, keeps_disabled
from hypercobalt.operator.lifecycle.step import PATIENCE, Facts, Outcome, Type, is_onboarding

log = get_logger(__name__)

NAME: Final = "HypervisorMaintenance"
_BY_NOVA: Final = "AUTO: "  # nova's DISABLE_PREFIX


@dataclass(frozen=True, slots=True)
class Wish:
    """What the compute service should say of the host.

    Args:
        enabled: new servers are placed there.
        reason: why not.
    """

    enabled: bool
    reason: str = ""


def wish(facts: Facts, eviction: Eviction | None) -> Wish | None:
    """Say what should be; None leaves the host as it is.

    Args:
        facts: of the pass.
        eviction: one that empties the host without a maintenance, if there is one.
    """
    mode = facts.hypervisor.spec.maintenance or Maintenance.NONE
    if facts.host is None or is_onboarding(facts) or mode == Maintenance.HA:
        return None
    if mode in EMPTYING:
        return Wish(False, f"Hypervisor CRD: spec.maintenance={mode}")
    if eviction is not None:
        return Wish(False, f"Eviction {eviction.metadata.name}: {eviction.spec.reason}")
    in_service = facts.holds(Type.ONBOARDING, "False", OnboardingReason.SUCCEEDED)
    disabled_by_us = facts.holds(Type.HYPERVISOR_DISABLED, "True")
    return Wish(True) if in_service or disabled_by_us else None


def differs(host: Host, wanted: Wish) -> bool:
    """Whether the compute service has to be told."""
    if not wanted.enabled:
        return host.enabled or host.disabled_reason != wanted.reason
    if host.disabled_reason.startswith(_BY_NOVA) and not host.forced_down:
        return False
    return not host.enabled or host.forced_down


class ServiceSync:
    """The shell around the rules."""

    name = NAME

    def __init__(self, hosts: Hosts, evictions: Evictions) -> None:
        self._hosts, self._evictions = hosts, evictions

    async def run(self, facts: Facts) -> Outcome:
        name = facts.hypervisor.metadata.name
        wanted = wish(facts, keeps_disabled(self._evictions.of(name)))
        if wanted is None or facts.host is None:
            return Outcome(facts)
        host = facts.host
        if not differs(host, wanted):
            return Outcome(_say(facts, host))
        try:
            after = await self._tell(host, wanted)
        except (UnreachableError, RefusedError, ConflictError) as error:
            return _failed(facts, host, wanted, error)
        return Outcome(_say(replace(facts, host=after), after))

    async def _tell(self, host: Host, wanted: Wish) -> Host:
        if wanted.enabled:
            log.info("enabling_host", host=host.name, was=host.disabled_reason)
            await self._hosts.enable(host)
            return replace(host, enabled=True, disabled_reason="", forced_down=False)
        log.info("disabling_host", host=host.name, reason=wanted.reason)
        await self._hosts.disable(host, wanted.reason)
        return replace(host, enabled=False, disabled_reason=wanted.reason)


def _say(facts: Facts, host: Host) -> Facts:
    if host.enabled:
        text, status = "Hypervisor is enabled", "False"
    else:
        text, status = f"Hypervisor is disabled: {host.disabled_reason}", "True"
    return facts.say(Type.HYPERVISOR_DISABLED, status, SyncReason.SUCCEEDED, text)


def _failed(facts: Facts, host: Host, wanted: Wish, error: HypercobaltError) -> Outcome:
    """The condition keeps to what is so; an eviction waits for it."""
    text = f"Cannot {'enable' if wanted.enabled else 'disable'} the host: {error}"
    status = "False" if host.enabled else "True"
    said = facts.say(Type.HYPERVISOR_DISABLED, status, SyncReason.FAILED, text)
    return Outcome(said, PATIENCE, error)
