"""What every class behind `hypercobalt.compute.port` and `server_port` does.

Run on Nova's adapter, against the simulated OpenStack and the real one, and on the fakes.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Protocol, TypeVar

import pytest
from tests.waiting import Pause

from hypercobalt.compute.errors import ComputeConflictError, RefusedError, UnreachableError
from hypercobalt.compute.model import (
    Host,
    HostAggregate,
    Move,
    MoveKind,
    RestartResult,
    Server,
    TestServer,
)
from hypercobalt.compute.port import Aggregates, ComputeService, Hosts, SmokeTests, Traits
from hypercobalt.compute.server_port import Moves, Owners, Recovery

T = TypeVar("T")
UNKNOWN = "00000000-0000-0000-0000-000000000000"
LOCK = "contract"
_WITHIN = 90.0


class Site(Protocol):
    """A compute service with two hosts that are up, enabled and empty."""

    @property
    def service(self) -> ComputeService: ...

    @property
    def hosts(self) -> tuple[str, str]: ...

    @property
    def zone(self) -> str:
        """Where the hosts are."""
        ...

    async def boot(self, host: str) -> str:
        """Have a server that runs on a host until the contract ends, and return its id."""
        ...

    async def boot_stopped(self, host: str) -> str:
        """Have a server that was shut down on a host, and return its id."""
        ...

    async def crash(self, host: str) -> None:
        """Cut a host's power."""
        ...

    async def restore(self, host: str) -> None:
        """Boot the host, which removes what was evacuated from it."""
        ...

    async def aggregate(self, name: str, zone: str = "") -> None:
        """Have an aggregate without hosts, a zone or not; it is gone after the contract."""
        ...


async def until(
    read: Callable[[], Awaitable[T]], wanted: Callable[[T], bool], within: float = _WITHIN
) -> T:
    """Read until it is as wanted.

    Raises:
        TimeoutError: it is not in time.
    """
    pause = Pause(longest=0.8)  # the real Nova computes for 60 ms at each
    async with asyncio.timeout(within):
        while not wanted(seen := await read()):
            await pause()
    return seen


def _recovery(site: Site) -> Recovery:
    assert site.service.recovery is not None
    return site.service.recovery


def _owners(site: Site) -> Owners:
    assert site.service.owners is not None
    return site.service.owners


async def _known(hosts: Hosts, name: str) -> Host:
    found = await hosts.get(name, fresh=True)
    assert found is not None
    return found


async def a_host_is_found_by_its_exact_name(site: Site) -> None:
    name = site.hosts[0]
    found = await site.service.hosts.get(name)
    assert found is not None
    assert (found.name, found.enabled, found.up, found.forced_down) == (name, True, True, False)
    for other in (f"{name}0", name[:-1], f"x{name}", "no-such-host"):
        assert await site.service.hosts.get(other) is None, other


async def a_host_is_found_by_a_longer_name(site: Site) -> None:
    name = site.hosts[0]
    found = await site.service.hosts.get(f"{name}.zone.example")
    assert found is not None
    assert found.name == name


async def concurrent_reads_of_hosts_each_return_their_host(site: Site) -> None:
    names = [*site.hosts, "no-such-host"] * 7
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(site.service.hosts.get(name)) for name in names]
    found = [host.name if (host := task.result()) else "no-such-host" for task in tasks]
    assert found == names


async def disabling_is_seen_with_its_reason_until_the_host_is_enabled(site: Site) -> None:
    hosts, name = site.service.hosts, site.hosts[1]
    try:
        for reason in ("Hypervisor CRD: spec.maintenance=manual", "another: ü"):
            await hosts.disable(await _known(hosts, name), reason)
            seen = await _known(hosts, name)
            assert (seen.enabled, seen.disabled_reason) == (False, reason)
    finally:
        await hosts.enable(await _known(hosts, name))
    seen = await _known(hosts, name)
    assert (seen.enabled, seen.disabled_reason) == (True, "")


async def a_host_lists_its_servers(site: Site) -> None:
    server = await site.boot(site.hosts[0])
    here, there = [await _known(site.service.hosts, name) for name in site.hosts]
    assert (server in here.servers, server in there.servers) == (True, False)


async def a_service_in_order_can_start_servers(site: Site) -> None:
    assert await site.service.hosts.hindrance() == ""


HOSTS = (
    a_host_is_found_by_its_exact_name,
    a_host_is_found_by_a_longer_name,
    concurrent_reads_of_hosts_each_return_their_host,
    disabling_is_seen_with_its_reason_until_the_host_is_enabled,
    a_host_lists_its_servers,
    a_service_in_order_can_start_servers,
)


