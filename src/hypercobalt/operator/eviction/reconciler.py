"""The shell of the Eviction controller: observes, has the rules decide, acts, writes once.

A pass may be the first after a crash: which moves are under way is asked of the compute service
before any is begun. Progress is written about once a second, what programs wait for at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Final

from msgspec.structs import replace as with_fields

from hypercobalt.api.eviction import FINALIZER, Eviction, EvictionReason, EvictionStatus, has_ended
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.compute.errors import ConflictError, RefusedError, UnreachableError
from hypercobalt.compute.model import Host
from hypercobalt.errors import HypercobaltError, TransientError
from hypercobalt.logs import get_logger
from hypercobalt.operator.eviction import decide, preflight
from hypercobalt.operator.eviction import status as texts
from hypercobalt.operator.eviction.cancel import Cancelling
from hypercobalt.operator.eviction.entries import left, standings, unlisted
from hypercobalt.operator.eviction.estimate import fit, seconds_left
from hypercobalt.operator.eviction.follow import Moment, Standing, Step, begun
from hypercobalt.operator.eviction.memory import Memories, Memory
from hypercobalt.operator.eviction.migrations import Migrations
from hypercobalt.operator.eviction.observer import Found, Observer
from hypercobalt.operator.eviction.plan import (
    Going,
    Load,
    Start,
    as_of,
    going,
    in_order,
    needs_rooms,
    places,
    plan,
)
from hypercobalt.operator.eviction.policy import Policy
from hypercobalt.operator.eviction.preflight import Preflight
from hypercobalt.operator.eviction.targets import need
from hypercobalt.operator.node_facts import host_names
from hypercobalt.runtime import Cache, Clock, Kube, Recorder, Result
from hypercobalt.runtime.finalizer import Finalizer
from hypercobalt.runtime.write_cache import WriteCache

log = get_logger(__name__)

NAME: Final = "eviction"

_SERVERS_AGE: Final = 10.0  # seconds; likewise, and instances come and go
_TARGETS_AGE: Final = 60.0  # seconds; a fleet's capacity changes slowly
_AWAY: Final = timedelta(seconds=5)  # between questions while the compute service is away
_HOST_CHECKS: Final = {"HostUp", "HostDisabled"}


class EvictionReconciler:
    """Makes the passes.

    Args:
        kube: writes as this controller.
        evictions: what the controllers share.
        hypervisors: those of this shard.
        migrations: what the node agents see of them.
    """

    def __init__(
        self,
        kube: Kube,
        evictions: WriteCache[Eviction],
        hypervisors: Cache[Hypervisor],
        observer: Observer,
        policy: Policy,
        *,
        clock: Clock,
        events: Recorder,
        migrations: Migrations,
    ) -> None:
        self._kube, self._clock, self._events = kube.as_manager(NAME), clock, events
        self._evictions, self._hypervisors = evictions, hypervisors
        self._observer, self._policy = observer, policy
        self._migrations = migrations
        self._memories = Memories()
        self._finalizer = Finalizer(FINALIZER, self._kube, evictions)
        self._cancelling = Cancelling(
            self._kube,
            evictions,
            hypervisors,
            observer,
            policy,
            finalizer=self._finalizer,
            clock=clock,
            events=events,
        )

    async def reconcile(self, name: str, /) -> Result:
        eviction = self._evictions.get(name)
        if eviction is None:
            self._forget(name)
            return Result()
        if eviction.metadata.deletionTimestamp is not None:
            self._forget(name)
            return await self._cancelling.step(eviction)
        if has_ended(eviction.status):
            self._forget(name)
            await self._finalizer.remove(eviction)
            return Result()
        hypervisor = self._hypervisors.get(eviction.spec.hypervisor)
        if hypervisor is None:
            return await self._without_hypervisor(eviction)
        return await self._evict(eviction, hypervisor)

    async def _evict(self, eviction: Eviction, hypervisor: Hypervisor) -> Result:
        memory, moment = self._memories.of(eviction), self._moment()
        if refused := preflight.refusal(hypervisor, eviction):
            return await self._end(eviction, memory, EvictionReason.FAILED, refused)
        try:
            host = await self._host(memory, hypervisor, moment)
            if host is None:
                return await self._unknown_host(eviction, memory, hypervisor)
            held = await self._finalizer.add(eviction)
            return await self._pass(held, memory, hypervisor, host) if held else Result()
        except (UnreachableError, ConflictError, RefusedError) as error:
            return await self._unreachable(eviction, memory, error)

    async def _pass(
        self, eviction: Eviction, memory: Memory, hypervisor: Hypervisor, host: Host
    ) -> Result:
        found, moment = await self._found(memory, host)
        before = memory.status or eviction.status
        now = self._look(eviction, before, found, memory, moment)
        checks = await self._preflight(eviction, before, hypervisor, host, now)
        now = await self._act(eviction, memory, host, now, checks, reused=found.reused)
        moment = self._moment()
        memory.tracks = {standing.id: standing.track for standing in now}
        memory.time(now, moment)
        memory.found = found if decide.is_quiet(now) else None
        if any(standing.occupies for standing in now):
            self._migrations.follow(eviction.metadata.name, hypervisor.metadata.name)
        verified = decide.is_done(now, checks)
        if verified:
            counted = await self._counted(eviction, host, now)
            verified, now = self._judge(memory, counted, now, moment)
        settled = decide.settle(
            eviction,
            texts.with_host(before, host),
            now,
            checks,
            policy=self._policy,
            moment=moment,
            seconds_left=self._seconds_left(eviction, memory, now, moment),
            verified=verified,
        )
        for note in settled.notes:
            self._record(eviction, note)
        memory.status = settled.status
        waits = await self._write(eviction, memory, moment)
        if settled.ended:
            self._forget(eviction.metadata.name)
            written = self._evictions.get(eviction.metadata.name)
            await self._finalizer.remove(written or eviction)
            return Result()
        pace = fit(memory.ended, memory.running(moment))
        typical = pace.seconds(_mean(memory.sizes)) if pace else None
        soonest = memory.soonest(pace, moment) if pace else 0.0
        poll = decide.poll_after(now, checks, moment, typical, soonest)
        return Result(min(poll, waits) if waits else poll)

    async def _found(self, memory: Memory, host: Host) -> tuple[Found, Moment]:
        """What is on the host; its servers are listed again when a move has ended, or in time."""
        started = self._clock.monotonic()
        recent = started - memory.found_at <= _SERVERS_AGE
        before = memory.found if recent else None
        found = await self._observer.found(host.name, before)
        if not found.reused:
            memory.found_at = started
        return found, self._moment()

    def _look(
        self,
        eviction: Eviction,
        before: EvictionStatus,
        found: Found,
        memory: Memory,
        moment: Moment,
    ) -> tuple[Standing, ...]:
        return standings(
            eviction,
            before,
            found.servers,
            found.moves,
            jobs=self._migrations.jobs,
            tracks=memory.tracks,
            policy=self._policy,
            moment=moment,
        )

    async def _preflight(
        self,
        eviction: Eviction,
        before: EvictionStatus,
        hypervisor: Hypervisor,
        host: Host,
        now: tuple[Standing, ...],
    ) -> Preflight:
        """Check the host in every pass; the instances until the checks have passed."""
        empty = not any(s.seen.server or s.phase in texts.OPEN for s in now)
        of_host = preflight.of_host(hypervisor, host, eviction.spec, empty=empty)
        kept = tuple(check for check in before.checks if check.name not in _HOST_CHECKS)
        if kept and not any(check.result == "Failed" for check in kept):
            return Preflight((*of_host, *kept))
        servers = [s.seen.server for s in now if s.seen.server is not None]
        rooms = await self._observer.rooms(servers)
        refused = self._observer.groups_refused
        of_instances = preflight.of_instances(servers, rooms, self._policy.doubt, refused)
        return Preflight((*of_host, *of_instances))

    async def _act(
        self,
        eviction: Eviction,
        memory: Memory,
        host: Host,
        now: tuple[Standing, ...],
        checks: Preflight,
        *,
        reused: bool,
    ) -> tuple[Standing, ...]:
        """Take the steps, and begin what may begin; nothing by servers that were seen earlier."""
        done = await self._observer.take(now)
        starts: tuple[Start, ...] = ()
        if not checks.obstacles:
            now, starts = await self._starts(eviction, memory, host, now)
            if reused and starts:  # a place is free: have the servers listed first
                memory.found_at, starts = float("-inf"), ()
                memory.load = _load(host, now)
        else:
            memory.load = _load(host, now)
        by_id = {standing.id: standing for standing in now}
        for start in starts:
            standing = by_id[start.server.id]
            by_id[start.server.id] = replace(
                standing, track=begun(standing, self._policy, self._moment())
            )
        # Remembered before the calls: if this pass is cut off, the next one does not repeat them.
        memory.tracks = {standing.id: standing.track for standing in by_id.values()}
        done |= await self._observer.start(starts)
        return decide.after(tuple(by_id.values()), done, self._policy, self._moment())

    async def _starts(
        self, eviction: Eviction, memory: Memory, host: Host, now: tuple[Standing, ...]
    ) -> tuple[tuple[Standing, ...], tuple[Start, ...]]:
        name, policy = eviction.metadata.name, self._policy
        chooses, parallelism = self._observer.chooses_target, eviction.spec.parallelism
        others = self._memories.others(self._running(), name)
        targets = await self._targets(memory, now, parallelism)
        free = places(now, others, policy, host=host.name, parallelism=parallelism, targets=targets)
        if not free.free or not any(standing.step is Step.START for standing in now):
            memory.load = _load(host, now)
            return now, ()
        needs = needs_rooms(now, policy, chooses=chooses)
        servers = (s.seen.server for s in now if s.seen.server and need(s.seen.server) in needs)
        rooms = await self._observer.rooms(servers)
        # From here to the load nothing is awaited: another Eviction must not take the same places.
        others = as_of(others, self._memories.others(self._running(), name))
        free = places(now, others, policy, host=host.name, parallelism=parallelism, targets=targets)
        order = decide.order_of(eviction, policy)
        planned = plan(now, rooms, free, policy, order=order, chooses=chooses, others=others)
        memory.load = _load(host, planned.standings, planned.chosen)
        return planned.standings, planned.chosen

    async def _targets(
        self, memory: Memory, now: tuple[Standing, ...], parallelism: int | None
    ) -> int | None:
        """Hosts that could take the next instance; None where a number of moves is asked for."""
        server = next((s.seen.server for s in now if s.step is Step.START and s.seen.server), None)
        if parallelism or self._policy.per_target:
            return None
        moment = self._moment()
        if server is not None and moment.at - memory.targets_at > _TARGETS_AGE:
            (rooms,) = (await self._observer.rooms([server])).values()
            memory.targets, memory.targets_at = len(rooms), moment.at
        return memory.targets

    def _running(self) -> list[Eviction]:
        return [eviction for eviction in self._evictions.all() if not has_ended(eviction.status)]

    async def _counted(
        self, eviction: Eviction, host: Host, now: tuple[Standing, ...]
    ) -> set[str] | None:
        """What the compute service counts to the host; None: it knows no such host just now."""
        fresh = await self._observer.host(host.name, fresh=True)
        return left(eviction, fresh.servers, now) if fresh else None

    def _judge(
        self, memory: Memory, counted: set[str] | None, now: tuple[Standing, ...], moment: Moment
    ) -> tuple[bool, tuple[Standing, ...]]:
        """Whether it is over: what is counted, but listed nowhere, is waited for only so long."""
        if counted is None:
            memory.host = None
            return False, now
        if not counted:
            return True, now
        if memory.counted_since is None:
            memory.counted_since = moment.at
        log.info("not_empty_yet", servers=len(counted), example=min(counted))
        if moment.at - memory.counted_since <= self._policy.patience.total_seconds():
            return False, now
        return True, (*now, *map(unlisted, sorted(counted)))

    def _seconds_left(
        self, eviction: Eviction, memory: Memory, now: tuple[Standing, ...], moment: Moment
    ) -> float | None:
        servers = [s.seen.server for s in now if s.phase == "Pending" and s.seen.server is not None]
        order = decide.order_of(eviction, self._policy)
        waiting = [server.size.memory_mib for server in in_order(servers, order)]
        limit = eviction.spec.parallelism or self._policy.per_source
        return seconds_left(memory.ended, memory.running(moment), waiting, limit)

    async def _host(self, memory: Memory, hypervisor: Hypervisor, moment: Moment) -> Host | None:
        if preflight.is_anothers(hypervisor):
            return None
        if memory.host is None or memory.doubts_host(hypervisor, moment):
            memory.host = await self._observer.host(*host_names(hypervisor))
            memory.host_at = moment.at
            if memory.host is not None:
                memory.unknown_since = None
        return memory.host

    async def _write(self, eviction: Eviction, memory: Memory, moment: Moment) -> timedelta | None:
        """Write what is decided, if it is time; gives how long it waits otherwise."""
        status = memory.status
        if status is None:
            return None
        written = self._evictions.get(eviction.metadata.name) or eviction
        waits = decide.write_after(written.status, status, moment.at - memory.written_at)
        if waits is not None and waits <= timedelta(0):
            self._evictions.wrote(await self._kube.patch_status(written, status))
            memory.written_at = moment.at
            return None
        return waits

    async def _end(
        self, eviction: Eviction, memory: Memory, reason: EvictionReason, text: str
    ) -> Result:
        """End it before anything was moved."""
        before = memory.status or eviction.status
        moment = self._moment()
        conditions = texts.Conditions(before.conditions, eviction.metadata.generation, moment.now)
        conditions.evicting("False", reason, text)
        if reason == EvictionReason.FAILED:
            conditions.preflight("False", reason, text)
        memory.status = with_fields(before, conditions=conditions.value)
        for note in decide.notes(before, memory.status, eviction.spec.hypervisor):
            self._record(eviction, note)
        await self._write(eviction, memory, moment)
        written = self._evictions.get(eviction.metadata.name)
        await self._finalizer.remove(written or eviction)
        return Result()

    async def _wait(
        self, eviction: Eviction, memory: Memory, text: str, after: timedelta
    ) -> Result:
        """Say what stands in the way, and look again later."""
        before = memory.status or eviction.status
        moment = self._moment()
        conditions = texts.Conditions(before.conditions, eviction.metadata.generation, moment.now)
        conditions.evicting("True", EvictionReason.RUNNING, f"Running: waits; {text}")
        if texts.has_begun(before):
            memory.status = with_fields(before, conditions=conditions.value)
        else:
            conditions.preflight("False", EvictionReason.FAILED, text)
            memory.status = with_fields(before, conditions=conditions.value)
        for note in decide.notes(before, memory.status, eviction.spec.hypervisor):
            self._record(eviction, note)
        await self._write(eviction, memory, moment)
        return Result(after)

    async def _unknown_host(
        self, eviction: Eviction, memory: Memory, hypervisor: Hypervisor
    ) -> Result:
        name, service = hypervisor.metadata.name, self._observer.name
        status, before = hypervisor.status, memory.status or eviction.status
        begun = texts.has_begun(before)
        if begun or (status.hypervisorId and status.serviceId):
            text = f"failed to get hypervisor {name}: got 404, {service} knows no such host"
            if begun and _may_move(memory, before) and not self._is_lost(memory):
                return await self._wait(eviction, memory, text, _AWAY)
            return await self._end(eviction, memory, EvictionReason.FAILED, text)
        if status.numInstances:
            text = (
                f"failed to get hypervisor {name}: {service} does not know the host, but its node "
                f"agent sees {texts.count(status.numInstances)} there"
            )
            return await self._end(eviction, memory, EvictionReason.FAILED, text)
        text = f"eviction completed successfully: {name} was never registered with {service}"
        return await self._end(eviction, memory, EvictionReason.SUCCEEDED, text)

    def _is_lost(self, memory: Memory) -> bool:
        """Whether the host has been unknown for long: for a moment it says nothing of the moves."""
        at = self._clock.monotonic()
        memory.unknown_since = at if memory.unknown_since is None else memory.unknown_since
        return at - memory.unknown_since > self._policy.patience.total_seconds()

    async def _without_hypervisor(self, eviction: Eviction) -> Result:
        name = eviction.spec.hypervisor
        if await self._kube.get(Hypervisor, name) is not None:
            return Result()  # another shard's
        way_out = "spec.hypervisor is immutable: delete and recreate the Eviction"
        text = f"Hypervisor {name} does not exist; {way_out}"
        return await self._wait(eviction, self._memories.of(eviction), text, decide.IDLE)

    async def _unreachable(
        self, eviction: Eviction, memory: Memory, error: HypercobaltError
    ) -> Result:
        log.warning("compute_unreachable", eviction=eviction.metadata.name, error=str(error))
        text = f"the compute service {self._observer.name} cannot be asked: {error}"
        wait = error.retry_after if isinstance(error, TransientError) else None
        return await self._wait(eviction, memory, text, wait or _AWAY)

    def _forget(self, name: str) -> None:
        self._memories.forget(name)
        self._migrations.release(name)

    def _record(self, eviction: Eviction, note: decide.Note) -> None:
        self._events.record(eviction, note.type, note.reason, note.text, action="Evicting")

    def _moment(self) -> Moment:
        return Moment(self._clock.now(), self._clock.monotonic())


def _may_move(memory: Memory, status: EvictionStatus) -> bool:
    """Whether anything was ever there to be moved: an empty host waits for nothing."""
    return bool(status.instances) or memory.counted_since is not None


def _load(host: Host, now: Iterable[Standing], starts: Iterable[Start] = ()) -> Load:
    begun = {start.server.id: Going(start.target, start.server) for start in starts}
    return Load(host.name, {s.id: going(s) for s in now if s.occupies} | begun)


def _mean(sizes: Mapping[str, int]) -> int:
    return round(sum(sizes.values()) / len(sizes)) if sizes else 0
