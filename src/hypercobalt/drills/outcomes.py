"""Expected outcomes of hosts that fail, and of those that do not."""

from __future__ import annotations

from collections.abc import Sequence

from hypercobalt.api.conditions import is_true
from hypercobalt.api.fencing import FencingPhase
from hypercobalt.api.hypervisor import Hypervisor, is_fenced
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.drills.record import DrillError
from hypercobalt.drills.stage import Stage, is_ready

RECOVERY = 180.0
"""Seconds until instances run elsewhere: silence of the Lease (16), peers, fencing, boot."""
_BACK = 180.0


def is_tried(hypervisor: Hypervisor) -> bool:
    """Whether a fence device was called, whatever came of it."""
    fencing = hypervisor.status.fencing
    return fencing is not None and bool(fencing.attempts)


def is_back(hypervisor: Hypervisor) -> bool:
    """Whether the host is in service again, with nothing left of the failure."""
    fencing = hypervisor.status.fencing
    released = fencing is None or fencing.phase == FencingPhase.RELEASED
    return released and is_ready(hypervisor) and not hypervisor.spec.maintenance


def is_blocked_by_gates(hypervisor: Hypervisor) -> bool:
    return is_true(hypervisor.conditions, HypervisorConditionType.RECOVERY_BLOCKED)


def accepts(hypervisor: Hypervisor) -> bool:
    """Whether new instances may be placed there."""
    return is_true(hypervisor.conditions, HypervisorConditionType.ACCEPTS_NEW_INSTANCES)


async def recovered(stage: Stage, name: str, vms: Sequence[str], began: float) -> None:
    """The host is fenced, and its instances run elsewhere."""
    await stage.becomes(name, "fenced, with a proof", is_fenced, within=RECOVERY)
    stage.record.measure("failure_to_fenced", began)
    await stage.runs(vms, elsewhere=name, within=RECOVERY)
    stage.record.measure("failure_to_running", began)
    await stage.write(*vms)


async def all_in_service(stage: Stage, *, within: float = _BACK) -> None:
    """Every host is in service, with nothing left of a failure."""
    for host in stage.lab.hosts:
        await stage.becomes(host.name, "in service", is_back, within=within)


async def none_fenced(stage: Stage) -> None:
    """No host was fenced."""
    for host in stage.lab.hosts:
        if fencing := (await stage.hypervisor(host.name)).status.fencing:
            raise DrillError(f"{host.name} was fenced: {fencing.evidence}")