async def _server(moves: Moves, id_: str) -> Server:
    found = await moves.server(id_)
    assert found is not None
    return found


async def _newest(moves: Moves, source: str, id_: str) -> Move | None:
    return next((m for m in await moves.moves(source) if m.server == id_), None)


async def _ended(moves: Moves, source: str, id_: str) -> Move:
    def over(move: Move | None) -> bool:
        return move is not None and move.ended

    move = await until(lambda: _newest(moves, source, id_), over)
    assert move is not None
    return move


async def a_server_is_on_one_host_and_runs(site: Site) -> None:
    moves = site.service.moves
    id_ = await site.boot(site.hosts[0])
    here, there = [{s.id: s for s in await moves.servers(host)} for host in site.hosts]
    assert id_ in here
    assert id_ not in there
    assert here[id_] == await _server(moves, id_)
    assert await moves.in_error({id_, UNKNOWN}) == ()
    assert (here[id_].host, here[id_].status) == (site.hosts[0], "ACTIVE")
    assert (here[id_].task_state, here[id_].running, here[id_].hindrance) == ("", True, "")
    assert here[id_].size.memory_mib > 0


async def absent_servers_and_hosts_are_none_or_empty(site: Site) -> None:
    moves = site.service.moves
    assert await moves.server(UNKNOWN) is None
    assert await moves.server("../servers") is None
    for call in (moves.servers, moves.moves):
        with suppress(UnreachableError):  # a service that cannot list the host raises
            assert await call("no-such-host") == ()


async def a_running_server_moves_to_the_host_that_is_named(site: Site) -> None:
    moves, (source, target) = site.service.moves, site.hosts
    id_ = await site.boot(source)
    await moves.live_migrate(await _server(moves, id_), target)
    move = await _ended(moves, source, id_)
    assert (move.kind, move.source, move.target) == (MoveKind.LIVE, source, target)
    assert move.succeeded, move
    seen = await _server(moves, id_)
    assert (seen.host, seen.status, seen.running) == (target, "ACTIVE", True)
    assert id_ not in {s.id for s in await moves.servers(source)}
    assert await _newest(moves, target, id_) is None


async def a_running_server_moves_to_the_services_target(site: Site) -> None:
    moves, (source, target) = site.service.moves, site.hosts
    id_ = await site.boot(source)
    if not moves.chooses_target:
        with pytest.raises(RefusedError):
            await moves.live_migrate(await _server(moves, id_))
        return
    await moves.live_migrate(await _server(moves, id_))
    move = await _ended(moves, source, id_)
    assert (move.succeeded, move.target) == (True, target)


async def a_move_without_a_valid_host_fails_with_the_reason(site: Site) -> None:
    moves, hosts, (source, other) = site.service.moves, site.service.hosts, site.hosts
    if not moves.chooses_target:
        return
    id_ = await site.boot(source)
    try:
        await hosts.disable(await _known(hosts, other), "contract")
        server = await _server(moves, id_)
        await until(lambda: moves.candidates(server), lambda found: not found)
        await moves.live_migrate(server)
        move = await _ended(moves, source, id_)
        assert (move.succeeded, move.target) == (False, "")
        assert "valid host" in move.message
        assert (await _server(moves, id_)).host == source
    finally:
        await hosts.enable(await _known(hosts, other))
    await until(lambda: moves.candidates(server), bool)


async def a_stopped_server_moves_cold_and_is_confirmed(site: Site) -> None:
    moves, (source, target) = site.service.moves, site.hosts
    id_ = await site.boot_stopped(source)
    server = await _server(moves, id_)
    assert (server.status, server.running) == ("SHUTOFF", False)
    await moves.cold_migrate(server, target)

    def is_over(seen: Server) -> bool:
        needs_no_word = (seen.host, seen.status, seen.task_state) == (target, "SHUTOFF", "")
        return seen.status == "VERIFY_RESIZE" or needs_no_word

    moved = await until(lambda: _server(moves, id_), is_over)
    move = await _ended(moves, source, id_)
    assert (move.kind, move.succeeded, move.target) == (MoveKind.COLD, True, target)
    if moved.status == "VERIFY_RESIZE":
        await moves.confirm(await _server(moves, id_))
    seen = await until(lambda: _server(moves, id_), lambda s: s.status == "SHUTOFF")
    assert (seen.host, seen.running) == (target, False)
    with pytest.raises((ComputeConflictError, RefusedError)):
        await moves.confirm(seen)


