"""Three hosts in memory that die, are fenced by mistake, return and boot, in any order.

The service is the real one. What has to hold is known from outside: where each guest is, and
whether its owner wants it to run. Random walks search it, and chosen ones find each fault again.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Final

from msgspec.structs import replace as with_fields
from tests.contracts.direct import A, B, ended, newest
from tests.unit.compute.memory import ALLOWED, C, Memory, Present, identity

from hypercobalt.adapters.libvirt.model import DomainState
from hypercobalt.adapters.libvirt.vocabulary import PausedReason, ShutoffReason, Stopped
from hypercobalt.compute.direct.ports import NoPorts
from hypercobalt.compute.direct.service import DirectService
from hypercobalt.compute.model import Server
from hypercobalt.errors import HypercobaltError

HOSTS: Final = (A, B, C)
GUESTS: Final = ("a", "b")
LONGEST: Final = 12


class Stage(StrEnum):
    """How a host is."""

    SERVES = "serves"
    DEAD = "dead"
    THAWED = "thawed"  # it was fenced by mistake, answers again, and has not booted
    ENDED = "ended"  # and what its agent has ended is proven to be that
    BOOTED = "booted"  # and is not back in service
    GONE = "gone"  # its Node was deleted, and so was its Hypervisor, with what its agent had stored


_BACK: Final = frozenset({Stage.THAWED, Stage.BOOTED})
_EMPTIED: Final = frozenset({Stage.DEAD, Stage.ENDED})
"""Stages in which what is on a host is started elsewhere."""


@dataclass
class Walk:
    """The hosts, and what is known of them from outside.

    Args:
        forgets_pauses: the agents do not store what an owner has suspended.
        forgets_orders: they store what they have ended by an order as stopped by its owner.
    """

    forgets_pauses: bool = False
    forgets_orders: bool = False
    world: Memory = field(default_factory=Memory)
    stages: dict[str, Stage] = field(default_factory=lambda: dict.fromkeys(HOSTS, Stage.SERVES))
    boots: dict[str, int] = field(default_factory=lambda: dict.fromkeys(HOSTS, 1))
    home: dict[str, str] = field(default_factory=lambda: dict.fromkeys(GUESTS, A))
    wanted: set[str] = field(default_factory=lambda: set(GUESTS))
    late: set[str] = field(default_factory=set[str])
    """Hosts whose agents have not stored what is there now."""
    again: set[str] = field(default_factory=set[str])
    """Guests that their first host had again, as the second had died before it stored them: that
    one keeps a copy that is off, which no mark tells from a guest of its own."""
    unseen: dict[str, set[str]] = field(default_factory=lambda: {one: set() for one in HOSTS})
    """Guests that have left a host whose agent has not stored that yet, by the host."""
    held: set[str] = field(default_factory=set[str])
    """Guests that have moved live to a host whose agent has not stored them yet: the operator that
    has moved them is the only one that has their definitions."""

    def __post_init__(self) -> None:
        self.service = self._made()

    def _made(self) -> DirectService:
        places = Present(self.world.places)
        return DirectService(
            places, self.world.daemons, NoPorts(), stored=self.world, allowed=ALLOWED
        )

    async def begin(self) -> None:
        for guest in GUESTS:
            await self.world.add(guest, disk="shared")
        self._store()

    # What happens

    async def dies(self, host: str) -> None:
        """A host is fenced; there is always one that serves."""
        others = [one for one in HOSTS if one != host and self.stages[one] is Stage.SERVES]
        if self.stages[host] is not Stage.SERVES or not others:
            return
        for guest in GUESTS:
            there = self.world.host(host).here.get(identity(guest))
            if there is not None and there.active and there.halted:
                self.wanted.discard(guest)
        self.world.cut(host)
        place = self.world.places[host]
        boot = f"{host}-{self.boots[host]}"
        self.world.places[host] = replace(
            place, fenced=True, fenced_boot=boot, up=False, closed="it was fenced"
        )
        self.stages[host] = Stage.DEAD

    async def answers_again(self, host: str) -> None:
        """The fence device had lied: its agent has ended what ran there."""
        if self.stages[host] is Stage.DEAD:
            self._returns(host, Stage.THAWED, ShutoffReason.DESTROYED)

    async def agent_has_ended(self, host: str) -> None:
        """What its agent has ended is the proof now, while the host answers."""
        if self.stages[host] is Stage.THAWED:
            self.stages[host] = Stage.ENDED
            self.world.places[host] = replace(self.world.places[host], fenced=True)

    async def boots_again(self, host: str) -> None:
        """The host boots, or has booted before; then its agent has its guests started."""
        if self.stages[host] in {Stage.SERVES, Stage.GONE}:
            return
        if self.stages[host] is not Stage.BOOTED:
            self.boots[host] += 1
            self._returns(host, Stage.BOOTED, 0)
        found = await self.service.hosts.get(host)
        assert found is not None
        with contextlib.suppress(HypercobaltError):
            await self.service.hosts.enable(found)
            self.world.places[host] = replace(self.world.places[host], fenced_boot="", closed="")
            self.stages[host] = Stage.SERVES
            await self._restart(host)

    async def is_recovered(self) -> None:
        """What is on dead hosts is started on one that serves."""
        targets = [one for one in HOSTS if self.stages[one] is Stage.SERVES]
        for host in HOSTS:
            if self.stages[host] not in _EMPTIED:
                continue
            for server in await self.service.moves.servers(host):
                with contextlib.suppress(HypercobaltError):
                    await self.service.recovery.evacuate(server, targets[0])
                    if (await ended(self.service, server)).status == "done":
                        self._note_again(server.name, host)
                        self.home[server.name] = targets[0]
                        await self._is_found_there(server)
        for guest in self.wanted:
            waits = self.stages[self.home[guest]] in _BACK or self._is_kept(guest)
            waits = waits or self._is_recorded_twice(guest) or self._is_claimed(guest)
            assert waits or self._runs(guest), f"{guest} was on {self.home[guest]}, and is off"

    async def _is_found_there(self, server: Server) -> None:
        """Check that what has left a host is found where it is, also while that host answers."""
        found = await self.service.moves.server(server.id)
        where = found.host if found is not None else "no host"
        text = f"{server.name} has gone to {self.home[server.name]}, and counts on {where}"
        assert where == self.home[server.name], text

    def _is_kept(self, guest: str) -> bool:
        """Whether a host that is not in service yet has it, since its new one has not stored it."""
        back = [one for one in HOSTS if self.stages[one] in _BACK]
        return not self._is_stored(guest) and any(
            identity(guest) in self.world.host(one).here for one in back
        )

    def _is_recorded_twice(self, guest: str) -> bool:
        """Whether it waits, since a second dead host's record has it as well."""
        dead = (host for host, stage in self.stages.items() if stage is Stage.DEAD)
        home_is_dead = self.stages[self.home[guest]] is Stage.DEAD
        return home_is_dead and any(guest in self.unseen[host] for host in dead)

    def _is_claimed(self, guest: str) -> bool:
        """Whether it waits, since a host that answers has such a copy; see `again`."""
        others = [one for one in self._left() if one != self.home[guest]]
        answer = [one for one in others if self.stages[one] is not Stage.DEAD]
        return guest in self.again and any(
            identity(guest) in self.world.host(one).here for one in answer
        )

    def _is_stored(self, guest: str) -> bool:
        stored = self.world.stored.get(self.home[guest])
        return stored is not None and identity(guest) in stored.domains

    def _note_again(self, guest: str, host: str) -> None:
        there = self.home[guest] == host
        by_an_old_record = there and guest in self.unseen[host]  # it had left, and come back
        if by_an_old_record or not (there or self._is_stored(guest)):
            self.again.add(guest)

    async def seals_late(self, host: str) -> None:
        """The agent stores nothing for a while, and its host does not report that yet."""
        if self.stages[host] is Stage.SERVES:
            self.late.add(host)

    async def seals(self, host: str) -> None:
        self.late.discard(host)

    async def node_is_deleted(self, host: str) -> None:
        """The machine does not come back; the Hypervisor goes once nothing depends on it."""
        found = await self.service.hosts.get(host)
        if self.stages[host] is not Stage.DEAD or found is None:
            return
        if await self.service.moves.servers(host) or await self.service.hosts.unstored(found):
            return
        self.stages[host] = Stage.GONE
        self.late.discard(host)
        del self.world.places[host]
        self.world.stored.pop(host, None)
        await self.another_leads()

    async def owner_suspends(self, guest: str) -> None:
        for host in self._served(guest):
            self._set(host, guest, DomainState.PAUSED, PausedReason.USER)

    async def owner_resumes(self, guest: str) -> None:
        for host in self._served(guest):
            self._set(host, guest, DomainState.RUNNING, 0)

    async def owner_powers_off(self, guest: str) -> None:
        for host in self._served(guest):
            self.wanted.discard(guest)
            self.world.host(host).stop(identity(guest), Stopped.SHUTDOWN)

    async def moves(self, guest: str, target: str) -> None:
        """Live; the agents of both hosts store that afterwards, or do not: see `seals_late`."""
        (source,) = self._runs(guest) or ("",)
        if not source or source == target or self.stages[target] is not Stage.SERVES:
            return
        if self.world.host(source).here[identity(guest)].state is DomainState.PAUSED:
            return
        listed = await self.service.moves.servers(source)
        with contextlib.suppress(HypercobaltError):
            server = next(one for one in listed if one.name == guest)
            await self.service.moves.live_migrate(server, target)
            await ended(self.service, server)
        (self.home[guest],) = self._runs(guest)
        if self.home[guest] == source:
            return
        if source in self.late:
            self.unseen[source].add(guest)
        if target in self.late:
            self.held.add(guest)

    async def moves_off(self, guest: str, target: str) -> None:
        """Its definition goes, and the agents store what is there meanwhile, or do not."""
        source = self.home[guest]
        there = self.world.host(source).here.get(identity(guest))
        serve = {self.stages[source], self.stages[target]} == {Stage.SERVES}
        if there is None or there.active or source == target or not serve:
            return
        listed = await self.service.moves.servers(source)
        with contextlib.suppress(HypercobaltError):
            server = next(one for one in listed if one.name == guest)
            await self.service.moves.cold_migrate(server, target)
            while not (move := await newest(self.service, server)).ended:
                await asyncio.sleep(1)
                self._store()
            if move.succeeded:
                self.home[guest] = target
                if source in self.late:
                    self.unseen[source].add(guest)

    async def another_leads(self) -> None:
        """What the process had in memory is gone; it was not the only record of a guest."""
        if self.held:
            return
        await self.service.close()
        self.service = self._made()

    # What has to hold

    async def after(self) -> None:
        """Check after each event; the agents of hosts that serve store what is there."""
        self._store()
        for guest in GUESTS:
            assert len(self._runs(guest)) <= 1, f"{guest} runs on {self._runs(guest)}"
            assert guest in self.wanted or not self._runs(guest), f"{guest} was started"

    async def comes_back(self) -> None:
        """However it has gone: each guest runs that its owner wants to, once all hosts are back."""
        for _ in range(3):
            await self.is_recovered()
            await self.after()
            self.late.clear()
            for host in HOSTS:
                await self.boots_again(host)
                await self.after()
        assert set(self.stages.values()) <= {Stage.SERVES, Stage.GONE}, self.stages
        for guest in GUESTS:
            there = [one for one in self._left() if identity(guest) in self.world.host(one).here]
            assert len(there) == 1 or guest in self.again, f"{guest} is on {there}"
            assert bool(self._runs(guest)) is (guest in self.wanted), f"{guest} on {there}"

    # Parts

    def _runs(self, guest: str) -> list[str]:
        hosts = self._left()
        found = [self.world.host(one).here.get(identity(guest)) for one in hosts]
        return [one for one, it in zip(hosts, found, strict=True) if it is not None and it.active]

    def _served(self, guest: str) -> list[str]:
        """Where it runs, on a host whose agent stores at once what its owner does."""
        return [one for one in self._runs(guest) if one not in self.late]

    def _left(self) -> list[str]:
        return [one for one in HOSTS if self.stages[one] is not Stage.GONE]

    def _set(self, host: str, guest: str, state: DomainState, reason: int) -> None:
        here = self.world.host(host).here
        here[identity(guest)] = replace(here[identity(guest)], state=state, reason=int(reason))

    def _returns(self, host: str, stage: Stage, reason: int) -> None:
        there = self.world.host(host)
        there.connect()
        for uuid, one in there.here.items():
            there.here[uuid] = replace(one, reason=int(reason))
        self.world.places[host] = replace(self.world.places[host], fenced=False, up=True)
        self.stages[host] = stage
        self.late.discard(host)

    async def _restart(self, host: str) -> None:
        for server in await self.service.moves.servers(host):
            if server.running:
                continue
            with contextlib.suppress(HypercobaltError):
                if server.name in self.wanted:
                    await self.service.recovery.restart(server)
                self._note_again(server.name, host)
                self.home[server.name] = host

    def _store(self) -> None:
        """Have the agents store what is there; that of a host that was fenced keeps what it has."""
        store = {Stage.SERVES, *((Stage.THAWED, Stage.ENDED) if self.forgets_orders else ())}
        for host, stage in self.stages.items():
            if stage not in store or host in self.late:
                continue
            self.world.store(host)
            self.unseen[host].clear()
            self.held -= {guest for guest in GUESTS if self.home[guest] == host}
            if self.forgets_pauses:
                kept = self.world.stored[host]
                without = {k: with_fields(v, halted=False) for k, v in kept.domains.items()}
                self.world.stored[host] = with_fields(kept, domains=without)


