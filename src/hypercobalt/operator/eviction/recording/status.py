"""The status of an Eviction: from the facts and the plan of a pass. Pure.

Conditions, reasons and the fields that upstream has mean what they do there, with one difference:
an Eviction that leaves an instance behind ends as Failed, and names it.

Source: openstack-hypervisor-operator, internal/controller/eviction_controller.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from hypercobalt.api.conditions import Condition, get_condition, set_condition
from hypercobalt.api.eviction import (
    EVICTION_REASONS,
    MOST_GUESTS,
    UNDER_WAY,
    ClaimedReason,
    EvictionConditionType,
    EvictionInstance,
    EvictionMode,
    EvictionProgress,
    EvictionReason,
    EvictionStatus,
    InstancePhase,
    evicting,
    has_begun,
    has_ended,
)
from hypercobalt.api.hypervisor import is_fenced
from hypercobalt.compute.model import Move, Server
from hypercobalt.operator.eviction.assessing.case import CLOCK_SKEW
from hypercobalt.operator.eviction.assessing.movability import REBUILDING
from hypercobalt.operator.eviction.model.claims import Claim, claims
from hypercobalt.operator.eviction.model.decision import EvictionPlan, Preflight
from hypercobalt.operator.eviction.model.facts import Facts
from hypercobalt.operator.eviction.model.policy import Order
from hypercobalt.operator.eviction.model.states import Assessment, Moment, Stranded, phase_of
from hypercobalt.operator.eviction.planning.starts import in_order
from hypercobalt.operator.shared.guests import waiting_text
from hypercobalt.operator.shared.wording import called, count, incoming_moves

_Type, _Reason = EvictionConditionType, EvictionReason

WRITE_APART: Final = timedelta(seconds=1)
"""Interval of writes of progress: people look no more often."""

WRITE_TEXTS_APART: Final = timedelta(seconds=10)
"""Interval of writes that change only words and the estimate."""

_ENDED: Final = frozenset({InstancePhase.SUCCEEDED, InstancePhase.FAILED})
_LEFT: Final = frozenset({InstancePhase.SUCCEEDED, InstancePhase.SKIPPED})
_NAMED: Final = 20  # instances in the message of one condition
_CLAIMS: Final = 5  # claims in a message; each has up to 800 characters


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


def status_of(
    facts: Facts, plan: EvictionPlan, order: Order, seconds_left: float | None
) -> EvictionStatus:
    """Make the status.

    Args:
        facts: of the pass; its status is the one before.
        plan: with the instances as they are after the calls.
        order: which instances go first.
        seconds_left: as estimated.
    """
    before, moment = with_guests(facts), facts.moment
    conditions = Conditions(before.conditions, facts.eviction.metadata.generation, moment.now)
    if plan.instances is not None or plan.wait is not None or plan.end is not None:
        stored = evicting(facts.eviction.status)
        reason = plan.end.reason if plan.end is not None else _Reason.RUNNING
        EVICTION_REASONS.check(stored.reason if stored else None, reason)
    if plan.instances is None:
        if plan.wait is not None:
            conditions.evicting("True", _Reason.RUNNING, plan.wait.message)
            if plan.wait.obstacle and not has_begun(before):
                conditions.preflight("False", _Reason.FAILED, plan.wait.obstacle)
        elif plan.end is not None:
            conditions.evicting("False", plan.end.reason, plan.end.message)
            if plan.end.reason == _Reason.FAILED:
                conditions.preflight("False", _Reason.FAILED, plan.end.message)
        return replace(before, conditions=conditions.value)
    status = with_instances(before, plan.instances, order, moment.now)
    status = with_progress(status, seconds_left, moment)
    if plan.checks is not None:
        set_preflight(conditions, plan.checks)
        set_migrating(conditions, status)
        status = replace(status, checks=plan.checks.checks)
    made = facts.eviction.metadata.creationTimestamp or moment.now
    set_claimed(conditions, claims(facts.moves, made - CLOCK_SKEW, facts.source), status)
    guests = waiting_text(facts.guests, facts.source, dead=_is_dead(facts))
    if plan.end is None:
        also = "; ".join(filter(None, (_unseen(facts, status), guests)))
        set_running(conditions, status, facts.source, facts.incoming, also)
    else:
        text = plan.end.message or ended_text(status, facts.source, guests)
        conditions.evicting("False", plan.end.reason, text)
    if facts.host is not None:
        # The hypervisor's UUID, in the field that upstream puts it into.
        status = replace(status, hypervisorServiceId=facts.host.hypervisor_id or None)
    return replace(status, conditions=conditions.value)


def _unseen(facts: Facts, status: EvictionStatus) -> str:
    """Return what has left and is not seen to be well where it is; "" for nothing."""
    if not facts.left:
        return ""
    unseen = [e for e in status.instances if e.phase == InstancePhase.CONFIRMING]
    return f"waiting to see {count(len(unseen))} run: {listed(unseen)}" if unseen else ""


def _is_dead(facts: Facts) -> bool:
    return facts.hypervisor is not None and is_fenced(facts.hypervisor)


def with_guests(facts: Facts) -> EvictionStatus:
    """Return the status before with the guests that are waited for now.

    Those of an Eviction that has ended stay: it names what it has left behind.
    """
    if facts.is_deleted or has_ended(facts.eviction.status) or not facts.looked:
        return facts.status
    return replace(facts.status, virtualMachineInstances=facts.guests.names[:MOST_GUESTS])


def entry_of(instance: Assessment, now: datetime) -> EvictionInstance:
    """Return the entry of one instance."""
    old, move, server = instance.observed.entry, instance.move, instance.server
    phase, target = phase_of(instance.state), old.target
    if move is not None and move.target and (move.succeeded or not move.ended):
        target = move.target
    started = old.startedAt
    if started is None and (instance.attempts or phase in UNDER_WAY):
        started = now.replace(microsecond=0)
    finished = old.finishedAt if old.phase == phase else None
    if phase in _ENDED and finished is None:
        finished = now.replace(microsecond=0)
    return EvictionInstance(
        id=old.id,
        name=(server.name if server else None) or old.name,
        phase=phase,
        mode=(instance.mode or old.mode) if instance.attempts or old.mode else None,
        ran=_ran(instance),
        target=target,
        attempts=instance.attempts or None,
        startedAt=started,
        finishedAt=finished,
        message=instance.state.message or None,
    )


def _ran(instance: Assessment) -> bool | None:
    """Whether the instance ran when it was last seen, or would have but for a crash.

    A crash of the instance or its host does not count: an evacuation starts such an instance again.
    Once that has begun, the state is not read: Nova starts one that was stopped, and stops it
    again, while it still has it on its old host (nova/compute/manager.py, `_do_rebuild_instance`).
    """
    old, server = instance.observed.entry, instance.server
    ran, begun = old.ran, old.mode is EvictionMode.EVACUATE and old.startedAt is not None
    if server is None or begun or server.task_state in REBUILDING:
        return ran
    if server.died:
        return True if instance.mode is EvictionMode.EVACUATE or instance.observed.ran else ran
    return True if server.running else None


def with_instances(
    status: EvictionStatus, instances: Sequence[Assessment], order: Order, now: datetime
) -> EvictionStatus:
    """Return the status with how far each instance is."""
    failed = [instance.id for instance in instances if isinstance(instance.state, Stranded)]
    waiting = [server.id for server in reversed(pending(instances, order))]
    there = {*failed, *waiting}
    under_way = [
        instance.id for instance in instances if instance.is_open and instance.id not in there
    ]
    left = there | {*under_way}
    return replace(
        status,
        instances=tuple(entry_of(instance, now) for instance in instances),
        outstandingInstances=(*failed, *waiting, *under_way),
        outstandingRamMb=sum(
            instance.server.size.memory_mib
            for instance in instances
            if instance.server and instance.id in left
        ),
    )


def pending(instances: Iterable[Assessment], order: Order) -> list[Server]:
    """Return the servers that have not begun to leave, in their order."""
    waiting = (
        instance for instance in instances if phase_of(instance.state) is InstancePhase.PENDING
    )
    return in_order((instance.server for instance in waiting if instance.server is not None), order)


def with_progress(
    status: EvictionStatus, seconds_left: float | None, moment: Moment
) -> EvictionStatus:
    """Return the status with how far the whole Eviction is."""
    phases = [entry.phase for entry in status.instances if entry.phase != InstancePhase.SKIPPED]
    total, done = len(phases), phases.count(InstancePhase.SUCCEEDED)
    expected: datetime | None = None
    if seconds_left is not None and any(phase not in _ENDED for phase in phases):
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


def set_preflight(conditions: Conditions, checks: Preflight) -> None:
    """Set `Preflight` by the results of the checks."""
    if checks.obstacles:
        conditions.preflight("False", _Reason.FAILED, "; ".join(checks.obstacles))
    else:
        doubts = f", with warnings: {'; '.join(checks.doubts)}" if checks.doubts else ""
        conditions.preflight("True", _Reason.SUCCEEDED, f"Preflight checks passed{doubts}")


def set_migrating(conditions: Conditions, status: EvictionStatus) -> None:
    """Set the condition by the instances' outcome: by a failed one as long as there is one."""
    failed = [e for e in status.instances if e.phase == InstancePhase.FAILED]
    if failed:
        conditions.set(_Type.MIGRATING_INSTANCE, "False", _Reason.FAILED, listed(failed))
        return
    done = [e for e in status.instances if e.phase == InstancePhase.SUCCEEDED]
    if done:
        last = max(done, key=lambda entry: (entry.finishedAt or conditions.now, entry.id))
        text = f"Instance {last.id} finished: {last.message or 'has left'}"
        conditions.set(_Type.MIGRATING_INSTANCE, "False", _Reason.SUCCEEDED, text)


