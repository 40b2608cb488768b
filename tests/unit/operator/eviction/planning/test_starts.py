"""Which moves begin, and where they go."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.operator.eviction.made import (
    POLICY,
    SIZE,
    assessed,
    capacity,
    entry,
    move,
    server,
)

from hypercobalt.compute.model import Capacity, Move, ServerGroup, Size
from hypercobalt.operator.eviction.model.actions import Start
from hypercobalt.operator.eviction.model.decision import Going, Load
from hypercobalt.operator.eviction.model.facts import Networks, need
from hypercobalt.operator.eviction.model.policy import Order, Policy
from hypercobalt.operator.eviction.model.states import (
    Assessment,
    Evacuating,
    Mode,
    Moving,
    Observed,
    Ready,
)
from hypercobalt.operator.eviction.planning.starts import (
    Places,
    as_of,
    choose_starts,
    going,
    in_order,
    no_room,
    per_target,
    places,
    to_be_placed,
)

MANY = Places(100, 0)


def started(
    instances: list[Assessment],
    candidates: tuple[Capacity, ...] = (),
    free: Places = MANY,
    policy: Policy = POLICY,
    *,
    order: Order = Order.LARGEST,
    chooses: bool = True,
    others: tuple[Load, ...] = (),
    limits: Mapping[str, int] | None = None,
) -> tuple[Start, ...]:
    by_need = {need(one.server): candidates for one in instances if one.server}
    found = choose_starts(
        instances,
        by_need,
        free,
        policy,
        order=order,
        chooses=chooses,
        networks=Networks(),
        others=others,
        limits=limits or {},
    )
    return found.chosen


def targets(chosen: tuple[Start, ...]) -> list[str]:
    return sorted(start.target for start in chosen)


def test_the_service_chooses_the_target_unless_the_operator_must() -> None:
    assert targets(started([assessed(server("a")), assessed(server("b"))])) == ["", ""]


@pytest.mark.parametrize(
    ("chooses", "policy", "avoid"),
    [
        pytest.param(False, POLICY, frozenset[str](), id="a service that does not choose"),
        pytest.param(True, Policy(per_target=1), frozenset[str](), id="a limit for targets"),
        pytest.param(True, POLICY, frozenset({"bad"}), id="another try, elsewhere"),
    ],
)
def test_a_target_is_named_where_it_must_be(
    chooses: bool, policy: Policy, avoid: frozenset[str]
) -> None:
    of = assessed(server(), Ready(Mode.LIVE, avoid=avoid))
    assert [each.size for each in to_be_placed([of], policy, chooses=chooses)] == [SIZE]
    candidates = (capacity("bad", 9999), capacity("good"))
    chosen = started([of], candidates if avoid else candidates[1:], policy=policy, chooses=chooses)
    assert targets(chosen) == ["good"]


@pytest.mark.parametrize("interrupted", [True, False])
def test_call_for_what_a_dead_host_was_rebuilding_is_marked(interrupted: bool) -> None:
    (start,) = started([assessed(server(), Ready(Mode.EVACUATE, interrupted=interrupted))])
    assert start == Start(server(), Mode.EVACUATE, interrupted=interrupted)


def test_a_host_where_it_failed_is_better_than_none() -> None:
    of = assessed(server(), Ready(Mode.LIVE, avoid=frozenset({"bad"})))
    assert targets(started([of], (capacity("bad"),))) == ["bad"]


def test_a_limit_for_targets_spreads_moves() -> None:
    all_ = [assessed(server(str(n))) for n in range(5)]
    candidates = (capacity("x", 99_999), capacity("y", 99_999))
    assert targets(started(all_, candidates, policy=Policy(per_target=2))) == ["x", "x", "y", "y"]


@pytest.mark.parametrize(
    ("chooses", "policy", "avoid", "begun"),
    [
        pytest.param(False, POLICY, "", 3, id="where the operator names the target"),
        pytest.param(False, Policy(per_target=1), "", 1, id="not beyond the site's limit"),
        pytest.param(True, Policy(per_target=1), "", 1, id="nor where that is why it is named"),
        pytest.param(True, POLICY, "bad", 5, id="the service's own have no limit for each"),
    ],
)
def test_target_that_has_shown_to_bear_more_takes_more(
    chooses: bool, policy: Policy, avoid: str, begun: int
) -> None:
    state = Ready(Mode.LIVE, avoid=frozenset({avoid} - {""}))
    all_ = [assessed(server(str(n)), state) for n in range(5)]
    room = (capacity("x", 99_999),)
    chosen = started(all_, room, policy=policy, chooses=chooses, limits={"x": 3})
    assert targets(chosen) == ["x"] * begun


def test_strict_anti_affinity_is_kept() -> None:
    groups = {n: ServerGroup("anti-affinity", (other,)) for n, other in ("ab", "ba")}
    all_ = [assessed(server(n, group=group)) for n, group in groups.items()]
    candidates = (capacity("x", 99_999), capacity("y", 9_999))
    assert targets(started(all_, candidates, chooses=False)) == ["x", "y"]


def test_an_instance_without_a_target_is_reported_and_does_not_hold_up_smaller_ones() -> None:
    large, small = server("a", size=Size(1, 8192)), server("b", size=Size(1, 512))
    found = choose_starts(
        [assessed(large), assessed(small)],
        {need(large): (), need(small): (capacity("x", 600),)},
        MANY,
        POLICY,
        order=Order.LARGEST,
        chooses=False,
        networks=Networks(),
        others=(),
        limits={},
    )
    assert [start.server.id for start in found.chosen] == ["b"]
    assert "8192 MiB" in found.homeless["a"]


@pytest.mark.parametrize(
    ("busy", "parallelism", "others", "free"),
    [
        pytest.param(0, None, (), 10, id="the site's"),
        pytest.param(0, 9, (), 9, id="the Eviction's"),
        pytest.param(3, None, (), 7, id="some under way"),
        pytest.param(12, None, (), 0, id="more than allowed under way"),
        pytest.param(
            0,
            60,
            (Load("else", {str(n): Going() for n in range(30)}, most=99),),
            20,
            id="the cluster's",
        ),
        pytest.param(
            0,
            None,
            (Load("here", {"x": Going(), "y": Going()}, most=99),),
            8,
            id="another Eviction of the host",
        ),
        pytest.param(
            0,
            60,
            tuple(Load("else", {f"{n}-{i}": Going() for i in range(30)}, most=10) for n in "ab"),
            40,
            id="of one host its own share counts, whatever its Evictions have",
        ),
        pytest.param(
            0,
            60,
            tuple(Load(host, {f"{host}-{i}": Going() for i in range(9)}, most=10) for host in "ab"),
            32,
            id="two hosts",
        ),
        pytest.param(
            0,
            None,
            (Load("else", {str(n): Going(evacuates=True) for n in range(60)}, most=99),),
            10,
            id="evacuations leave the moves their places",
        ),
    ],
)
def test_places_are_limited_by_source_and_targets(
    busy: int, parallelism: int | None, others: tuple[Load, ...], free: int
) -> None:
    moving = [assessed(server(str(n)), Moving()) for n in range(busy)]
    found = places(moving, others, POLICY, host="here", parallelism=parallelism)
    assert (found.free, found.busy) == (free, busy)


def test_moves_of_living_hosts_hold_no_evacuation_up() -> None:
    moves = Load("x", {f"x{n}": Going() for n in range(60)}, most=99)
    evacuations = Load("y", {f"y{n}": Going(evacuates=True) for n in range(45)}, most=99)

    def free(*others: Load) -> int:
        policy = POLICY.for_evacuation
        found = places((), others, policy, host="here", parallelism=None, borne=20, evacuates=True)
        return found.free

    assert (free(moves), free(moves, evacuations)) == (20, 1)


@pytest.mark.parametrize(
    ("borne", "busy", "elsewhere", "free"),
    [
        pytest.param(None, 0, 0, 10, id="the spec has a number"),
        pytest.param(100, 0, 0, 10, id="many targets: what the source bears"),
        pytest.param(6, 0, 0, 6, id="fewer than the source bears"),
        pytest.param(6, 4, 0, 2, id="some under way"),
        pytest.param(6, 2, 3, 1, id="others move to the same targets"),
        pytest.param(6, 0, 9, 1, id="others fill the targets: one goes all the same"),
        pytest.param(6, 1, 9, 0, id="others fill the targets, and one goes"),
    ],
)
def test_moves_at_once_are_what_source_and_possible_targets_bear(
    borne: int | None, busy: int, elsewhere: int, free: int
) -> None:
    moving = [assessed(server(str(n)), Moving()) for n in range(busy)]
    others = (Load("else", {f"x{n}": Going() for n in range(elsewhere)}, most=99),)
    found = places(moving, others, POLICY, host="here", parallelism=None, borne=borne)
    assert found.free == free


@pytest.mark.parametrize(
    ("named", "chooses", "limit"),
    [(0, True, 0), (0, False, 2), (3, True, 3), (3, False, 3)],
    ids=["the service chooses", "we choose", "a limit is set", "a limit is set, and we choose"],
)
def test_a_target_that_we_name_takes_no_more_than_it_bears(
    named: int, limit: int, *, chooses: bool
) -> None:
    assert per_target(Policy(per_target=named), chooses=chooses) == limit


def test_an_instance_that_another_eviction_moves_is_left_to_it() -> None:
    others = (Load("here", {"a": Going("x")}, most=99),)
    chosen = started([assessed(server("a")), assessed(server("b"))], others=others)
    assert [start.server.id for start in chosen] == ["b"]


@pytest.mark.parametrize(
    ("each", "chosen"),
    [
        pytest.param(Going("x"), ["a"], id="a captured host shows any server as leaving it"),
        pytest.param(Going("x", evacuates=True), [], id="an evacuation"),
    ],
)
def test_evacuation_leaves_servers_to_other_evacuations_only(
    each: Going, chosen: list[str]
) -> None:
    found = choose_starts(
        [assessed(server("a"))],
        {},
        MANY,
        POLICY,
        order=Order.LARGEST,
        chooses=True,
        networks=Networks(),
        others=(Load("captured", {"a": each}, most=99),),
        limits={},
        evacuates=True,
    )
    assert [start.server.id for start in found.chosen] == chosen


LAST = (capacity("x", 1024),)


@pytest.mark.parametrize(
    ("others", "found"),
    [
        pytest.param((), ["x"], id="no other Eviction"),
        pytest.param(
            (Load("else", {"b": Going("x", server("b"))}, most=99),), [], id="not shown yet"
        ),
        pytest.param(
            (Load("else", {"b": Going("x", server("b"), claimed=True)}, most=99),),
            ["x"],
            id="shown",
        ),
        pytest.param(
            (Load("else", {"b": Going("y", server("b"))}, most=99),), ["x"], id="elsewhere"
        ),
        pytest.param(
            (Load("else", {"b": Going("x")}, most=99),), ["x"], id="of a size that is not known"
        ),
    ],
)
def test_capacity_that_another_eviction_has_claimed_is_not_claimed_again(
    others: tuple[Load, ...], found: list[str]
) -> None:
    assert targets(started([assessed(server("a"))], LAST, chooses=False, others=others)) == found


def test_members_of_a_group_that_must_part_do_not_meet_from_two_hosts() -> None:
    apart = ServerGroup("anti-affinity", ("b",)), ServerGroup("anti-affinity", ("a",))
    one, other = server("a", group=apart[0]), server("b", group=apart[1])
    others = (Load("else", {"b": Going("x", other)}, most=99),)
    candidates = (capacity("x", 99_999), capacity("y", 9_999))
    assert targets(started([assessed(one)], candidates, chooses=False, others=others)) == ["y"]


def test_claims_made_after_the_read_are_subtracted_from_capacities() -> None:
    before = (Load("else", {"old": Going("x", server("old"), claimed=True)}, most=99),)
    now = (Load("else", {i: Going("x", server(i), claimed=True) for i in ("old", "new")}, most=99),)
    (load,) = as_of(before, now)
    assert {i for i, each in load.servers.items() if each.claimed} == {"old"}


def test_capacities_that_do_not_show_a_move_yet_do_not_show_it_later() -> None:
    before = (Load("else", {"a": Going("x", server("a"), claimed=True)}, most=99),)
    (load,) = as_of(before, (Load("else", {"a": Going("x", server("a"))}, most=99),))
    assert not load.servers["a"].claimed


ON_ITS_WAY = server("a", task_state="migrating")


@pytest.mark.parametrize(
    ("target", "moves", "found"),
    [
        pytest.param(None, (), Going("", ON_ITS_WAY), id="the service chooses, no record yet"),
        pytest.param("x", (), Going("x", ON_ITS_WAY), id="the operator has named it"),
        pytest.param("x", (move("error"),), Going("x", ON_ITS_WAY), id="the last one is over"),
        pytest.param("x", (move(),), Going("there", ON_ITS_WAY, claimed=True), id="by its record"),
        pytest.param(None, (move("accepted"),), Going("there", ON_ITS_WAY), id="not claimed yet"),
    ],
)
def test_target_of_a_move_under_way_is_read_from_its_records(
    target: str | None, moves: tuple[Move, ...], found: Going
) -> None:
    seen = Observed(entry("a", target=target), ON_ITS_WAY, moves)
    assert going(Assessment(seen, Moving())) == found


def test_evacuation_under_way_is_known_as_one() -> None:
    assert going(assessed(server(), Evacuating())) == Going("", server(), evacuates=True)
    seen = Observed(entry("a"), server(), (move("running", kind="evacuation"),))
    assert going(Assessment(seen, Evacuating())).evacuates


def test_moves_to_a_target_hold_no_evacuation_to_it_up_but_take_its_capacity() -> None:
    moves = {str(n): Going("x", server(str(n))) for n in range(2)}
    waiting, others = assessed(server(), Ready(Mode.EVACUATE)), (Load("else", moves, most=99),)

    def targets_with(room: int, *, evacuates: bool) -> list[str]:
        found = choose_starts(
            [waiting],
            {need(server()): (capacity("x", room),)},
            MANY,
            Policy(per_target=2),
            order=Order.LARGEST,
            chooses=True,
            networks=Networks(),
            others=others,
            limits={},
            evacuates=evacuates,
        )
        return targets(found.chosen)

    assert targets_with(3 * SIZE.memory_mib, evacuates=True) == ["x"]
    assert targets_with(3 * SIZE.memory_mib, evacuates=False) == []
    assert targets_with(2 * SIZE.memory_mib, evacuates=True) == []


def test_own_moves_count_for_the_cluster() -> None:
    moving = [assessed(server(str(n)), Moving()) for n in range(3)]
    most = Policy(per_source=10, per_cluster=5)
    assert places(moving, (), most, host="here", parallelism=None) == Places(2, 3)


def test_instance_that_has_left_or_is_not_ready_is_not_begun() -> None:
    gone = Assessment(Observed(entry("b"), None), Ready(Mode.LIVE))
    busy = assessed(server("c"), Moving())
    assert [s.server.id for s in started([gone, busy, assessed(server("a"))])] == ["a"]


def test_move_whose_size_is_unknown_takes_a_place_of_its_target() -> None:
    others = (Load("else", {"b": Going("x"), "c": Going("x")}, most=99),)
    found = started([assessed(server())], LAST, policy=Policy(per_target=2), others=others)
    assert found == ()
    assert targets(started([assessed(server())], LAST, policy=Policy(per_target=3), others=others))


@pytest.mark.parametrize(
    ("size", "busy", "text"),
    [
        (Size(2, 1024), 0, "none of 1 candidate hosts has capacity for 2 vCPUs, 1024 MiB"),
        (
            Size(2, 1024, 20),
            1,
            "none of 1 candidate hosts has capacity for 2 vCPUs, 1024 MiB and 20 GiB of local disk"
            "; waiting for running migrations",
        ),
    ],
)
def test_instance_without_a_place_names_what_it_needs(size: Size, busy: int, text: str) -> None:
    assert no_room(size, LAST, busy) == text


def test_moves_that_begin_now_are_waited_for_too() -> None:
    one, other = server("a"), server("b")
    found = choose_starts(
        [assessed(one), assessed(other)],
        {need(one): LAST},
        Places(2, 1),
        POLICY,
        order=Order.LARGEST,
        chooses=False,
        networks=Networks(),
        others=(),
        limits={},
    )
    assert found.homeless["b"].endswith("; waiting for running migrations")


@pytest.mark.parametrize(
    ("order", "ids"),
    [
        (Order.LARGEST, ["large", "middle", "small"]),
        (Order.SMALLEST, ["small", "middle", "large"]),
        (Order.URGENT, ["middle", "large", "small"]),
    ],
)
def test_instances_start_in_the_order_of_the_policy(order: Order, ids: list[str]) -> None:
    found = in_order(
        [
            server("small", "SHUTOFF", size=Size(1, 1)),
            server("large", size=Size(1, 3)),
            server("middle", size=Size(1, 2)),
        ],
        order,
    )
    assert [each.id for each in found] == ids


@pytest.mark.parametrize("order", list(Order))
def test_a_higher_priority_goes_first_in_every_order(order: Order) -> None:
    servers = [
        server("small", size=Size(1, 1)),
        server("large", size=Size(1, 9)),
        server("off", "SHUTOFF", priority=1),
        server("low", size=Size(1, 99), priority=-1),
    ]
    found = [each.id for each in in_order(servers, order)]
    assert (found[0], found[-1]) == ("off", "low")


@given(
    memory=st.lists(st.integers(1, 64), min_size=1, max_size=40),
    left=st.lists(st.integers(0, 200), min_size=1, max_size=6),
    free=st.integers(0, 20),
    limit=st.integers(0, 5),
)
def test_no_limit_is_ever_broken(memory: list[int], left: list[int], free: int, limit: int) -> None:
    instances = [assessed(server(str(n), size=Size(1, mib))) for n, mib in enumerate(memory)]
    hosts = tuple(capacity(f"h{n}", mib) for n, mib in enumerate(left))
    chosen = started(instances, hosts, Places(free, 0), Policy(per_target=limit), chooses=False)
    assert len(chosen) <= free
    for each in hosts:
        going = [start.server.size.memory_mib for start in chosen if start.target == each.host]
        assert sum(going) <= each.total.memory_mib
        assert not limit or len(going) <= limit
    assert len({start.server.id for start in chosen}) == len(chosen)
