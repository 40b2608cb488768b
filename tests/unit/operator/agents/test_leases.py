"""When a node agent's Lease has run out, by the operator's own clock and what it could see."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.unit.operator.samples import NOW

from hypercobalt.api.codec import DecodeError
from hypercobalt.api.coordination import GlanceMeta, GlanceSpec, LeaseGlance
from hypercobalt.operator.agents.leases import AgentLeases, LeaseSighting, LeaseState
from hypercobalt.runtime import (
    Change,
    ConnectionFailedError,
    Kube,
    ListResult,
    Metrics,
    WatchEvent,
    key_of,
)

NODE, OTHER, NAMESPACE = "kvm-a", "kvm-b", "agents"


@dataclass
class Call:
    due: float
    callback: Callable[[], object]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class ManualLoop:
    """The event loop's clock and timers, moved by hand."""

    now: float = 1000.0
    calls: list[Call] = field(default_factory=list)

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], object], /) -> Call:
        self.calls.append(Call(self.now + delay, callback))
        return self.calls[-1]

    def advance(self, seconds: float) -> None:
        until = self.now + seconds
        while due := [call for call in self.calls if call.due <= until and not call.cancelled]:
            call = min(due, key=lambda one: one.due)
            self.calls.remove(call)
            self.now = max(self.now, call.due)
            call.callback()
        self.now = until


class Server(Kube):
    """What the server has; `away` refuses to answer, `meanwhile` happens while it answers."""

    def __init__(self) -> None:
        self.leases: dict[str, LeaseGlance] = {}
        self.away, self.reads = False, 0
        self.undecodable = ""  # the Lease whose list cannot be decoded
        self.meanwhile: Callable[[], None] = lambda: None

    async def list(  # type: ignore[override]
        self, type_: type[LeaseGlance], namespace: str | None = None, **options: object
    ) -> ListResult[LeaseGlance]:
        self.reads += 1
        if self.away:
            raise ConnectionFailedError("the API server is away")
        name = str(options["fields"]).removeprefix("metadata.name=")
        if name == self.undecodable:
            raise DecodeError(f"list of Lease: {name}")
        found = self.leases.get(f"{namespace}/{name}")
        self.meanwhile()
        return ListResult([found] if found else [], "9", {})


def lease(
    number: int, *, holder: str = "agent", duration: int | None = 40, node: str = NODE
) -> LeaseGlance:
    """The Lease as its agent's renewal of that number left it."""
    meta = GlanceMeta(
        name=f"node-agent-{node}", namespace=NAMESPACE, uid=node, resourceVersion=str(number)
    )
    spec = GlanceSpec(
        holderIdentity=holder, leaseDurationSeconds=duration, renewTime=f"2026-11-22T10:{number}"
    )
    return LeaseGlance(metadata=meta, spec=spec)


class World:
    def __init__(self, *, namespaces: tuple[str, ...] = (NAMESPACE,)) -> None:
        self.loop, self.server, self.enqueued = ManualLoop(), Server(), list[str]()
        self.leases = AgentLeases(
            self.server, namespaces, lambda: [NODE], Metrics(), loop=self.loop
        )
        self.leases.source.watch.attach(self.enqueued.append)

    def starts(self, *there: LeaseGlance) -> None:
        """The operator lists what there is."""
        for follower in self.leases.followers:
            mine = [one for one in there if one.metadata.namespace == follower.namespace]
            follower.informer.load(ListResult(mine, "1", {}))
        for one in there:
            self._keep(one)
        self.leases.synced()
        self.enqueued.clear()

    def changes(self, new: LeaseGlance, *, seen: bool = True) -> None:
        """The agent writes its Lease; the watch shows that, or it does not."""
        self._keep(new)
        if seen:
            follower = next(
                f for f in self.leases.followers if f.namespace == new.metadata.namespace
            )
            version = new.metadata.resourceVersion
            follower.informer.take(WatchEvent(Change.MODIFIED, key_of(new), version, new))

    def deletes(self) -> None:
        last = self.server.leases.pop(f"{NAMESPACE}/node-agent-{NODE}")
        self.leases.followers[0].informer._delete(f"{NAMESPACE}/node-agent-{NODE}", last)

    def _keep(self, one: LeaseGlance) -> None:
        self.server.leases[f"{one.metadata.namespace}/{one.metadata.name}"] = one

    async def seen(self, node: str = NODE) -> LeaseSighting:
        found = await self.leases.of(node)
        assert found is not None
        return found

    async def state(self, node: str = NODE) -> LeaseState:
        return (await self.seen(node)).state


async def test_lease_is_unknown_before_the_leases_were_read() -> None:
    assert await World().leases.of(NODE) is None


