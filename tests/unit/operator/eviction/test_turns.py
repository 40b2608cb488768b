"""Turns of the Evictions that agents make."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from hypercobalt.api.conditions import set_condition
from hypercobalt.api.eviction import Eviction, EvictionSpec, EvictionStatus, Trigger
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.ha.incidents.cases import TRIGGERS
from hypercobalt.operator.eviction.turns import (
    AT_ONCE,
    MOST,
    MOST_ENDED,
    MOST_WAITING,
    OF_AGENTS,
    HostTurns,
    Turn,
)
from hypercobalt.runtime import SystemClock


def eviction(
    name: str,
    host: str = "kvm-a",
    *,
    trigger: str | None = Trigger.INSTANCE_CRASH,
    over: bool = False,
) -> Eviction:
    conditions = set_condition(
        (), "Evicting", "False" if over else "True", "x", "", now=SystemClock().now()
    )
    spec = EvictionSpec(hypervisor=host, reason="x", trigger=trigger)
    status = EvictionStatus(conditions=conditions)
    return Eviction(metadata=ObjectMeta(name=name), spec=spec, status=status)


@dataclass
class Site:
    called: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.turns = HostTurns(self.called.append)

    def pass_of(self, name: str, *, over: bool) -> bool:
        began = self.turns.begin(eviction(name)) is Turn.NOW
        if began:
            self.turns.end(eviction(name, over=over))
        return began


@pytest.mark.parametrize("trigger", [None, Trigger.NODE_FAILURE, Trigger.HOST_SHUTDOWN])
def test_evictions_that_no_agent_makes_many_of_never_wait(trigger: str | None) -> None:
    turns = Site().turns
    for number in range(10 * MOST):
        assert turns.begin(eviction(str(number), trigger=trigger)) is Turn.NOW


def test_all_triggers_of_agents_take_turns() -> None:
    assert set(TRIGGERS.values()) == OF_AGENTS


def test_a_host_has_a_few_passes_at_once_and_others_have_theirs() -> None:
    site = Site()
    begun = [site.turns.begin(eviction(str(number))) for number in range(3 * AT_ONCE)]
    assert begun == [Turn.NOW] * AT_ONCE + [Turn.LATER] * 2 * AT_ONCE
    assert site.turns.begin(eviction("other", "kvm-b")) is Turn.NOW
    site.turns.end(eviction("0"))
    assert site.called == [str(AT_ONCE)]  # the first that waits
    assert site.turns.begin(eviction(str(AT_ONCE))) is Turn.NOW


def test_a_bounded_number_is_worked_off_and_every_one_has_its_turn() -> None:
    site, ended = Site(), set[str]()
    names = [str(number) for number in range(3 * MOST)]
    waiting = [name for name in names if not site.pass_of(name, over=False)]
    assert waiting == names[MOST:]
    assert not any(site.pass_of(name, over=False) for name in waiting)
    todo = names[:MOST]
    while todo:
        name = todo.pop(0)
        assert site.pass_of(name, over=True), name
        ended.add(name)
        todo += site.called
        site.called.clear()
    assert ended == set(names)
    for name in names:
        site.turns.forget(name)
    assert not site.turns._hosts
    assert not site.turns._of


def test_one_that_is_gone_leaves_its_place() -> None:
    site = Site()
    for number in range(MOST + 1):
        site.pass_of(str(number), over=False)
    site.turns.forget(str(MOST))  # it waited
    assert not site.pass_of("late", over=False)
    site.turns.forget("0")
    site.turns.forget("unknown")
    assert site.called == ["late"]
    assert site.pass_of("late", over=False)


def test_a_name_that_another_host_has_taken_is_of_that_host() -> None:
    site = Site()
    site.pass_of("a", over=False)
    assert site.turns.begin(eviction("a", "kvm-b")) is Turn.NOW
    assert sorted(site.turns._hosts) == ["kvm-b"]


def test_of_one_host_there_are_no_more_than_its_agent_makes_in_earnest() -> None:
    turns = Site().turns
    begun = [turns.begin(eviction(str(number))) for number in range(MOST + MOST_WAITING + 2)]
    assert begun[-3:] == [Turn.LATER, Turn.NEVER, Turn.NEVER]
    assert turns.begin(eviction(str(MOST + MOST_WAITING))) is Turn.NEVER  # still there
    assert turns.begin(eviction("other", "kvm-b")) is Turn.NOW


def test_one_that_is_deleted_has_its_turn_to_end_what_it_has_begun() -> None:
    """The finalizer of one that an operator before this one has begun is taken off by a pass."""
    turns, last = Site().turns, str(MOST + MOST_WAITING)
    for number in range(MOST + MOST_WAITING):
        turns.begin(eviction(str(number)))
        turns.end(eviction(str(number)))
    assert turns.begin(eviction(last)) is Turn.NEVER
    meta = ObjectMeta(name=last, deletionTimestamp=SystemClock().now())
    assert turns.begin(replace(eviction(last), metadata=meta)) is Turn.NOW


def test_the_oldest_of_very_many_that_have_ended_go() -> None:
    site = Site()
    for number in range(MOST_ENDED + 2):
        assert site.pass_of(str(number), over=True)
    assert site.called == ["0", "1"]
    assert [site.turns.begin(eviction(name, over=True)) for name in ("0", "1")] == [Turn.NEVER] * 2
    site.turns.forget("0")
    assert site.turns.begin(eviction("0")) is Turn.NOW  # another one of that name
