"""Which host an instance goes to."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest
from tests.unit.operator.eviction.made import capacity, server

from hypercobalt.compute.model import Capacity, ServerGroup, Size
from hypercobalt.operator.eviction.planning.targets import Reservations, choose

HAS = Size(8, 8192, 80)


@pytest.mark.parametrize("used", [Size(0, 0, 0), Size(1, 1024, 10)], ids=["empty", "in use"])
@pytest.mark.parametrize("promised", [False, True], ids=["nothing promised", "one promised"])
@pytest.mark.parametrize(
    ("more", "fits"),
    [
        pytest.param(Size(0, 0, 0), True, id="what is left, exactly"),
        pytest.param(Size(0.5, 0, 0), False, id="too few vCPUs"),
        pytest.param(Size(0, 1, 0), False, id="too little memory"),
        pytest.param(Size(0, 0, 1), False, id="too little local disk"),
    ],
)
def test_host_takes_what_fits_besides_what_is_used_and_promised(
    used: Size, more: Size, *, promised: bool, fits: bool
) -> None:
    reservations, given = Reservations(), Size(2, 2048, 20)
    if promised:
        reservations.add(server("b", size=given), "x")
    before = given if promised else Size(0, 0, 0)
    wanted = Size(
        HAS.vcpus - used.vcpus - before.vcpus + more.vcpus,
        HAS.memory_mib - used.memory_mib - before.memory_mib + more.memory_mib,
        HAS.disk_gib - used.disk_gib - before.disk_gib + more.disk_gib,
    )
    chosen = choose(server(size=wanted), [Capacity("x", HAS, used)], reservations)
    assert chosen == ("x" if fits else None)


@pytest.mark.parametrize(
    ("candidates", "promised", "chosen"),
    [
        pytest.param((capacity("x", 9000), capacity("y", 8000)), (), "x", id="the larger"),
        pytest.param(
            (capacity("x", 9000, 5000), capacity("y", 8000)), (), "y", id="the one less used"
        ),
        pytest.param(
            (capacity("x", 9000), capacity("y", 8000)), ("x",), "y", id="the one less promised"
        ),
    ],
)
def test_instance_goes_where_most_memory_is_left(
    candidates: tuple[Capacity, ...], promised: tuple[str, ...], chosen: str
) -> None:
    reservations = Reservations()
    for host in promised:
        reservations.add(server("b", size=Size(1, 2000)), host)
    assert choose(server(), candidates, reservations) == chosen


@pytest.mark.parametrize(
    ("avoid", "last", "chosen"),
    [
        pytest.param("", "", "x", id="most memory"),
        pytest.param("x", "", "y", id="failed there"),
        pytest.param("", "x", "y", id="its network binds no ports"),
        pytest.param("", "xy", "z", id="one network is in order"),
        pytest.param("z", "xy", "x", id="failed where the network is in order"),
        pytest.param("xyz", "x", "y", id="failed everywhere"),
        pytest.param("xyz", "xyz", "x", id="nothing better anywhere"),
    ],
)
def test_less_suitable_hosts_come_last_but_before_none(
    avoid: Collection[str], last: Collection[str], chosen: str
) -> None:
    candidates = [capacity("x", 9000), capacity("y", 8000), capacity("z", 7000)]
    assert choose(server(), candidates, Reservations(), avoid=avoid, last=last) == chosen


@pytest.mark.parametrize(
    ("late", "avoid", "chosen"),
    [("x", "", "y"), ("xy", "", "z"), ("x", "yz", "x"), ("xyz", "", "x")],
)
def test_host_that_answers_late_comes_last_but_for_those_where_a_move_has_failed(
    late: str, avoid: str, chosen: str
) -> None:
    sizes = {"x": 9000, "y": 8000, "z": 7000}
    candidates = [replace(capacity(name, mib), is_late=name in late) for name, mib in sizes.items()]
    assert choose(server(), candidates, Reservations(), avoid=avoid) == chosen


@pytest.mark.parametrize(
    ("latest", "last", "chosen"),
    [
        pytest.param("", "", "x", id="most memory"),
        pytest.param("x", "", "y", id="failed there last"),
        pytest.param("y", "", "x", id="or on another"),
        pytest.param("x", "yz", "x", id="the only one whose network binds ports"),
    ],
)
def test_where_all_have_failed_the_last_one_is_not_tried_again_at_once(
    latest: str, last: str, chosen: str
) -> None:
    """One host would have every attempt, and be the only one to report on them."""
    candidates = [capacity("x", 9000), capacity("y", 8000), capacity("z", 7000)]
    avoid = {one.host for one in candidates}
    place = choose(server(), candidates, Reservations(), avoid=avoid, latest=latest, last=last)
    assert place == chosen


PAIR = (capacity("x", 9000), capacity("y", 6000))


@pytest.mark.parametrize(
    ("limit", "chosen"),
    [(0, "x"), (1, "y"), (2, "y"), (3, "x")],
    ids=["any number", "one", "two", "three"],
)
def test_host_takes_so_many_moves_at_once(limit: int, chosen: str) -> None:
    reservations = Reservations()
    reservations.add(server("b"), "x")
    reservations.add(server("c"), "x")
    assert choose(server(), PAIR, reservations, per_target=limit) == chosen


@pytest.mark.parametrize(
    ("limits", "chosen"),
    [
        pytest.param({}, "y", id="none has shown more"),
        pytest.param({"x": 3}, "x", id="it bears three"),
        pytest.param({"x": 2}, "y", id="it bears two"),
        pytest.param({"y": 3}, "y", id="the other one bears three"),
        pytest.param({"y": 0, "x": 3}, "x", id="more than the other"),
    ],
)
def test_host_that_has_shown_to_bear_more_takes_more(limits: dict[str, int], chosen: str) -> None:
    reservations = Reservations()
    reservations.add(server("b"), "x")
    reservations.add(server("c"), "x")
    assert choose(server(), PAIR, reservations, per_target=2, limits=limits) == chosen


def test_host_takes_any_number_of_moves_where_no_limit_is_given() -> None:
    reservations = Reservations()
    reservations.add(server("b"), "x")
    assert choose(server(), PAIR, reservations) == "x"


@pytest.mark.parametrize(
    ("policy", "chosen"),
    [
        ("anti-affinity", "y"),
        ("soft-anti-affinity", "x"),
        ("affinity", "x"),
        ("soft-affinity", "x"),
        (None, "x"),
    ],
)
def test_only_members_of_a_group_of_strict_anti_affinity_part(
    policy: str | None, chosen: str
) -> None:
    reservations = Reservations()
    groups = [ServerGroup(policy, (other,)) if policy else None for other in "ab"]
    reservations.add(server("b", group=groups[0]), "x")
    assert choose(server("a", group=groups[1]), PAIR, reservations) == chosen