async def test_lease_that_was_there_at_the_start_counts_as_renewed_once_that_was_seen() -> None:
    world = World()
    world.starts(lease(10))
    assert await world.state() is LeaseState.UNRENEWED
    world.changes(lease(11))
    assert (await world.state(), world.enqueued) == (LeaseState.RENEWED, [NODE])


async def test_lease_made_while_the_operator_watches_counts_as_renewed() -> None:
    world = World()
    world.starts()
    world.changes(lease(10))
    assert (await world.state(), world.enqueued) == (LeaseState.RENEWED, [NODE])


async def test_renewals_in_time_keep_a_lease_and_lead_to_no_pass() -> None:
    world = World()
    world.starts(lease(10))
    world.changes(lease(11))
    world.enqueued.clear()
    for number in range(12, 60):
        world.loop.advance(10)
        world.changes(lease(number))
    assert (await world.state(), world.enqueued, world.server.reads) == (LeaseState.RENEWED, [], 0)
    assert len([call for call in world.loop.calls if not call.cancelled]) == 1


@pytest.mark.parametrize("renewed", [True, False], ids=["renewed before", "never seen renewed"])
async def test_lease_runs_out_a_duration_after_its_last_renewal_was_seen(renewed: bool) -> None:
    world = World()
    world.starts(lease(10))
    world.loop.advance(25)
    if renewed:
        world.changes(lease(11))
        world.loop.advance(39)
    else:
        world.loop.advance(14)
    world.enqueued.clear()
    assert await world.state() is not LeaseState.EXPIRED
    world.loop.advance(1)
    assert world.enqueued == [NODE]
    assert await world.state() is LeaseState.EXPIRED
    assert world.server.reads == 1


async def test_renewal_after_a_silence_is_reported_at_once() -> None:
    world = World()
    world.starts(lease(10))
    world.loop.advance(100)
    assert await world.state() is LeaseState.EXPIRED
    world.enqueued.clear()
    world.changes(lease(11))
    assert (await world.state(), world.enqueued) == (LeaseState.RENEWED, [NODE])
    world.loop.advance(41)
    assert await world.state() is LeaseState.EXPIRED


async def test_renewal_that_the_watch_has_not_shown_is_no_silence() -> None:
    world = World()
    world.starts(lease(10), lease(10, node=OTHER))
    for node in (NODE, OTHER):
        world.changes(lease(11, node=node), seen=False)
    world.loop.advance(40)
    for node in (NODE, OTHER):
        assert await world.state(node) is LeaseState.RENEWED
    world.loop.advance(40)
    assert await world.state() is LeaseState.EXPIRED


async def test_renewals_of_one_host_that_the_watch_shows_late_prolong_no_other_lease() -> None:
    """A host can renew so that each of its Leases runs out before the watch shows the next."""
    world = World()
    world.starts(lease(10, duration=1), lease(10, node=OTHER))
    for second in range(40):
        world.changes(lease(11 + second, duration=1), seen=False)
        world.loop.advance(1)
        assert await world.state() is LeaseState.RENEWED
    assert await world.state(OTHER) is LeaseState.EXPIRED
    assert world.server.reads == 41


async def test_read_that_fails_for_what_one_lease_holds_prolongs_no_other_lease() -> None:
    world = World()
    world.starts(lease(10, duration=1), lease(10, node=OTHER))
    world.server.undecodable = f"node-agent-{NODE}"
    for _ in range(40):
        world.loop.advance(1)
        assert await world.state() is LeaseState.UNRENEWED
    assert await world.state(OTHER) is LeaseState.EXPIRED


async def test_read_that_fails_starts_all_counts_again() -> None:
    """The API that is away for the operator may have been so for every agent."""
    world = World()
    world.starts(lease(10), lease(10, duration=60, node=OTHER))
    world.server.away = True
    world.loop.advance(40)
    assert await world.state() is LeaseState.UNRENEWED
    world.server.away = False
    world.loop.advance(59)
    assert await world.state(OTHER) is LeaseState.UNRENEWED
    world.loop.advance(1)
    assert await world.state(OTHER) is LeaseState.EXPIRED


async def test_time_in_which_the_api_is_away_does_not_count() -> None:
    world = World()
    world.starts(lease(10))
    world.server.away = True
    world.loop.advance(40)
    assert await world.state() is LeaseState.UNRENEWED
    world.loop.advance(30)
    world.server.away = False
    assert await world.state() is LeaseState.UNRENEWED
    world.loop.advance(10)
    assert await world.state() is LeaseState.EXPIRED


async def test_time_before_a_break_of_the_watch_does_not_count() -> None:
    world = World()
    world.starts(lease(10))
    world.loop.advance(30)
    world.leases.followers[0].informer.breaks += 1
    world.loop.advance(30)
    assert await world.state() is LeaseState.UNRENEWED
    world.loop.advance(20)
    assert await world.state() is LeaseState.EXPIRED