def set_claimed(conditions: Conditions, found: Sequence[Claim], status: EvictionStatus) -> None:
    """Set whether other hosts have something of instances, so that these stay where they are.

    Without OpenStack attempts are not known after a restart of the operator: the condition stays
    until there is another one, or nothing is left on the host.
    """
    left = {e.id for e in status.instances if e.phase in _LEFT}
    open_ = [one for one in found if one.server not in left]
    before = get_condition(conditions.value, _Type.INSTANCE_CLAIMED)
    if open_:
        texts = [one.text for one in open_[:_CLAIMS]]
        more = len(open_) - len(texts)
        text = "; ".join([*texts, *([f"and {more} more"] if more else [])])
        conditions.set(_Type.INSTANCE_CLAIMED, "True", ClaimedReason.CLAIMED, text)
    elif before is not None and (found or all(e.id in left for e in status.instances)):
        text = "No instance is claimed by another host any more"
        conditions.set(_Type.INSTANCE_CLAIMED, "False", ClaimedReason.SETTLED, text)


def set_running(
    conditions: Conditions,
    status: EvictionStatus,
    host: str,
    incoming: Sequence[Move] = (),
    also: str = "",
) -> None:
    """Set `Evicting` by the progress, with what it waits for."""
    phases = [entry.phase for entry in status.instances]
    done, moving = phases.count(InstancePhase.SUCCEEDED), phases.count(InstancePhase.MIGRATING)
    total = len(phases) - phases.count(InstancePhase.SKIPPED)
    text = f"Running: {done} of {count(total)} have left {host}, {moving} migrating"
    if restarts := sum(entry.mode == EvictionMode.RESTART for entry in status.instances):
        text = f"Running: {done} of {count(total)} run again or have left {host}"
        text += f", {phases.count(InstancePhase.RESTARTING)} of {restarts} restarting"
    elif evacuating := phases.count(InstancePhase.EVACUATING):
        text += f", {evacuating} evacuating"
    if incoming:
        text += f"; waiting for {incoming_moves(incoming)}"
    if also:
        text += f"; {also}"
    conditions.evicting("True", _Reason.RUNNING, text)