async def aborting_or_forcing_an_ended_move_is_no_error(site: Site) -> None:
    moves, (source, target) = site.service.moves, site.hosts
    id_ = await site.boot(source)
    await moves.live_migrate(await _server(moves, id_), target)
    move = await _ended(moves, source, id_)
    await moves.abort(move)
    await moves.force_complete(move)
    assert (await _server(moves, id_)).host == target


async def a_host_has_an_incoming_move_until_it_has_ended(site: Site) -> None:
    hosts, moves, (target, source) = site.service.hosts, site.service.moves, site.hosts
    id_ = await site.boot(target)
    assert await moves.incoming(source) == ()
    coming: tuple[Move, ...] = ()
    while not coming:  # the move was over before it was looked at: once more, back
        source, target = target, source
        await moves.live_migrate(await _server(moves, id_), target)
        coming = await _coming_or_over(moves, id_, target)
    (move,) = coming
    assert (move.server, move.kind, move.target) == (id_, MoveKind.LIVE, target)
    assert await moves.incoming(source) == ()
    with pytest.raises((ComputeConflictError, RefusedError)):  # also once the server has arrived
        await hosts.remove(await _known(hosts, target))
    await _ended(moves, source, id_)
    assert await moves.incoming(target) == ()
    assert id_ in (await _known(hosts, target)).servers


async def _coming_or_over(moves: Moves, id_: str, target: str) -> tuple[Move, ...]:
    """Moves to a host that go on; none once the server runs there."""
    over = False

    async def look() -> tuple[Move, ...]:
        nonlocal over
        coming = await moves.incoming(target)
        server = await _server(moves, id_)
        over = (server.host, server.task_state) == (target, "")
        return coming

    return await until(look, lambda coming: bool(coming) or over)


async def moves_are_given_newest_first(site: Site) -> None:
    moves, (source, target) = site.service.moves, site.hosts
    id_ = await site.boot(source)
    for here, there in ((source, target), (target, source), (source, target)):
        await moves.live_migrate(await _server(moves, id_), there)
        await _ended(moves, here, id_)
        await until(
            lambda: _server(moves, id_), lambda s: s.status == "ACTIVE" and not s.task_state
        )
    seen = [m for m in await moves.moves(source) if m.server == id_]
    assert len(seen) == 2
    assert seen[0].created >= seen[1].created
    assert seen[0].id != seen[1].id


async def a_server_that_has_left_is_not_recovered_where_it_was(site: Site) -> None:
    moves, (source, target) = site.service.moves, site.hosts
    id_ = await site.boot(source)
    server = await _server(moves, id_)
    await moves.live_migrate(server, target)
    await _ended(moves, source, id_)
    with pytest.raises(RefusedError):
        await _recovery(site).recover(replace(server, status="ERROR"))


async def a_server_that_does_not_run_is_not_moved_live(site: Site) -> None:
    moves, (source, target) = site.service.moves, site.hosts
    id_ = await site.boot_stopped(source)
    server = await _server(moves, id_)
    assert (server.status, server.running) == ("SHUTOFF", False)
    with pytest.raises((ComputeConflictError, RefusedError), match=id_):
        await moves.live_migrate(server, target)


async def a_server_that_is_gone_cannot_be_moved(site: Site) -> None:
    moves, (source, target) = site.service.moves, site.hosts
    gone = Server(UNKNOWN, "gone", source, "ACTIVE")
    for begin in (moves.live_migrate, moves.cold_migrate):
        with pytest.raises(RefusedError, match=UNKNOWN):
            await begin(gone, target)


async def candidates_are_other_hosts_and_their_capacity_shrinks(site: Site) -> None:
    moves, (source, target) = site.service.moves, site.hosts
    server = await _server(moves, await site.boot(source))
    found = {each.host: each for each in await moves.candidates(server)}
    assert target in found
    assert source not in found
    before = found[target]
    assert before.used.memory_mib + server.size.memory_mib <= before.total.memory_mib
    await site.boot(target)

    async def used() -> int:
        (left,) = [each for each in await moves.candidates(server) if each.host == target]
        return left.used.memory_mib

    wanted = before.used.memory_mib + server.size.memory_mib
    await until(used, lambda now: now == wanted)