async def test_released_lease_is_reported_at_once_and_expires_when_not_taken() -> None:
    world = World()
    world.starts(lease(10))
    world.changes(lease(11))
    world.enqueued.clear()
    world.loop.advance(5)
    world.changes(lease(12, holder=""))
    assert (await world.state(), world.enqueued) == (LeaseState.RELEASED, [NODE])
    world.loop.advance(40)
    seen = await world.seen()
    assert (seen.state, seen.released) == (LeaseState.EXPIRED, True)


async def test_deleted_lease_that_is_made_again_in_time_is_no_silence() -> None:
    world = World()
    world.starts(lease(10))
    world.changes(lease(11))
    world.deletes()
    world.loop.advance(10)
    world.changes(lease(12))
    world.loop.advance(35)
    assert await world.state() is LeaseState.RENEWED


async def test_deleted_lease_is_absent_once_its_duration_is_over() -> None:
    world = World()
    world.starts(lease(10))
    world.deletes()
    world.loop.advance(39)
    assert await world.state() is LeaseState.UNRENEWED
    world.loop.advance(1)
    seen = await world.seen()
    assert (seen.state, seen.left) == (LeaseState.ABSENT, timedelta(0))


async def test_lease_of_a_host_that_is_gone_is_forgotten() -> None:
    world = World()
    world.starts(lease(10))
    world.deletes()
    world.loop.advance(41)
    assert (NODE in world.leases.followers[0], world.server.reads) == (False, 0)
    assert world.enqueued == [NODE]


async def test_shorter_duration_counts_from_the_renewal_that_brought_it() -> None:
    world = World()
    world.starts(lease(10, duration=600))
    world.changes(lease(11, duration=2))
    world.loop.advance(2)
    assert await world.state() is LeaseState.EXPIRED


async def test_missing_lease_counts_a_duration_after_the_leases_were_read() -> None:
    world = World()
    world.starts()
    world.loop.advance(15)
    assert (await world.seen()).left == timedelta(seconds=25)
    world.loop.advance(30)
    assert (await world.seen()).left == timedelta(0)


async def test_lease_that_is_renewed_in_one_namespace_outweighs_an_old_one_in_another() -> None:
    world = World(namespaces=(NAMESPACE, "more-agents"))
    old = lease(10)
    new = replace(old, metadata=replace(old.metadata, namespace="more-agents"))
    world.starts(old, new)
    world.changes(replace(new, spec=lease(11).spec, metadata=_later(new.metadata)))
    world.loop.advance(39)
    world.changes(replace(new, spec=lease(12).spec, metadata=_later(_later(new.metadata))))
    world.loop.advance(2)
    seen = await world.seen()
    assert (seen.state, seen.lease) == (LeaseState.RENEWED, f"more-agents/node-agent-{NODE}")


async def test_change_of_the_metadata_alone_is_no_renewal() -> None:
    world = World()
    world.starts(lease(10))
    world.loop.advance(30)
    touched = lease(10)
    world.changes(replace(touched, metadata=replace(touched.metadata, resourceVersion="11")))
    world.loop.advance(10)
    assert await world.state() is LeaseState.EXPIRED


async def test_leases_of_other_holders_are_ignored() -> None:
    world = World()
    meta = GlanceMeta(name="kvm-a", namespace=NAMESPACE, uid="v", resourceVersion="1")
    world.starts(replace(lease(10), metadata=meta))
    world.changes(replace(lease(11), metadata=_later(meta)))
    assert (await world.state(), world.loop.calls, world.enqueued) == (LeaseState.ABSENT, [], [])


def test_every_host_is_looked_at_once_the_leases_are_known() -> None:
    world = World()
    world.leases.synced()
    assert world.enqueued == [NODE]


def test_namespaces_whose_leases_are_not_read_yet_are_named() -> None:
    world = World(namespaces=(NAMESPACE, "more-agents"))
    unread = world.leases.unread()
    assert unread is not None
    assert f"{NAMESPACE}, more-agents" in unread
    world.starts()
    assert world.leases.unread() is None


async def test_expired_lease_that_is_deleted_is_absent_at_once() -> None:
    world = World()
    world.starts(lease(10))
    world.loop.advance(40)
    for _ in range(2):
        assert await world.state() is LeaseState.EXPIRED
    assert world.server.reads == 1
    world.deletes()
    assert await world.state() is LeaseState.ABSENT


