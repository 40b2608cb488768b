"""An Eviction that is deleted: what it has begun is stopped before it goes.

Live moves are aborted. Cold ones come to their end and are confirmed: nobody else would, so the
object is kept for as long as that may take. A server that an abort leaves in ERROR, though it runs,
is taken out of it. Whether the host takes new instances again is not decided here: the maintenance
controller does that by `spec.maintenance`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace as with_fields

from hypercobalt.api.eviction import (
    Eviction,
    EvictionInstance,
    EvictionReason,
    EvictionStatus,
    InstancePhase,
    has_ended,
)
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.compute.errors import ConflictError, RefusedError, UnreachableError
from hypercobalt.compute.model import MoveKind
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.operator.eviction import status as texts
from hypercobalt.operator.eviction.entries import standings
from hypercobalt.operator.eviction.follow import Moment, Standing, Step
from hypercobalt.operator.eviction.observer import Observer
from hypercobalt.operator.eviction.policy import Order, Policy
from hypercobalt.operator.node_facts import host_names
from hypercobalt.runtime import Cache, Clock, Kube, Recorder, Result
from hypercobalt.runtime.finalizer import Finalizer
from hypercobalt.runtime.write_cache import WriteCache

log = get_logger(__name__)

POLL: Final = timedelta(milliseconds=500)
"""An aborted migration ends within a second or so, and somebody waits."""

LONGEST: Final = timedelta(minutes=2)
"""An object must not stay for ever because a live move does not end; it is said which. A cold one
may take as long as any move that tells nothing of its progress (`Policy.longest`)."""

_SHARE: Final = 0.1  # of the time that it has waited may pass before it looks again
_SLOWEST: Final = timedelta(seconds=5)
_NAMED: Final = 20  # instances in one message
_UNDER_WAY: Final = {InstancePhase.MIGRATING, InstancePhase.CONFIRMING}


@dataclass(frozen=True, slots=True)
class Cancellation:
    """What a deleted Eviction still has to do.

    Args:
        steps: instances, each with what to do about it.
        left: instances whose moves have not ended.
    """

    steps: tuple[Standing, ...]
    left: tuple[Standing, ...]


@dataclass(frozen=True, slots=True)
class Left:
    """What may be under way yet.

    Args:
        entries: of those instances; none: it is not known which.
        limit: how long that is waited for.
    """

    entries: tuple[EvictionInstance, ...]
    limit: timedelta


def decide(found: Sequence[Standing]) -> Cancellation:
    """Choose what is stopped and what is seen to its end.

    Moves that began before the Eviction was made are others'.
    """
    steps: list[Standing] = []
    left: list[Standing] = []
    for standing in found:
        move = standing.seen.move
        if standing.phase is InstancePhase.CONFIRMING or standing.step is Step.RECOVER:
            steps.append(standing)
            left.append(standing)
        elif standing.occupies and standing.attempts:
            left.append(standing)
            if move is not None and not move.ended and move.kind == MoveKind.LIVE:
                steps.append(replace(standing, step=Step.ABORT))
    return Cancellation(tuple(steps), tuple(left))


def cancelled(
    eviction: Eviction, found: Sequence[Standing], left: Sequence[Standing], now: datetime
) -> EvictionStatus:
    """The status of a deleted Eviction."""
    over = [
        replace(standing, phase=InstancePhase.SKIPPED, message="the Eviction was cancelled")
        if standing.phase is InstancePhase.PENDING
        else standing
        for standing in found
    ]
    status = texts.with_instances(eviction.status, over, Order.LARGEST, now)
    status = texts.with_progress(status, None, Moment(now, 0))
    done = sum(standing.phase is InstancePhase.SUCCEEDED for standing in over)
    text = f"cancelled: the Eviction was deleted when {texts.count(done)} had left"
    if left:
        names = ", ".join(texts.called(standing.seen.entry) for standing in left[:_NAMED])
        text += f"; {texts.count(len(left), 'move')} under way: {names}"
    conditions = texts.Conditions(eviction.status.conditions, eviction.metadata.generation, now)
    conditions.evicting("False", EvictionReason.CANCELLED, text)
    return with_fields(status, conditions=conditions.value)


def late(left: Left) -> str:
    """What is let go, and what is to be done about it: the object is gone then."""
    if not left.entries:
        return "gave up waiting: migrations may still run, their state cannot be read"
    names = ", ".join(texts.called(entry) for entry in left.entries[:_NAMED])
    more = ", …" if len(left.entries) > _NAMED else ""
    text = (
        f"gave up waiting: {texts.count(len(left.entries), 'move')} may still run, of {names}{more}"
    )
    if left.limit > LONGEST:
        text += "; one that ends in VERIFY_RESIZE: openstack server resize confirm ID"
    return text


class Cancelling:
    """The shell around `decide`."""

    def __init__(
        self,
        kube: Kube,
        evictions: WriteCache[Eviction],
        hypervisors: Cache[Hypervisor],
        observer: Observer,
        policy: Policy,
        *,
        finalizer: Finalizer[Eviction],
        clock: Clock,
        events: Recorder,
    ) -> None:
        self._kube, self._evictions, self._clock = kube, evictions, clock
        self._finalizer = finalizer
        self._hypervisors = hypervisors
        self._observer, self._policy, self._events = observer, policy, events

    async def step(self, eviction: Eviction) -> Result:
        """Stop what is under way; once nothing is, let the object go."""
        if not self._finalizer.is_on(eviction):
            return Result()
        over = has_ended(eviction.status) and not _is_cancelled(eviction.status)
        try:
            left = None if over else await self._stop(eviction)
        except (UnreachableError, RefusedError, ConflictError) as error:
            log.warning("cancel_waits", eviction=eviction.metadata.name, error=str(error))
            noted = tuple(e for e in eviction.status.instances if e.phase in _UNDER_WAY)
            # Which of them are cold is not noted.
            left = Left(noted, self._policy.longest if noted else LONGEST)
            await self._tell(eviction, left, error)
        waited = self._waited(eviction)
        if left is not None and waited <= left.limit:
            return Result(min(max(POLL, waited * _SHARE), _SLOWEST))
        newest = self._evictions.get(eviction.metadata.name) or eviction
        if left is not None:
            text = late(left)
            log.warning("cancelled_late", eviction=eviction.metadata.name, text=text)
            self._events.record(eviction, "Warning", "CancelledLate", text, action="Evicting")
        await self._finalizer.remove(newest)
        return Result()

    async def _stop(self, eviction: Eviction) -> Left | None:
        """Take one step towards the end; gives what is left.

        Raises:
            UnreachableError: nothing is known of it.
        """
        name = eviction.spec.hypervisor
        hypervisor = self._hypervisors.get(name)
        host = await self._observer.host(*(host_names(hypervisor) if hypervisor else (name,)))
        if host is None and any(e.phase in _UNDER_WAY for e in eviction.status.instances):
            raise UnreachableError(f"{self._observer.name} knows no host {name}")
        if host is None:
            return None
        found = await self._observer.found(host.name)
        moment = Moment(self._clock.now(), self._clock.monotonic())
        now = standings(
            eviction,
            eviction.status,
            found.servers,
            found.moves,
            jobs={},
            tracks={},
            policy=self._policy,
            moment=moment,
        )
        plan = decide(now)
        first = not _is_cancelled(eviction.status)
        status = cancelled(eviction, now, plan.left, moment.now)
        if first or not plan.left:
            written = await self._kube.patch_status(eviction, status)
            self._evictions.wrote(written)
        if first:
            text = status.conditions[-1].message
            for condition in status.conditions:
                text = condition.message if condition.type == "Evicting" else text
            self._events.record(eviction, "Normal", "EvictionCancelled", text, action="Evicting")
        done = await self._observer.take(plan.steps)
        left = [one for one in plan.left if one.id not in done or not done[one.id].lost]
        if not left:
            return None
        limit = self._policy.longest if any(map(_is_cold, left)) else LONGEST
        return Left(tuple(one.seen.entry for one in left), limit)

    async def _tell(self, eviction: Eviction, left: Left, error: HypercobaltError) -> None:
        """Say, once, why it is still there."""
        stored = eviction.status
        if has_ended(stored):
            return
        now, generation = self._clock.now(), eviction.metadata.generation
        conditions = texts.Conditions(stored.conditions, generation, now)
        latest = now - self._waited(eviction) + left.limit
        text = f"deleted; waits to stop what it began, at most until {latest:%H:%M:%SZ}: {error}"
        conditions.evicting("True", EvictionReason.RUNNING, text)
        if conditions.value != stored.conditions:
            status = with_fields(stored, conditions=conditions.value)
            self._evictions.wrote(await self._kube.patch_status(eviction, status))

    def _waited(self, eviction: Eviction) -> timedelta:
        asked = eviction.metadata.deletionTimestamp
        return max(self._clock.now() - asked, timedelta(0)) if asked else timedelta(0)


def _is_cold(standing: Standing) -> bool:
    move = standing.seen.move
    return move is not None and move.kind != MoveKind.LIVE


def _is_cancelled(status: EvictionStatus) -> bool:
    return any(
        c.type == "Evicting" and c.reason == EvictionReason.CANCELLED for c in status.conditions
    )
