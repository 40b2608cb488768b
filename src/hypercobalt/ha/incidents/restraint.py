"""Decides whether the host's own Hypervisor forbids reactions to an incident now. Pure.

Telemetry goes on; only reactions are held back. The object must have been read just now.

Reactions that a maintenance holds back follow once the maintenance is over. Reactions that are held
back because high availability is off, or the host is being removed, are never made.

Source: the HA reference, section 9; row 3 of the evidence in section 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from hypercobalt.api.conditions import get_condition, is_true
from hypercobalt.api.ha_switch import switched_off
from hypercobalt.api.hypervisor import Hypervisor, Maintenance, is_emptied_alive, is_shown_fenced
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType, OnboardingReason

FRESH: Final = timedelta(seconds=5)
"""Age above which a Hypervisor that was read decides nothing."""


@dataclass(frozen=True, slots=True)
class Restraint:
    """Reason for holding reactions back.

    Args:
        why: for a person.
        for_good: the reactions are not made later.
    """

    why: str
    for_good: bool = False


def returning(hypervisor: Hypervisor, *, of_this_boot: bool) -> str:
    """Return why reactions wait until the HA service gives the host back; "" when they do not.

    Args:
        hypervisor: the host's.
        of_this_boot: the reaction is to an event since the host booted. Instances that ended with a
            former boot may be evacuated by now.
    """
    if is_shown_fenced(hypervisor):
        return "the host is fenced"
    if hypervisor.spec.maintenance != Maintenance.HA:
        return ""
    if of_this_boot and is_emptied_alive(hypervisor):
        return ""
    return "the HA service is recovering the host"


def restraint(hypervisor: Hypervisor | None) -> Restraint | None:
    """Return what holds reactions back on this host, besides the HA service; None for nothing.

    Args:
        hypervisor: the host's; None when there is none.
    """
    if hypervisor is None:
        return Restraint("the host has no Hypervisor")
    if why := _turned_off(hypervisor):
        return Restraint(why, for_good=True)
    if why := _busy(hypervisor):
        return Restraint(why)
    return None


def _turned_off(hypervisor: Hypervisor) -> str:
    spec = hypervisor.spec
    if hypervisor.metadata.deletionTimestamp:
        return "the Hypervisor is being deleted"
    if spec.lifecycleEnabled is False:
        return "lifecycleEnabled is false"
    if spec.highAvailability is False:
        return "highAvailability is false"
    if why := switched_off(hypervisor):
        return why
    if is_true(hypervisor.status.conditions, HypervisorConditionType.TERMINATING):
        return "the Node is terminating"
    return ""


def _busy(hypervisor: Hypervisor) -> str:
    spec, status = hypervisor.spec, hypervisor.status
    emptied_alive = is_emptied_alive(hypervisor)
    if spec.maintenance and not emptied_alive:
        return f"maintenance: {spec.maintenance}"
    onboarding = get_condition(status.conditions, HypervisorConditionType.ONBOARDING)
    if onboarding is not None and onboarding.reason != OnboardingReason.SUCCEEDED:
        return f"onboarding is not finished: {onboarding.reason}"
    if is_true(status.conditions, HypervisorConditionType.EVICTING) and not emptied_alive:
        return "the host is being evicted"
    if status.updateStatus is not None and status.updateStatus.inProgress:
        return "the operating system is being updated"
    return ""