async def test_lease_that_was_not_there_when_it_was_read_counts_again_with_the_watch() -> None:
    world = World()
    world.starts(lease(10))
    world.loop.advance(40)
    world.server.leases.clear()
    seen = await world.seen()
    assert (seen.state, seen.released, seen.left) == (LeaseState.ABSENT, False, timedelta(0))
    world.changes(lease(11))
    assert await world.state() is LeaseState.RENEWED


async def test_watch_may_show_that_a_lease_is_gone_after_the_read_did() -> None:
    world = World()
    world.starts(lease(10))
    world.loop.advance(40)
    gone = world.server.leases.copy()
    world.server.leases.clear()
    assert await world.state() is LeaseState.ABSENT
    world.server.leases.update(gone)
    world.deletes()
    assert await world.state() is LeaseState.ABSENT


async def test_renewal_that_the_watch_shows_during_the_read_is_newer_than_the_read() -> None:
    world = World()
    world.starts(lease(10))
    world.loop.advance(40)
    world.server.meanwhile = lambda: world.changes(lease(11))
    seen = await world.seen()
    assert (seen.state, seen.renewed_at) == (LeaseState.RENEWED, lease(11).spec.renewTime)


async def test_renewal_half_a_second_after_the_timer_was_set_counts() -> None:
    world = World()
    world.starts(lease(10))
    world.changes(lease(11))
    world.enqueued.clear()
    world.loop.advance(0.5)
    world.changes(lease(12))
    world.loop.advance(39.5)
    assert (await world.state(), world.server.reads) == (LeaseState.RENEWED, 0)
    world.loop.advance(0.5)
    assert (await world.state(), world.server.reads) == (LeaseState.EXPIRED, 1)


async def test_released_lease_that_is_deleted_and_recreated_is_renewed_at_once() -> None:
    world = World()
    world.starts(lease(10, holder=""))
    world.deletes()
    world.enqueued.clear()
    world.changes(lease(11))
    assert (await world.state(), world.enqueued) == (LeaseState.RENEWED, [NODE])


@pytest.mark.parametrize(
    ("enqueued", "lasts"),
    [(None, 40), (0, 40), (-3, 40), (1, 1), (7, 7), (86_400 * 365, 600)],
)
async def test_duration_is_the_leases_own_within_bounds(enqueued: int | None, lasts: int) -> None:
    world = World()
    world.starts(lease(10, duration=enqueued))
    world.loop.advance(lasts - 1)
    assert await world.state() is LeaseState.UNRENEWED
    world.loop.advance(1)
    assert await world.state() is LeaseState.EXPIRED


async def test_candidate_that_saw_a_lease_run_out_and_return_judges_it_by_its_return() -> None:
    """Timers of a process that does not lead have no listener."""
    world = World()
    world.starts(lease(10))
    world.changes(lease(11))
    world.loop.advance(41)
    world.changes(lease(12))
    world.changes(lease(13))
    assert await world.state() is LeaseState.RENEWED
    world.loop.advance(41)
    assert await world.state() is LeaseState.EXPIRED


def _later(meta: GlanceMeta) -> GlanceMeta:
    return replace(meta, resourceVersion=str(int(meta.resourceVersion) + 1), creationTimestamp=NOW)


async def test_glance_reads_nothing_and_is_unknown_for_a_lease_that_seems_expired() -> None:
    world = World()
    assert world.leases.glance(NODE) is None
    world.starts()
    world.changes(lease(1))
    assert world.leases.glance(NODE) == await world.seen()
    world.loop.advance(41)
    assert (world.leases.glance(NODE), world.server.reads) == (None, 0)
    assert world.leases.glance(NODE) is None
    assert await world.state() is LeaseState.EXPIRED
    assert world.leases.glance(NODE) == await world.seen()


async def test_hosts_that_are_listed_after_the_leases_are_looked_at_too() -> None:
    hosts, enqueued = list[str](), list[str]()

    async def listed() -> None:
        hosts.append(NODE)

    leases = AgentLeases(Server(), (), lambda: hosts, Metrics(), listed=listed)
    leases.source.watch.attach(enqueued.append)
    await leases.run(asyncio.Event())

    assert enqueued == [NODE]


async def test_renewal_is_read_that_the_watch_has_not_shown() -> None:
    world = World()
    world.starts(lease(1))
    world.changes(lease(2), seen=False)
    seen = await world.seen()
    assert (seen.renewed_at, world.server.reads) == ("2026-11-22T10:1", 0)
    assert await world.leases.renewed_at(seen) == "2026-11-22T10:2"
    world.server.leases.clear()
    assert await world.leases.renewed_at(seen) == ""


async def test_agent_without_a_lease_has_renewed_none() -> None:
    world = World()
    world.starts()
    assert await world.leases.renewed_at(await world.seen()) == ""
    assert world.server.reads == 0