def ended_text(status: EvictionStatus, host: str, guests: str = "") -> str:
    """Return how the Eviction ended, when nothing is left to do.

    Args:
        status: with the instances.
        host: that was emptied.
        guests: what is said of those that are left there; "" for none.
    """
    failed = [e for e in status.instances if e.phase == InstancePhase.FAILED]
    done = [e for e in status.instances if e.phase == InstancePhase.SUCCEEDED]
    again = sum(e.mode == EvictionMode.RESTART and not e.target for e in done)
    left = len(done) - again
    restarted = f"{count(again)} restarted on {host}" if again else ""
    if not failed:
        parts = [f"{count(left)} left {host}" if left or not again else "", restarted]
        return f"eviction completed successfully: {', '.join(filter(None, parts))}"
    what = "restarted on" if _only_restarts(failed) else "moved away from"
    return (
        f"eviction failed: {count(len(failed))} could not be {what} {host}, "
        f"{left} moved{f', {restarted}' if restarted else ''}: {listed(failed)}"
        f"{f'; {guests}' if guests else ''}"
    )


def _only_restarts(entries: Iterable[EvictionInstance]) -> bool:
    return all(entry.mode == EvictionMode.RESTART for entry in entries)


def listed(entries: Sequence[EvictionInstance]) -> str:
    """Return a text of instances, each with its message or phase."""
    texts = [f"{called(entry)}: {entry.message or entry.phase}" for entry in entries[:_NAMED]]
    more = len(entries) - len(texts)
    return "; ".join([*texts, *([f"and {more} more"] if more else [])])


def write_after(written: EvictionStatus, now: EvictionStatus, since: float) -> timedelta | None:
    """Return how long a write may wait; zero for not at all; None when there is nothing to write.

    Args:
        written: the status as the API has it.
        now: as it should be.
        since: seconds since this process wrote last.
    """
    if written == now:
        return None
    if _marks(written) != _marks(now):
        return timedelta(0)
    moved = _phases(written) != _phases(now)
    apart = WRITE_APART if moved else WRITE_TEXTS_APART
    return timedelta(seconds=max(apart.total_seconds() - since, 0))


def _marks(status: EvictionStatus) -> list[tuple[str, str, str]]:
    """Return what programs wait for; of the running state the reason, not its words."""
    return [(c.type, c.status, c.reason) for c in status.conditions]


def _phases(status: EvictionStatus) -> list[tuple[str, str | None, str | None]]:
    return [(entry.id, entry.phase, entry.target) for entry in status.instances]