Event = Callable[[Walk], Awaitable[None]]


def dies(host: str) -> Event:
    return partial(Walk.dies, host=host)


def answers_again(host: str) -> Event:
    return partial(Walk.answers_again, host=host)


def agent_has_ended(host: str) -> Event:
    return partial(Walk.agent_has_ended, host=host)


def boots_again(host: str) -> Event:
    return partial(Walk.boots_again, host=host)


def seals_late(host: str) -> Event:
    return partial(Walk.seals_late, host=host)


def node_is_deleted(host: str) -> Event:
    return partial(Walk.node_is_deleted, host=host)


def moves(guest: str, target: str) -> Event:
    return partial(Walk.moves, guest=guest, target=target)


def moves_off(guest: str, target: str) -> Event:
    return partial(Walk.moves_off, guest=guest, target=target)


def powers_off(guest: str) -> Event:
    return partial(Walk.owner_powers_off, guest=guest)


def suspends(guest: str) -> Event:
    return partial(Walk.owner_suspends, guest=guest)


EVENTS: Final[tuple[tuple[Event, ...], ...]] = (
    tuple(map(dies, HOSTS)),
    tuple(map(dies, HOSTS)),
    tuple(map(answers_again, HOSTS)),
    tuple(map(agent_has_ended, HOSTS)),
    tuple(map(boots_again, HOSTS)),
    (Walk.is_recovered,),
    (Walk.is_recovered,),
    tuple(map(suspends, GUESTS)),
    tuple(partial(Walk.owner_resumes, guest=guest) for guest in GUESTS),
    tuple(map(powers_off, GUESTS)),
    tuple(moves(guest, target) for guest in GUESTS for target in HOSTS),
    tuple(moves_off(guest, target) for guest in GUESTS for target in HOSTS),
    (Walk.another_leads,),
    tuple(map(seals_late, HOSTS)),
    tuple(partial(Walk.seals, host=host) for host in HOSTS),
    tuple(map(node_is_deleted, HOSTS)),
)
"""All that may happen, each with its variants."""


def random_walk(chance: random.Random) -> list[Event]:
    """Events in some order; not all kinds of them, since the rarer ones then meet more often."""
    kinds = chance.sample(EVENTS, chance.randint(len(EVENTS) // 2, len(EVENTS)))
    return [chance.choice(chance.choice(kinds)) for _ in range(LONGEST)]


async def failure(
    events: Sequence[Event], *, forgets_pauses: bool = False, forgets_orders: bool = False
) -> str:
    """What does not hold at some point of a walk, or after it; "" when all does."""
    walk = Walk(forgets_pauses=forgets_pauses, forgets_orders=forgets_orders)
    await walk.begin()
    try:
        for event in events:
            await event(walk)
            await walk.after()
        await walk.comes_back()
    except AssertionError as error:
        return str(error) or "an assertion"
    finally:
        await walk.service.close()
    return ""


def described(event: Event) -> str:
    if isinstance(event, partial):
        return f"{event.func.__name__} {event.keywords}"
    return getattr(event, "__name__", str(event))