async def a_disabled_host_is_no_candidate(site: Site) -> None:
    moves, hosts, (source, target) = site.service.moves, site.service.hosts, site.hosts
    server = await _server(moves, await site.boot(source))

    async def names() -> set[str]:
        return {each.host for each in await moves.candidates(server)}

    try:
        await hosts.disable(await _known(hosts, target), "contract")
        await until(names, lambda seen: target not in seen)
    finally:
        await hosts.enable(await _known(hosts, target))
    await until(names, lambda seen: target in seen)


async def a_stopped_server_is_started_where_it_is(site: Site) -> None:
    await _restarts(site, await site.boot_stopped(site.hosts[0]))


async def a_running_server_is_rebooted_where_it_is(site: Site) -> None:
    await _restarts(site, await site.boot(site.hosts[0]))


async def _restarts(site: Site, id_: str) -> None:
    moves, server = site.service.moves, await _server(site.service.moves, id_)
    before = datetime.now(UTC) - timedelta(seconds=30)
    await _recovery(site).restart(server)
    meanwhile = await _server(moves, id_)
    if meanwhile.task_state:
        with pytest.raises(ComputeConflictError):
            await _recovery(site).restart(meanwhile)
    seen = await until(
        lambda: _server(moves, id_), lambda now: now.status == "ACTIVE" and not now.task_state
    )
    assert (seen.host, seen.running) == (server.host, True)
    ended = await until(
        lambda: _recovery(site).restarted(id_, before),
        lambda now: now.succeeded or now.failed != "",
    )
    assert ended == RestartResult(succeeded=True)


async def a_server_that_is_gone_cannot_be_restarted(site: Site) -> None:
    gone = Server(UNKNOWN, "gone", site.hosts[0], "SHUTOFF")
    with pytest.raises(RefusedError, match=UNKNOWN):
        await _recovery(site).restart(gone)


async def a_server_has_no_actions_of_others(site: Site) -> None:
    moves, id_ = site.service.moves, await site.boot(site.hosts[0])
    begun = datetime.now(UTC) - timedelta(minutes=1)
    await _recovery(site).restart(await _server(moves, id_))
    assert await _owners(site).actions(id_, begun) == ()
    assert await _owners(site).actions(UNKNOWN, begun) == ()


async def a_locked_server_is_found_by_its_reason_until_it_is_unlocked(site: Site) -> None:
    moves, id_, reason = site.service.moves, await site.boot(site.hosts[0]), f"{LOCK}: ü"

    async def found() -> Server | None:
        return next((one for one in await _owners(site).locked(LOCK) if one.id == id_), None)

    assert await found() is None
    before = await _server(moves, id_)
    assert (before.locked, before.locked_reason) == (False, "")
    await _owners(site).lock(before, reason)
    seen = await _server(moves, id_)
    assert (seen.locked, seen.locked_reason) == (True, reason)
    assert await found() == replace(seen, group=None)
    assert seen in await moves.servers(site.hosts[0])
    assert id_ not in {one.id for one in await _owners(site).locked(f"not {LOCK}")}
    await _restarts(site, id_)  # as an administrator's: the lock does not hinder it
    for _ in range(2):
        await _owners(site).unlock(seen)
        assert await _server(moves, id_) == before
        assert await found() is None
    await _owners(site).unlock(Server(UNKNOWN, "gone", site.hosts[0], "ACTIVE"))


async def a_locked_server_of_a_dead_host_is_evacuated_and_still_locked(site: Site) -> None:
    hosts, moves, (dead, target) = site.service.hosts, site.service.moves, site.hosts
    id_ = await site.boot(dead)
    await _owners(site).lock(await _server(moves, id_), LOCK)
    await site.crash(dead)
    try:
        await hosts.force_down(await _known(hosts, dead))
        await _recovery(site).evacuate(await _server(moves, id_), target)
        await _ended(moves, dead, id_)
        there = await until(partial(_server, moves, id_), lambda now: not now.task_state)
        assert (there.host, there.running, there.locked_reason) == (target, True, LOCK)
        await _owners(site).unlock(there)
    finally:
        await site.restore(dead)
        await until(partial(_taken_back, hosts, dead), bool)
    assert not (await _server(moves, id_)).locked


async def nothing_is_evacuated_from_a_host_that_is_not_forced_down(site: Site) -> None:
    moves, (source, target) = site.service.moves, site.hosts
    id_ = await site.boot(source)
    with pytest.raises(RefusedError, match=id_):
        await _recovery(site).evacuate(await _server(moves, id_), target)
    assert (await _server(moves, id_)).host == source


