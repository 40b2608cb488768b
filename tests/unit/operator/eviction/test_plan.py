"""What a pass reads besides, begins, and when an Eviction is over."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec.structs import replace as with_fields
from tests.unit.operator.eviction.made import (
    NOW,
    POLICY,
    SIZE,
    assessed,
    capacity,
    entry,
    eviction,
    facts,
    move,
    server,
)

from hypercobalt.api.conditions import set_condition
from hypercobalt.api.eviction import EvictionCheck, EvictionStatus
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.model import Host
from hypercobalt.operator.eviction.decision import Plan
from hypercobalt.operator.eviction.estimate import Timings
from hypercobalt.operator.eviction.facts import Facts
from hypercobalt.operator.eviction.plan import plan, questions
from hypercobalt.operator.eviction.policy import Doubt, Policy
from hypercobalt.operator.eviction.progress import Begun
from hypercobalt.operator.eviction.starts import Going, Load
from hypercobalt.operator.eviction.states import (
    Arrived,
    Assessment,
    Confirm,
    Damaged,
    Departed,
    Mode,
    Moving,
    Observed,
    Ready,
    Recover,
    Start,
    Stranded,
)
from hypercobalt.operator.eviction.targets import Need

CHECKED = EvictionStatus(checks=(EvictionCheck(name="Instances", result="Passed"),))
DISABLED = set_condition((), "HypervisorDisabled", "True", "Succeeded", "", now=NOW.now)
FOUR = [assessed(server(str(n))) for n in range(4)]
LEFT = Assessment(Observed(entry("a", "Migrating"), None), Departed("moved"))
STAYS = assessed(server("b"), Stranded("no"))


def read(*, disabled: bool = True, status: EvictionStatus = CHECKED, **fields: object) -> Facts:
    hypervisor = Hypervisor(
        metadata=ObjectMeta(name="here"),
        spec=HypervisorSpec(),
        status=HypervisorStatus(conditions=DISABLED if disabled else ()),
    )
    host = Host("here", "h", "s", enabled=not disabled)
    found = {"targets": 9, **fields}
    return facts(eviction(status), hypervisor=hypervisor, looked=True, host=host, **found)


def planned(
    of: Facts, *now: Assessment, policy: Policy = POLICY, others: tuple[Load, ...] = ()
) -> Plan:
    return plan(of, now, others, Timings(), policy)


def test_capacity_of_every_instance_is_read_until_the_checks_have_passed() -> None:
    new, failed = EvictionStatus(), EvictionCheck(name="Instances", result="Failed")
    for status in (new, with_fields(new, checks=(failed,))):
        found = questions(read(status=status), FOUR, (), POLICY)
        assert [each.id for each in found.servers] == ["0", "1", "2", "3"]
    assert questions(read(), FOUR, (), POLICY).servers == ()


@pytest.mark.parametrize(
    ("of", "policy", "servers", "first"),
    [
        pytest.param(read(), POLICY, 0, False, id="the service chooses, targets are counted"),
        pytest.param(read(targets=None), POLICY, 0, True, id="targets are to be counted anew"),
        pytest.param(read(chooses_target=False), POLICY, 4, False, id="targets are ours to name"),
        pytest.param(
            read(targets=None), Policy(per_target=1), 4, False, id="a limit for each target"
        ),
        pytest.param(
            read(chooses_target=False), Policy(per_source=0), 0, False, id="no place is free"
        ),
        pytest.param(
            read(disabled=False, chooses_target=False), POLICY, 0, False, id="nothing may begin"
        ),
    ],
)
def test_capacity_is_read_only_where_something_may_begin(
    of: Facts, policy: Policy, servers: int, *, first: bool
) -> None:
    found = questions(of, FOUR, (), policy)
    assert len(found.servers) == servers
    assert (found.next is not None) is first
    assert not found.counted


def test_host_is_counted_when_nothing_is_left_to_do() -> None:
    assert questions(read(), [LEFT, STAYS], (), POLICY).counted
    assert not questions(read(), [LEFT, *FOUR], (), POLICY).counted
    assert not questions(read(disabled=False), [LEFT], (), POLICY).counted


def test_moves_begin_and_hold_their_places() -> None:
    found = planned(read(), *FOUR, policy=Policy(per_source=3))
    assert list(found.actions.values()) == [Start(server(str(n)), Mode.LIVE) for n in range(3)]
    assert found.instances is not None
    assert [one.occupies for one in found.instances] == [True, True, True, False]
    assert found.instances[0].track.of == Begun("")
    assert found.load is not None
    assert set(found.load.servers) == {"0", "1", "2"}


def test_nothing_begins_before_the_host_is_disabled() -> None:
    found = planned(read(disabled=False), *FOUR)
    assert not found.actions
    assert found.look_again == timedelta(seconds=10)


def test_nothing_begins_in_doubt_if_the_site_says_so() -> None:
    pinned = assessed(server("p", hindrance="a pinned GPU"), Stranded("cannot be moved"))
    room = {Need(SIZE, ""): (capacity("x"),)}
    of = read(status=EvictionStatus(), candidates=room)
    assert planned(of, pinned, assessed(server())).actions
    assert not planned(of, pinned, assessed(server()), policy=Policy(doubt=Doubt.STOP)).actions


def test_nothing_begins_by_servers_that_were_listed_earlier() -> None:
    under_way = replace(assessed(server("m"), Moving()))
    under_way = replace(under_way, observed=replace(under_way.observed, moves=(move(id_="m"),)))
    found = planned(read(reused=True), under_way, *FOUR)
    assert not found.actions
    assert not found.quiet  # the next pass lists them
    full = planned(read(reused=True), under_way, *FOUR, policy=Policy(per_source=1))
    assert full.quiet


def test_an_instance_without_a_place_is_told_so() -> None:
    found = planned(read(chooses_target=False), assessed(server()))
    assert found.instances is not None
    (one,) = found.instances
    assert isinstance(one.state, Ready)
    assert "has capacity for 1 vCPUs" in one.state.message


def test_what_others_have_under_way_counts() -> None:
    others = (Load("else", {str(n): Going() for n in range(100, 100 + POLICY.per_cluster - 1)}),)
    assert len(planned(read(targets=99), *FOUR, others=others).actions) == 1


@pytest.mark.parametrize(
    ("state", "action"),
    [
        pytest.param(Arrived(due=True, message=""), Confirm("a"), id="to be confirmed"),
        pytest.param(Arrived(due=False, message=""), None, id="to be confirmed later"),
        pytest.param(Damaged(server(), True, ""), Recover(server()), id="to be recovered"),
        pytest.param(Damaged(server(), False, ""), None, id="to be recovered later"),
    ],
)
def test_instances_get_what_their_state_asks_for_whatever_the_checks_find(
    state: Arrived | Damaged, action: Confirm | Recover | None
) -> None:
    found = planned(read(disabled=False), assessed(server(), state))
    assert found.actions.get("a") == action


NONE = frozenset[str]()
SOME = frozenset({"x", "b"})


@pytest.mark.parametrize(
    ("of", "now", "end"),
    [
        pytest.param(read(), [LEFT], None, id="not counted, or the host is not known just now"),
        pytest.param(read(counted=NONE), [LEFT], "Succeeded", id="nothing is counted"),
        pytest.param(read(counted=NONE), [], "Succeeded", id="nothing was there"),
        pytest.param(read(counted=NONE), [LEFT, STAYS], "Failed", id="one could not be moved"),
        pytest.param(read(counted=NONE), [LEFT, *FOUR], None, id="some are left"),
        pytest.param(read(counted=SOME), [LEFT, STAYS], None, id="one is counted, not listed"),
        pytest.param(
            read(counted=SOME, counted_for=POLICY.patience), [LEFT, STAYS], None, id="not for long"
        ),
        pytest.param(
            read(counted=SOME, counted_for=POLICY.patience * 1.1),
            [LEFT],
            "Failed",
            id="counted for too long",
        ),
        pytest.param(read(counted=NONE, disabled=False), [LEFT], None, id="a check stops it"),
    ],
)
def test_the_end(of: Facts, now: list[Assessment], end: str | None) -> None:
    found = planned(of, *now)
    assert (found.end.reason if found.end else None) == end
    assert found.release is (end is not None)
    assert found.lingering is (of.counted == SOME and end is None)


def test_what_is_counted_and_listed_nowhere_is_named_in_the_end() -> None:
    found = planned(read(counted=SOME, counted_for=POLICY.patience * 1.1), LEFT, STAYS)
    assert found.instances is not None
    assert [one.id for one in found.instances] == ["a", "b", "x"]
    assert "does not list it" in found.instances[-1].state.message
