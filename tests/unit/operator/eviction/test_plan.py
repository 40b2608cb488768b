"""The reads and starts of a pass, and the end of an Eviction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
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
    hypervisor,
    move,
    server,
    situation,
)

from hypercobalt.api.conditions import set_condition
from hypercobalt.api.eviction import EvictionCheck, EvictionMode, EvictionStatus, Trigger
from hypercobalt.api.fencing import FencingPhase
from hypercobalt.api.ha_switch import PAUSE
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.errors import UnreachableError
from hypercobalt.compute.model import Host
from hypercobalt.operator.eviction.assess import assess
from hypercobalt.operator.eviction.model.actions import (
    Confirm,
    Recover,
    Restart,
    Start,
    is_evacuation,
)
from hypercobalt.operator.eviction.model.decision import EvictionPlan, Going, Load
from hypercobalt.operator.eviction.model.facts import Facts, Need, need
from hypercobalt.operator.eviction.model.policy import Doubt, Policy
from hypercobalt.operator.eviction.model.states import (
    Arrived,
    Assessment,
    Crashed,
    Damaged,
    Departed,
    Evacuating,
    Mode,
    Moving,
    Observed,
    Ready,
    Restarted,
    Restarting,
    Stranded,
    Unaffected,
    Unconfirmed,
)
from hypercobalt.operator.eviction.model.tracks import Begun
from hypercobalt.operator.eviction.model.whereabouts import Whereabouts
from hypercobalt.operator.eviction.plan import plan, questions
from hypercobalt.operator.eviction.planning.estimate import Timings
from hypercobalt.operator.eviction.planning.polling import ARRIVING

CHECKED = EvictionStatus(checks=(EvictionCheck(name="Instances", result="Passed"),))
DISABLED = set_condition((), "HypervisorDisabled", "True", "Succeeded", "", now=NOW.now)
DOWN = Host("here", "h", "s", enabled=False, up=False)
DEAD = hypervisor("Fenced")
EVACUATED = Ready(Mode.EVACUATE)
DELETED = with_fields(
    eviction(CHECKED), metadata=ObjectMeta(name="here", deletionTimestamp=NOW.now)
)
FOUR = [assessed(server(str(n))) for n in range(4)]
LEFT = Assessment(Observed(entry("a", "Migrating"), None), Departed("moved"))
STAYS = assessed(server("b"), Stranded("no"))


def hosts(count: int) -> tuple[str, ...]:
    return tuple(f"to-{number}" for number in range(count))


def read(*, disabled: bool = True, status: EvictionStatus = CHECKED, **fields: object) -> Facts:
    well = Hypervisor(
        metadata=ObjectMeta(name="here"),
        spec=HypervisorSpec(),
        status=HypervisorStatus(conditions=DISABLED if disabled else ()),
    )
    host = Host("here", "h", "s", enabled=not disabled)
    found = {"targets": hosts(9), "hypervisor": well, "host": host, **fields}
    return facts(eviction(status), looked=True, **found)


def planned(
    of: Facts, *now: Assessment, policy: Policy = POLICY, others: tuple[Load, ...] = ()
) -> EvictionPlan:
    return plan(situation(of, policy), now, others, Timings())


def test_capacity_of_every_instance_is_read_until_the_checks_have_passed() -> None:
    new, failed = EvictionStatus(), EvictionCheck(name="Instances", result="Failed")
    for status in (new, with_fields(new, checks=(failed,))):
        found = questions(situation(read(status=status)), FOUR, ())
        assert [each.id for each in found.servers] == ["0", "1", "2", "3"]
    assert questions(situation(read()), FOUR, ()).servers == ()


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
    found = questions(situation(of, policy), FOUR, ())
    assert len(found.servers) == servers
    assert (found.next is not None) is first
    assert not found.counted


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(read(host=None), id="the compute service has no such host"),
        pytest.param(read(hypervisor=None), id="there is no Hypervisor"),
        pytest.param(read(trouble=UnreachableError("Nova is away")), id="it cannot be read"),
        pytest.param(replace(read(), eviction=DELETED), id="the Eviction is deleted"),
    ],
)
def test_capacity_is_not_read_where_no_move_will_begin(of: Facts) -> None:
    fresh = replace(of, status=EvictionStatus(), targets=None, chooses_target=False)
    assert situation(fresh).settled is not None


def test_targets_are_counted_for_the_first_that_waits_unless_a_limit_is_set() -> None:
    of = read(targets=None)
    assert questions(situation(of), FOUR, ()).next == server("0")
    limited = replace(of, eviction=eviction(CHECKED, parallelism=2))
    assert questions(situation(limited), FOUR, ()).next is None


def test_limits_of_an_evacuation_free_places_for_which_capacity_is_read() -> None:
    of = read(hypervisor=DEAD, host=DOWN, chooses_target=False)
    busy = [assessed(server(f"m{n}"), Evacuating()) for n in range(POLICY.per_source)]
    waiting = assessed(server(), EVACUATED)
    assert questions(situation(of), [*busy, waiting], ()).servers == (server(),)


@pytest.mark.parametrize(
    ("of", "most"),
    [
        pytest.param(read(), POLICY.per_source, id="live"),
        pytest.param(read(hypervisor=DEAD, host=DOWN), POLICY.evacuations, id="evacuation"),
        pytest.param(
            replace(read(hypervisor=DEAD, host=DOWN), eviction=eviction(CHECKED, parallelism=3)),
            3,
            id="as ordered",
        ),
    ],
)
def test_remaining_moves_are_estimated_with_their_places(of: Facts, most: int) -> None:
    assert situation(of).most_at_once == most


def test_host_is_counted_when_no_instance_is_left() -> None:
    assert questions(situation(read()), [LEFT, STAYS], ()).counted
    assert not questions(situation(read()), [LEFT, *FOUR], ()).counted
    assert not questions(situation(read(disabled=False)), [LEFT], ()).counted


def test_moves_begin_and_hold_their_places() -> None:
    found = planned(read(), *FOUR, policy=Policy(per_source=3))
    assert list(found.actions.values()) == [Start(server(str(n)), Mode.LIVE) for n in range(3)]
    assert found.instances is not None
    assert [one.occupies for one in found.instances] == [True, True, True, False]
    assert found.instances[0].track.follows == Begun("")
    assert found.load is not None
    assert set(found.load.servers) == {"0", "1", "2"}


def test_no_move_begins_before_the_host_is_disabled() -> None:
    found = planned(read(disabled=False), *FOUR)
    assert not found.actions
    assert found.look_again == timedelta(seconds=10)


def test_no_move_begins_with_warnings_if_the_policy_is_stop() -> None:
    pinned = assessed(server("p", hindrance="a pinned GPU"), Stranded("cannot be moved"))
    room = {Need(SIZE, ""): (capacity("x"),)}
    of = read(status=EvictionStatus(), candidates=room)
    assert planned(of, pinned, assessed(server())).actions
    assert not planned(of, pinned, assessed(server()), policy=Policy(doubt=Doubt.STOP)).actions


def test_no_move_begins_by_an_earlier_list_of_servers() -> None:
    under_way = replace(assessed(server("m"), Moving()))
    under_way = replace(
        under_way, observed=replace(under_way.observed, moves=(move("running", "m"),))
    )
    found = planned(read(reused=True), under_way, *FOUR)
    assert not found.actions
    assert not found.quiet  # the next pass lists them
    assert found.load is not None
    assert set(found.load.servers) == {"m"}
    full = planned(read(reused=True), under_way, *FOUR, policy=Policy(per_source=1))
    assert full.quiet
    assert planned(read(), *FOUR).quiet, "the next pass looks for their records"
    assert not planned(read(disabled=False), *FOUR).quiet, "nothing is under way"


def test_plan_of_a_host_that_was_not_read_is_refused() -> None:
    with pytest.raises(ValueError, match="its host was not read"):
        planned(replace(read(), looked=False, host=None))
    without = replace(situation(read()), facts=replace(read(), hypervisor=None))
    with pytest.raises(ValueError, match="its host was not read"):
        without.host()


def test_load_names_the_targets_of_what_begins() -> None:
    of = read(chooses_target=False, candidates={Need(SIZE, ""): (capacity("x"),)})
    found = planned(of, assessed(server()))
    assert found.load == Load("here", {"a": Going("x", server())}, most=POLICY.per_source)


@pytest.mark.parametrize(
    ("of", "policy", "begin"),
    [
        pytest.param(read(targets=hosts(1)), POLICY, 2, id="one target bears two"),
        pytest.param(read(targets=()), POLICY, 2, id="none is known: the service may have one"),
        pytest.param(
            replace(read(targets=hosts(1)), eviction=eviction(CHECKED, parallelism=4)),
            POLICY,
            4,
            id="unless the Eviction sets the limit",
        ),
        pytest.param(
            read(
                targets=hosts(1),
                chooses_target=False,
                candidates={Need(SIZE, ""): (capacity("x"),)},
            ),
            Policy(per_target=4),
            4,
            id="or the site does",
        ),
    ],
)
def test_moves_begin_as_far_as_the_targets_bear_them(of: Facts, policy: Policy, begin: int) -> None:
    assert len(planned(of, *FOUR, policy=policy).actions) == begin


SEVEN = [assessed(server(str(n))) for n in range(7)]


@pytest.mark.parametrize(
    ("of", "policy", "begin"),
    [
        pytest.param(read(targets=("x",), limits={"x": 5}), POLICY, 5, id="one that bears five"),
        pytest.param(
            read(targets=("x", "y"), limits={"x": 4}), POLICY, 6, id="one of two, the other two"
        ),
        pytest.param(read(targets=("x",), limits={"y": 5}), POLICY, 2, id="another host does"),
        pytest.param(
            read(targets=("x",), limits={"x": 7}), Policy(per_source=3), 3, id="the source's limit"
        ),
        pytest.param(
            read(targets=("x",), limits={"x": 7}), Policy(per_cluster=4), 4, id="the cluster's"
        ),
        pytest.param(
            replace(
                read(targets=("x",), limits={"x": 7}), eviction=eviction(CHECKED, parallelism=1)
            ),
            POLICY,
            1,
            id="the Eviction's",
        ),
        pytest.param(
            read(
                targets=("x",),
                limits={"x": 5},
                chooses_target=False,
                candidates={Need(SIZE, ""): (capacity("x", 99_999),)},
            ),
            POLICY,
            5,
            id="where the operator names it",
        ),
        pytest.param(
            read(limits={"x": 5}, candidates={Need(SIZE, ""): (capacity("x", 99_999),)}),
            Policy(per_target=1),
            1,
            id="the site's limit of targets",
        ),
    ],
)
def test_target_takes_as_many_moves_as_it_has_shown_to_bear_within_every_other_limit(
    of: Facts, policy: Policy, begin: int
) -> None:
    assert len(planned(of, *SEVEN, policy=policy).actions) == begin


def test_what_moves_have_shown_is_no_limit_of_an_evacuation() -> None:
    of = read(targets=("x",), limits={"x": 2}, hypervisor=DEAD, host=DOWN)
    dead = [replace(one, state=EVACUATED) for one in SEVEN]
    assert len(planned(of, *dead).actions) == 7
    named = replace(of, chooses_target=False, candidates={Need(SIZE, ""): (capacity("x", 99_999),)})
    assert len(planned(named, *dead).actions) == 7


@pytest.mark.parametrize(
    ("locked", "locks"),
    [
        pytest.param({}, True, id="unlocked"),
        pytest.param({"locked": True, "locked_reason": "audit"}, False, id="by its owner"),
    ],
)
def test_server_is_locked_for_its_evacuation_unless_its_owner_has_locked_it(
    locked: dict[str, bool | str], locks: bool
) -> None:
    given = assessed(server("a", "ACTIVE", **locked), EVACUATED)
    (start,) = planned(read(hypervisor=DEAD, host=DOWN), given).actions.values()
    assert isinstance(start, Start)
    assert bool(start.lock) is locks


def test_moves_of_another_eviction_of_the_host_count_by_the_name_in_nova() -> None:
    of = read(host=Host("in-nova", "h", "s", enabled=False))
    full = {str(n): Going() for n in range(100, 100 + POLICY.per_source - 1)}
    assert len(planned(of, *FOUR, others=(Load("in-nova", full, most=10),)).actions) == 1
    assert len(planned(of, *FOUR, others=(Load("here", full, most=10),)).actions) == 4


def test_an_instance_without_a_target_is_reported() -> None:
    found = planned(read(chooses_target=False), assessed(server()))
    assert found.instances is not None
    (one,) = found.instances
    assert isinstance(one.state, Ready)
    assert "has capacity for 1 vCPUs" in one.state.message


def test_moves_of_others_under_way_count() -> None:
    others = (
        Load("else", {str(n): Going() for n in range(100, 100 + POLICY.per_cluster - 1)}, most=99),
    )
    assert len(planned(read(targets=hosts(99)), *FOUR, others=others).actions) == 1


def test_move_by_the_report_of_its_host_alone_is_no_load_of_others() -> None:
    found = planned(read(), assessed(server("b"), Unconfirmed()), assessed(server("c"), Moving()))
    assert found.load == Load("here", {"c": Going("", server("c"))}, most=POLICY.per_source)


@pytest.mark.parametrize(
    ("state", "action"),
    [
        pytest.param(Arrived(due=True, message=""), Confirm(), id="to be confirmed"),
        pytest.param(Arrived(due=False, message=""), None, id="to be confirmed later"),
        pytest.param(Damaged(server(), True, ""), Recover(server()), id="to be recovered"),
        pytest.param(Damaged(server(), False, ""), None, id="to be recovered later"),
    ],
)
def test_instances_get_what_their_state_needs_whatever_the_checks_find(
    state: Arrived | Damaged, action: Confirm | Recover | None
) -> None:
    found = planned(read(disabled=False), assessed(server(), state))
    assert found.actions.get("a") == action


CRASHED = Crashed(server("a", "SHUTOFF"))


def test_instances_of_a_dead_host_are_evacuated_by_their_priority() -> None:
    now = [assessed(server(str(n), priority=n), EVACUATED) for n in range(30)]
    found = planned(read(hypervisor=DEAD, host=DOWN), *now)
    assert list(found.actions) == [str(n) for n in range(29, 9, -1)]
    assert {type(action) for action in found.actions.values()} == {Start}
    assert found.instances is not None
    assert {type(one.state) for one in found.instances if one.attempts} == {Evacuating}
    assert found.load is not None
    assert len(found.load.servers) == 20
    few = with_fields(eviction(CHECKED, parallelism=3))
    of = replace(read(hypervisor=DEAD, host=DOWN), eviction=few)
    assert len(planned(of, *now).actions) == 3


def test_instance_that_cannot_be_evacuated_holds_up_no_other() -> None:
    pinned = assessed(server("p", waits_for_host="its disk"), Stranded("waits for its host"))
    of = read(hypervisor=DEAD, host=DOWN, status=EvictionStatus())
    found = planned(of, pinned, assessed(server(), EVACUATED), policy=Policy(doubt=Doubt.STOP))
    assert list(found.actions) == ["a"]
    assert found.checks is not None
    assert "waits for its host: its disk" in "; ".join(found.checks.doubts)


def test_no_target_bears_too_much_of_an_evacuation() -> None:
    room = {Need(SIZE, ""): (capacity("x", 4096), capacity("y", 1024))}
    now = [assessed(server(str(n)), EVACUATED) for n in range(9)]
    of = read(hypervisor=DEAD, host=DOWN, chooses_target=False, candidates=room)
    assert len(questions(situation(of), now, ()).servers) == 9
    found = [action.target for action in planned(of, *now).actions.values()]  # type: ignore[union-attr]
    assert sorted(found) == ["x", "x", "x", "x", "y"]


@dataclass(frozen=True)
class World:
    """What decides whether a host counts as dead, and what may be done then."""

    phase: str
    boot: str
    maintenance: str
    up: bool
    forced_down: bool
    mode: str | None
    trigger: str | None
    named: bool
    status: str
    tried: str | None
    record: str

    def facts(self) -> Facts:
        known = EvictionStatus(
            instances=(entry(mode=self.tried, attempts=1 if self.tried else None),),
            checks=CHECKED.checks,
        )
        named = ("a",) if self.named else ()
        return facts(
            eviction(known, mode=self.mode, trigger=self.trigger, instances=named),
            hypervisor=hypervisor(self.phase, boot=self.boot, maintenance=self.maintenance),
            host=Host("h", "h", "s", False, up=self.up, forced_down=self.forced_down),
            looked=True,
            targets=hosts(9),
            servers=(server(status=self.status),),
            moves=(move(self.record),) if self.record else (),
        )

    @property
    def is_down(self) -> bool:
        return self.forced_down or not self.up

    @property
    def is_proven_dead(self) -> bool:
        return self.phase == "Fenced" and self.boot == "1" and self.is_down


WORLDS = st.builds(
    World,
    phase=st.sampled_from(["", *FencingPhase]),
    boot=st.sampled_from(["1", "2"]),
    maintenance=st.sampled_from(["", "auto", "ha"]),
    up=st.booleans(),
    forced_down=st.booleans(),
    mode=st.sampled_from([None, *EvictionMode]),
    trigger=st.sampled_from([None, *Trigger]),
    named=st.booleans(),
    status=st.sampled_from(["ACTIVE", "SHUTOFF", "ERROR", "MIGRATING", "PAUSED"]),
    tried=st.sampled_from([None, "live", "cold", "restart", "evacuate"]),
    record=st.sampled_from(["", "running", "error", "completed"]),
)


def begun(of: Facts) -> list[Start]:
    found = planned(of, *assess(situation(of), {})).actions.values()
    return [action for action in found if isinstance(action, Start)]


@given(WORLDS)
def test_instances_are_evacuated_only_when_the_present_boot_is_fenced(world: World) -> None:
    starts = begun(world.facts())
    assert world.is_proven_dead or not any(map(is_evacuation, starts))
    assert not world.is_down or all(map(is_evacuation, starts))


@given(WORLDS)
def test_instances_of_a_fenced_host_are_evacuated(world: World) -> None:
    dead = replace(world, phase="Fenced", boot="1", up=False, mode=None, record="", tried=None)
    (start,) = begun(dead.facts())
    assert is_evacuation(start)


@pytest.mark.parametrize(
    ("of", "restarts"),
    [
        pytest.param(read(), True, id="the host is well"),
        pytest.param(read(reused=True), False, id="its servers are listed first"),
        pytest.param(read(host=DOWN), False, id="the host is down"),
    ],
)
def test_crashed_instances_are_restarted_on_a_host_that_is_up(of: Facts, *, restarts: bool) -> None:
    found = planned(of, assessed(server("a", "SHUTOFF"), CRASHED))
    assert list(found.actions.values()) == ([Restart(CRASHED.server)] if restarts else [])
    assert found.instances is not None
    (one,) = found.instances
    assert isinstance(one.state, Restarting if restarts else Crashed)
    assert not found.load or not found.load.servers, "a restart takes no place of a move"


def test_capacity_is_not_read_for_restarts() -> None:
    restart = eviction(EvictionStatus(), mode="restart")
    of = replace(read(status=EvictionStatus()), eviction=restart)
    assert questions(situation(of), [assessed(server("a", "SHUTOFF"), CRASHED)], ()).servers == ()
    assert [check.name for check in planned(of).checks.checks] == [  # type: ignore[union-attr]
        "HostUp",
        "HostDisabled",
        "Instances",
    ]


NONE = frozenset[str]()
SOME = frozenset({"x", "b"})
ONE = frozenset({"a"})
COMES = move("running", "x", source="there", target="here")
RUNS = assessed(server(), Restarted("restarted"))
STAYS_OFF = assessed(server(status="SHUTOFF"), Unaffected("is off", stays=True))


@pytest.mark.parametrize(
    ("of", "now", "end"),
    [
        pytest.param(read(), [LEFT], None, id="not counted, or the host is not known just now"),
        pytest.param(read(counted=NONE), [LEFT], "Succeeded", id="nothing is counted"),
        pytest.param(read(counted=NONE), [], "Succeeded", id="nothing was there"),
        pytest.param(read(counted=NONE), [LEFT, STAYS], "Failed", id="one could not be moved"),
        pytest.param(read(counted=NONE), [LEFT, *FOUR], None, id="some are left"),
        pytest.param(read(counted=ONE), [RUNS], "Succeeded", id="one runs again where it was"),
        pytest.param(read(counted=ONE), [STAYS_OFF], "Succeeded", id="one stays, as it is to"),
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
        pytest.param(read(counted=NONE, incoming=(COMES,)), [LEFT], None, id="one comes"),
    ],
)
def test_eviction_ends_when_its_instances_are_settled(
    of: Facts, now: list[Assessment], end: str | None
) -> None:
    found = planned(of, *now)
    assert (found.end.reason if found.end else None) == end
    assert found.release is (end is not None)
    assert found.lingering is (of.counted == SOME and end is None)


def test_instance_that_is_in_error_where_it_has_come_to_is_named_in_the_end() -> None:
    broken = server("a", "ERROR", host="there", fault="no port")
    found = planned(read(counted=NONE, left={"a": Whereabouts(broken)}), LEFT)
    assert found.end is not None
    assert found.end.reason == "Failed"
    assert found.instances is not None
    (one,) = found.instances
    assert one.state == Stranded("has left the host, and it is in ERROR on there: no port")


def test_instance_in_error_without_a_reason_is_named_with_its_host() -> None:
    broken = server("a", "ERROR", host="there")
    found = planned(read(counted=NONE, left={"a": Whereabouts(broken)}), LEFT)
    assert found.instances is not None
    text = "has left the host, and it is in ERROR on there: the compute service gives no reason"
    assert [one.state for one in found.instances] == [Stranded(text)]


def test_instance_in_error_that_has_not_left_keeps_its_own_state() -> None:
    broken = server("b", "ERROR", host="here", fault="no port")
    found = planned(read(counted=NONE, left={"b": Whereabouts(broken)}), STAYS)
    assert found.instances is not None
    assert [one.state for one in found.instances] == [STAYS.state]


def test_whereabouts_of_what_has_left_are_read_with_the_count() -> None:
    found = questions(situation(read()), [LEFT, STAYS], ())
    assert (found.counted, found.left) == (True, frozenset("a"))
    assert questions(situation(read()), [LEFT, *FOUR], ()).left == frozenset()


def test_eviction_does_not_end_over_an_instance_that_is_not_seen_to_run() -> None:
    down = Whereabouts(server("a", "SHUTOFF", host="there"))
    gone = Assessment(Observed(entry("a", "Migrating"), None, (move("completed"),)), LEFT.state)
    found = planned(read(counted=NONE, left={"a": down}), gone)
    assert found.end is None
    assert found.look_again == ARRIVING
    late = read(counted=SOME, counted_for=POLICY.patience * 1.1, left={"a": down})
    assert planned(late, gone).lingering, "what is counted and not listed is waited for no longer"


def test_incoming_move_is_looked_at_soon() -> None:
    assert planned(read(counted=NONE, incoming=(COMES,)), LEFT).look_again == ARRIVING


def test_instance_counted_and_listed_nowhere_is_named_in_the_end() -> None:
    found = planned(read(counted=SOME, counted_for=POLICY.patience * 1.1), LEFT, STAYS)
    assert found.instances is not None
    assert [one.id for one in found.instances] == ["a", "b", "x"]
    assert "does not list it" in found.instances[-1].state.message


def test_instance_that_has_left_and_is_still_counted_is_named_once() -> None:
    found = planned(read(counted=ONE, counted_for=POLICY.patience * 1.1), LEFT, STAYS)
    assert found.instances is not None
    assert [one.id for one in found.instances] == ["b", "a"]
    assert isinstance(found.instances[-1].state, Stranded)


GOES_ON = with_fields(
    hypervisor("Fenced"),
    spec=HypervisorSpec(maintenance="ha", highAvailability=True, lifecycleEnabled=True),
)
NOTES = {**GOES_ON.metadata.annotations, PAUSE: "looking at it"}
PAUSED = with_fields(GOES_ON, metadata=ObjectMeta(name="here", annotations=NOTES))
OFF = with_fields(GOES_ON, spec=with_fields(GOES_ON.spec, highAvailability=False))


@pytest.mark.parametrize(
    ("of", "name", "trigger", "begins"),
    [
        pytest.param(GOES_ON, "ha-here-1", "NodeFailure", True, id="a recovery"),
        pytest.param(PAUSED, "ha-here-1", "NodeFailure", False, id="that is paused"),
        pytest.param(OFF, "ha-here-1", "NodeFailure", False, id="that is switched off"),
        pytest.param(PAUSED, "by-hand", "NodeFailure", True, id="a person's, for the same reason"),
        pytest.param(PAUSED, "here", "Manual", True, id="a person's"),
    ],
)
def test_paused_recovery_begins_no_move(
    of: Hypervisor, name: str, trigger: str, *, begins: bool
) -> None:
    """Moves under way go on: they hold their places, and none is aborted."""
    found = planned(
        facts(
            eviction(CHECKED, name=name, trigger=trigger, mode="evacuate"),
            hypervisor=of,
            host=DOWN,
            looked=True,
            targets=hosts(9),
            candidates={need(server("b")): (capacity("x"),)},
        ),
        assessed(server("a"), Evacuating("running"), attempts=1),
        assessed(server("b"), Ready(Mode.EVACUATE)),
    )
    assert list(found.actions) == (["b"] if begins else [])
    assert found.end is None
    assert found.load is not None
    assert "a" in found.load.servers
    checks = {check.name: check for check in found.checks.checks} if found.checks else {}
    assert ("RecoveryOn" in checks) is not begins
    if not begins:
        assert checks["RecoveryOn"].result == "Pending"
        assert "no further move is started" in (checks["RecoveryOn"].message or "")