async def servers_of_a_dead_host_are_evacuated_as_they_were(site: Site) -> None:
    hosts, moves, (dead, target) = site.service.hosts, site.service.moves, site.hosts
    ran, off = await site.boot(dead), await site.boot_stopped(dead)
    await site.crash(dead)
    try:
        await hosts.force_down(await _known(hosts, dead))
        seen = await _known(hosts, dead)
        assert (seen.up, seen.forced_down, seen.enabled) == (False, True, True)
        for id_, after in ((ran, ("ACTIVE", True)), (off, ("SHUTOFF", False))):
            server = await _server(moves, id_)
            assert dead not in {each.host for each in await moves.candidates(server)}
            await _recovery(site).evacuate(server, target)
            move = await _ended(moves, dead, id_)
            assert (move.kind, move.target, move.succeeded) == (MoveKind.EVACUATION, target, True)
            there = await until(partial(_server, moves, id_), lambda now: not now.task_state)
            assert there.host == target
            assert (there.status, there.running) == after
        with pytest.raises(RefusedError):
            await hosts.take_back(await _known(hosts, dead))
        await hosts.disable(await _known(hosts, dead), "spec.maintenance=ha")
    finally:
        await site.restore(dead)
        await until(partial(_taken_back, hosts, dead), bool)
        seen = await _known(hosts, dead)
        assert (seen.forced_down, seen.enabled) == (False, False), "that is the lifecycle's"
        await hosts.enable(seen)
    await until(partial(_known, hosts, dead), lambda now: now.up)
    assert not {ran, off} & set((await _known(hosts, dead)).servers)


async def _taken_back(hosts: Hosts, name: str) -> bool:
    try:
        await hosts.take_back(await _known(hosts, name))
    except RefusedError:
        return False
    return True


OWNERS = (
    a_server_has_no_actions_of_others,
    a_locked_server_is_found_by_its_reason_until_it_is_unlocked,
    a_locked_server_of_a_dead_host_is_evacuated_and_still_locked,
)

RECOVERY = (
    a_stopped_server_is_started_where_it_is,
    a_running_server_is_rebooted_where_it_is,
    a_server_that_is_gone_cannot_be_restarted,
    nothing_is_evacuated_from_a_host_that_is_not_forced_down,
    servers_of_a_dead_host_are_evacuated_as_they_were,
)

MOVES = (
    a_server_is_on_one_host_and_runs,
    absent_servers_and_hosts_are_none_or_empty,
    a_running_server_moves_to_the_host_that_is_named,
    a_running_server_moves_to_the_services_target,
    a_move_without_a_valid_host_fails_with_the_reason,
    a_stopped_server_moves_cold_and_is_confirmed,
    aborting_or_forcing_an_ended_move_is_no_error,
    a_host_has_an_incoming_move_until_it_has_ended,
    moves_are_given_newest_first,
    a_server_that_has_left_is_not_recovered_where_it_was,
    a_server_that_does_not_run_is_not_moved_live,
    a_server_that_is_gone_cannot_be_moved,
    candidates_are_other_hosts_and_their_capacity_shrinks,
    a_disabled_host_is_no_candidate,
)


def _aggregates(site: Site) -> Aggregates:
    assert site.service.aggregates is not None
    return site.service.aggregates


async def _aggregate(aggregates: Aggregates, name: str) -> HostAggregate:
    (found,) = [one for one in await aggregates.list(fresh=True) if one.name == name]
    return found


async def a_host_is_put_into_an_aggregate_and_taken_out_however_often(site: Site) -> None:
    aggregates, host = _aggregates(site), site.hosts[0]
    await site.aggregate("contract")
    empty = await _aggregate(aggregates, "contract")
    assert empty.hosts == ()
    for _ in range(2):
        await aggregates.add(empty, host)
        assert (await _aggregate(aggregates, "contract")).hosts == (host,)
    for _ in range(2):
        await aggregates.remove(empty, host)
        assert (await _aggregate(aggregates, "contract")).hosts == ()


async def an_unknown_host_cannot_be_put_into_an_aggregate(site: Site) -> None:
    aggregates = _aggregates(site)
    await site.aggregate("contract")
    empty = await _aggregate(aggregates, "contract")
    with pytest.raises(RefusedError, match="no-such-host"):
        await aggregates.add(empty, "no-such-host")
    await aggregates.remove(empty, "no-such-host")


