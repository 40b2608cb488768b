"""What the status of an Eviction says. Pure.

Conditions, reasons and the fields that upstream has mean what they do there, with one difference:
an Eviction that leaves an instance behind ends as Failed, and says which.

Source: openstack-hypervisor-operator, internal/controller/eviction_controller.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from hypercobalt.api.conditions import Condition, get_condition, set_condition
from hypercobalt.api.eviction import (
    EvictionConditionType,
    EvictionInstance,
    EvictionProgress,
    EvictionReason,
    EvictionStatus,
    InstancePhase,
)
from hypercobalt.compute.model import Host, Server
from hypercobalt.operator.eviction.follow import Moment, Standing
from hypercobalt.operator.eviction.plan import in_order
from hypercobalt.operator.eviction.policy import Order
from hypercobalt.operator.eviction.preflight import Preflight

OPEN: Final = frozenset({InstancePhase.PENDING, InstancePhase.MIGRATING, InstancePhase.CONFIRMING})
"""Phases that another one follows."""

_ENDED: Final = frozenset({InstancePhase.SUCCEEDED, InstancePhase.FAILED})
_NAMED: Final = 20  # instances in the message of one condition

_Type, _Reason = EvictionConditionType, EvictionReason


def count(number: int, what: str = "instance") -> str:
    """`1 instance`, `2 instances`."""
    return f"{number} {what}" + ("" if number == 1 else "s")


def called(entry: EvictionInstance) -> str:
    """What people call an instance."""
    return f"{entry.name} ({entry.id})" if entry.name else entry.id


class Conditions:
    """The conditions of an Eviction, being set."""

    def __init__(self, stored: tuple[Condition, ...], generation: int, now: datetime) -> None:
        self.now, self._generation, self.value = now, generation, stored

    def set(self, type_: str, status: str, reason: str, message: str) -> None:
        self.value = set_condition(
            self.value,
            type_,
            status,
            reason,
            message,
            now=self.now,
            observed_generation=self._generation,
        )

    def evicting(self, status: str, reason: str, message: str) -> None:
        """Set whether the Eviction is under way, and how it ended."""
        self.set(_Type.EVICTING, status, reason, message)

    def preflight(self, status: str, reason: str, message: str) -> None:
        """Set whether moves may begin."""
        self.set(_Type.PREFLIGHT_CHECKS_SUCCEEDED, status, reason, message)


def entry_of(standing: Standing, now: datetime) -> EvictionInstance:
    """The entry of one instance."""
    old, move, server = standing.seen.entry, standing.seen.move, standing.seen.server
    phase = standing.phase
    target = old.target
    if move is not None and move.target and (move.succeeded or not move.ended):
        target = move.target
    started = old.startedAt
    if started is None and (standing.attempts or phase is InstancePhase.MIGRATING):
        started = now.replace(microsecond=0)
    finished = old.finishedAt if old.phase == phase else None
    if phase in _ENDED and finished is None:
        finished = now.replace(microsecond=0)
    return EvictionInstance(
        id=old.id,
        name=(server.name if server else None) or old.name,
        phase=phase,
        target=target,
        attempts=standing.attempts or None,
        startedAt=started,
        finishedAt=finished,
        message=standing.message or None,
    )


def with_instances(
    status: EvictionStatus, standings: Sequence[Standing], order: Order, now: datetime
) -> EvictionStatus:
    """The status with how far each instance is."""
    there: list[Server] = []
    failed: list[str] = []
    under_way: list[str] = []
    for standing in standings:
        server = standing.seen.server
        if standing.phase is InstancePhase.FAILED:
            failed.append(standing.id)
        elif standing.phase is InstancePhase.PENDING and server is not None:
            there.append(server)
        elif standing.phase in OPEN:
            under_way.append(standing.id)
    waiting = [server.id for server in reversed(in_order(there, order))]
    left = {*failed, *waiting, *under_way}
    return replace(
        status,
        instances=tuple(entry_of(standing, now) for standing in standings),
        outstandingInstances=(*failed, *waiting, *under_way),
        outstandingRamMb=sum(
            s.seen.server.size.memory_mib
            for s in standings
            if s.seen.server is not None and s.id in left
        ),
    )


def with_progress(
    status: EvictionStatus, seconds_left: float | None, moment: Moment
) -> EvictionStatus:
    """The status with how far all of it is."""
    phases = [entry.phase for entry in status.instances if entry.phase != InstancePhase.SKIPPED]
    total, done = len(phases), phases.count(InstancePhase.SUCCEEDED)
    expected: datetime | None = None
    if seconds_left is not None and any(phase in OPEN for phase in phases):
        expected = (moment.now + timedelta(seconds=seconds_left)).replace(microsecond=0)
    return replace(
        status,
        progress=EvictionProgress(
            total=total,
            done=done,
            failed=phases.count(InstancePhase.FAILED),
            percent=100 * done // total if total else 100,
            estimatedCompletion=expected,
        ),
    )


def set_preflight(conditions: Conditions, found: Preflight) -> None:
    """Say what the checks have found."""
    if found.obstacles:
        conditions.preflight("False", _Reason.FAILED, "; ".join(found.obstacles))
    else:
        doubts = f", with doubts: {'; '.join(found.doubts)}" if found.doubts else ""
        conditions.preflight("True", _Reason.SUCCEEDED, f"Preflight checks passed{doubts}")


def set_migrating(conditions: Conditions, status: EvictionStatus) -> None:
    """Say what became of the instances: of a failed one as long as there is one."""
    failed = [e for e in status.instances if e.phase == InstancePhase.FAILED]
    if failed:
        conditions.set(_Type.MIGRATING_INSTANCE, "False", _Reason.FAILED, listed(failed))
        return
    done = [e for e in status.instances if e.phase == InstancePhase.SUCCEEDED and e.finishedAt]
    if done:
        last = max(done, key=lambda entry: (entry.finishedAt or conditions.now, entry.id))
        text = f"Instance {last.id} finished: {last.message or 'has left'}"
        conditions.set(_Type.MIGRATING_INSTANCE, "False", _Reason.SUCCEEDED, text)


def set_running(conditions: Conditions, status: EvictionStatus, host: str) -> None:
    """Say how far it is."""
    phases = [entry.phase for entry in status.instances]
    done, moving = phases.count(InstancePhase.SUCCEEDED), phases.count(InstancePhase.MIGRATING)
    total = len(phases) - phases.count(InstancePhase.SKIPPED)
    text = f"Running: {done} of {count(total)} have left {host}, {moving} on their way"
    conditions.evicting("True", _Reason.RUNNING, text)


def set_ended(conditions: Conditions, status: EvictionStatus, host: str) -> None:
    """Say how it ended, when nothing is left to do."""
    failed = [e for e in status.instances if e.phase == InstancePhase.FAILED]
    done = sum(e.phase == InstancePhase.SUCCEEDED for e in status.instances)
    if failed:
        text = (
            f"eviction failed: {count(len(failed))} could not be moved away from {host}, "
            f"{done} moved: {listed(failed)}"
        )
        conditions.evicting("False", _Reason.FAILED, text)
    else:
        text = f"eviction completed successfully: {count(done)} left {host}"
        conditions.evicting("False", _Reason.SUCCEEDED, text)


def listed(entries: Sequence[EvictionInstance]) -> str:
    """Instances, each with what is to be known of it."""
    texts = [f"{called(entry)}: {entry.message or entry.phase}" for entry in entries[:_NAMED]]
    more = len(entries) - len(texts)
    return "; ".join([*texts, *([f"and {more} more"] if more else [])])


def with_host(status: EvictionStatus, host: Host) -> EvictionStatus:
    """The status with the hypervisor's UUID, in the field that upstream puts it into."""
    return replace(status, hypervisorServiceId=host.hypervisor_id or None)


def has_begun(status: EvictionStatus) -> bool:
    """Whether the checks have passed once, so that moves may be under way."""
    found = get_condition(status.conditions, _Type.PREFLIGHT_CHECKS_SUCCEEDED)
    return found is not None and found.status == "True"