async def the_zone_of_a_host_with_servers_is_not_changed(site: Site) -> None:
    aggregates, host = _aggregates(site), site.hosts[0]
    await site.aggregate("contract", zone="contract")
    zone = await _aggregate(aggregates, "contract")
    await site.boot(host)
    with pytest.raises((ComputeConflictError, RefusedError), match="zone"):
        await aggregates.add(zone, host)
    assert (await _aggregate(aggregates, "contract")).hosts == ()


AGGREGATES = (
    the_zone_of_a_host_with_servers_is_not_changed,
    a_host_is_put_into_an_aggregate_and_taken_out_however_often,
    an_unknown_host_cannot_be_put_into_an_aggregate,
)


def _traits(site: Site) -> Traits:
    assert site.service.traits is not None
    return site.service.traits


async def _changed(traits: Traits, provider: str, name: str, *, wanted: bool) -> bool:
    """Write once; False when another client was quicker."""
    seen = await traits.get(provider, fresh=True)
    assert seen is not None
    names = {*seen.names, name} if wanted else {*seen.names} - {name}
    try:
        written = await traits.put(provider, replace(seen, names=tuple(sorted(names))))
    except ComputeConflictError:
        return False
    assert set(written.names) == names
    assert written == await traits.get(provider, fresh=True) or written.generation > seen.generation
    return True


async def traits_are_set_and_made_where_they_do_not_exist(site: Site) -> None:
    traits, name = _traits(site), f"CUSTOM_{uuid.uuid4().hex.upper()}"
    provider = (await _known(site.service.hosts, site.hosts[0])).hypervisor_id
    for wanted in (True, False):
        await until(partial(_changed, traits, provider, name, wanted=wanted), bool)
        seen = await traits.get(provider, fresh=True)
        assert seen is not None
        assert (name in seen.names) == wanted
        assert seen.names == tuple(sorted(seen.names))


async def an_old_generation_is_a_conflict(site: Site) -> None:
    traits = _traits(site)
    provider = (await _known(site.service.hosts, site.hosts[0])).hypervisor_id
    seen = await traits.get(provider, fresh=True)
    assert seen is not None
    with pytest.raises(ComputeConflictError):
        await traits.put(provider, replace(seen, generation=seen.generation - 1))


async def a_name_that_cannot_be_a_trait_is_refused(site: Site) -> None:
    traits = _traits(site)
    provider = (await _known(site.service.hosts, site.hosts[0])).hypervisor_id

    async def refused() -> bool:
        seen = await traits.get(provider, fresh=True)
        assert seen is not None
        try:
            await traits.put(provider, replace(seen, names=(*seen.names, "CUSTOM_low-case")))
        except ComputeConflictError:
            return False
        except RefusedError as error:
            assert "CUSTOM_low-case" in str(error)  # noqa: PT017
            return True
        raise AssertionError("it was taken")

    await until(refused, bool)


async def an_unknown_provider_has_no_traits(site: Site) -> None:
    assert await _traits(site).get(UNKNOWN) is None


TRAITS = (
    traits_are_set_and_made_where_they_do_not_exist,
    an_old_generation_is_a_conflict,
    a_name_that_cannot_be_a_trait_is_refused,
    an_unknown_provider_has_no_traits,
)


def _smoke(site: Site) -> SmokeTests:
    assert site.service.smoke_tests is not None
    return site.service.smoke_tests


async def a_test_server_is_booted_found_and_deleted(site: Site) -> None:
    smoke, host = _smoke(site), site.hosts[0]
    name = f"ohooc--{host}-{uuid.uuid4()}"
    assert await smoke.find(name) == ()
    made = await smoke.create(name, host, site.zone)

    async def found() -> TestServer:
        (one,) = await smoke.find(name)
        return one

    try:
        seen = await until(found, lambda one: one.status in {"ACTIVE", "ERROR"})
        assert (seen.id, seen.status, seen.fault) == (made.id, "ACTIVE", "")
        assert seen.launched is not None
        assert await smoke.find(name[:-1]) == ()
        assert isinstance(await smoke.console(seen, 11), str)
        there = await site.service.moves.server(made.id)
        assert there is not None
        assert there.host == host
    finally:
        await smoke.delete(made)
    await until(lambda: smoke.find(name), lambda left: not left)
    await smoke.delete(made)


SMOKE_TESTS = (a_test_server_is_booted_found_and_deleted,)

CONTRACTS: tuple[Callable[[Site], Awaitable[None]], ...] = (
    *HOSTS,
    *MOVES,
    *RECOVERY,
    *OWNERS,
    *AGGREGATES,
    *TRAITS,
    *SMOKE_TESTS,
)
