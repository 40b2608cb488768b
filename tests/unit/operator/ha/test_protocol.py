"""The protocol of fencing and evacuation as a state machine over the real decisions.

Random walks search it without Hypothesis, whose own work took nine tenths of the time.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Final

import pytest
from tests.unit.operator.ha.model import Operator, World

from hypercobalt.api.fencing import FencingPhase, is_ordered
from hypercobalt.api.hypervisor import is_fenced

S = timedelta(seconds=1)


class Recovery:
    """Two operators, of which one leads, and everything that may happen to a host."""

    def __init__(self) -> None:
        self.world = World()
        self.operators = [Operator(), Operator()]
        self.leader = 0

    @property
    def leading(self) -> Operator:
        return self.operators[self.leader]

    # The host

    def power_cut(self) -> None:
        self.world.power_off()

    def host_boots(self) -> None:
        self.world.boots()

    def partition(self, heard: bool) -> None:
        self.world.heard = heard

    def agent(self, runs: bool) -> None:
        self.world.agent = runs

    def owner_starts(self) -> None:
        """Some time after the host was Ready; nobody can start anything there before."""
        self.goes_on_for_a_while(2)
        self.world.owner_starts()

    def reports(self) -> None:
        self.world.report()

    def node_flaps(self, status: str) -> None:
        if self.world.ready != "True":
            self.world.ready = status

    def device(self, refuses: bool) -> None:
        self.world.refuses = refuses

    def gate(self, opened: bool) -> None:
        self.world.gate = opened

    def time_passes(self, seconds: int) -> None:
        self.world.now += seconds * S

    # The operators

    def whole_pass(self) -> None:
        world, operator = self.world, self.leading
        world.observe(operator)
        world.act(operator)
        world.write(operator)

    def goes_on_for_a_while(self, passes: int) -> None:
        for _ in range(passes):
            self.world.report()
            self.whole_pass()
            self.world.now += 15 * S

    def dies_before_it_acts(self) -> None:
        self.world.observe(self.leading)
        self.operators[self.leader] = Operator()

    def dies_after_it_has_acted(self) -> None:
        self.world.observe(self.leading)
        self.world.act(self.leading)
        self.operators[self.leader] = Operator(call=self.leading.call)

    def freezes_in_a_call_and_another_leads(self) -> None:
        """The order is sent and acts later; nothing else of that process gets through."""
        world, operator = self.world, self.leading
        world.observe(operator)
        refused, world.refuses = world.refuses, True
        world.act(operator)
        world.refuses = refused
        self.operators[self.leader] = Operator(call=operator.call)
        self.leader = 1 - self.leader

    def another_leads(self) -> None:
        self.leader = 1 - self.leader

    def late_call_acts(self, number: int) -> None:
        self.world.take_effect(self.operators[number])

    # Who follows the record

    def evacuates(self) -> None:
        self.world.evacuate()

    def places(self) -> None:
        self.world.place()

    def server_never_runs_twice(self) -> None:
        assert not (self.world.elsewhere and self.world.at_source is not None)

    def no_attempt_calls_the_device_twice(self) -> None:
        called = Counter((one.bootID, one.startedAt, one.attempts) for one in self.world.calls)
        assert all(count == 1 for count in called.values())

    def running_server_is_lost_only_with_its_host(self) -> None:
        """A host that is back and serves is not switched off by an order from before."""
        world = self.world
        serves = not world.hypervisor.spec.maintenance and world.on_source
        if serves and world.at_source is not None and world.on:
            late = [one.call for one in self.operators if one.call is not None]
            boot = str(world.boot)
            assert not [c for c in late if c.boot != boot and world.now < c.until]

    def check(self) -> None:
        """What holds after every event."""
        self.server_never_runs_twice()
        self.no_attempt_calls_the_device_twice()
        self.running_server_is_lost_only_with_its_host()


Event = Callable[[Recovery], None]

EVENTS: Final[tuple[tuple[Event, ...], ...]] = (
    (Recovery.power_cut,),
    (Recovery.host_boots,),
    tuple(partial(Recovery.partition, heard=heard) for heard in (True, False)),
    (Recovery.reports,),
    tuple(partial(Recovery.agent, runs=runs) for runs in (True, False)),
    (Recovery.owner_starts,),
    tuple(partial(Recovery.node_flaps, status=status) for status in ("False", "Unknown")),
    tuple(partial(Recovery.device, refuses=refuses) for refuses in (True, False)),
    tuple(partial(Recovery.gate, opened=opened) for opened in (True, False)),
    tuple(partial(Recovery.time_passes, seconds=seconds) for seconds in (1, 20, 61, 200)),
    (Recovery.whole_pass,),
    tuple(partial(Recovery.goes_on_for_a_while, passes=passes) for passes in (3, 6, 12)),
    (Recovery.dies_before_it_acts,),
    (Recovery.dies_after_it_has_acted,),
    (Recovery.freezes_in_a_call_and_another_leads,),
    (Recovery.another_leads,),
    tuple(partial(Recovery.late_call_acts, number=number) for number in (0, 1)),
    (Recovery.evacuates,),
    (Recovery.places,),
)
"""All that may happen, each with its variants."""

WALKS: Final = 1500
LONGEST: Final = 40


def random_walk(chance: random.Random) -> list[Event]:
    """Events in some order; not all kinds of them, since the rarer ones then meet more often."""
    kinds = chance.sample(EVENTS, chance.randint(len(EVENTS) // 2, len(EVENTS)))
    return [chance.choice(chance.choice(kinds)) for _ in range(LONGEST)]


def fails(events: Sequence[Event]) -> bool:
    """Whether what has to hold does not, at some point of a walk."""
    machine = Recovery()
    try:
        for event in events:
            event(machine)
            machine.check()
    except AssertionError:
        return True
    return False


def shortened(events: list[Event]) -> list[Event]:
    """A walk that fails, without the events that this does not need."""
    for number in reversed(range(len(events))):
        without = [*events[:number], *events[number + 1 :]]
        events = without if fails(without) else events
    return events


def described(event: Event) -> str:
    if isinstance(event, partial):
        return f"{event.func.__name__} {event.keywords}"
    return event.__name__


def silent_and_judged(machine: Recovery) -> None:
    """A host that is cut off, until its first attempt is recorded."""
    machine.partition(heard=False)
    for _ in range(20):
        machine.goes_on_for_a_while(1)
        found = machine.world.hypervisor.status.fencing
        if found is not None and found.phase == FencingPhase.ATTEMPTING:
            return
    raise AssertionError("no attempt was recorded")


def test_evacuation_by_silence_would_be_found() -> None:
    machine = Recovery()
    silent_and_judged(machine)
    world = machine.world
    assert world.hypervisor.spec.maintenance == "ha"
    world.elsewhere = True  # somebody evacuates, by silence instead of a proof
    with pytest.raises(AssertionError):
        machine.server_never_runs_twice()


def test_second_call_of_an_attempt_would_be_found() -> None:
    machine = Recovery()
    silent_and_judged(machine)
    found = machine.world.hypervisor.status.fencing
    assert found is not None
    machine.world.refuses = True
    for _ in range(2):
        machine.leading.mine = found.deadline  # a process forgets that it has called
        machine.world.observe(machine.leading)
        machine.world.act(machine.leading)
    with pytest.raises(AssertionError):
        machine.no_attempt_calls_the_device_twice()


def test_next_failure_of_the_same_boot_has_attempts_of_its_own() -> None:
    machine = Recovery()
    machine.device(refuses=True)
    for _ in range(2):
        silent_and_judged(machine)
        machine.goes_on_for_a_while(12)
        machine.partition(heard=True)
        machine.goes_on_for_a_while(12)
        found = machine.world.hypervisor.status.fencing
        assert found is not None
        assert found.phase == FencingPhase.RELEASED
    first = [one for one in machine.world.calls if one.attempts == 1]
    assert len({one.startedAt for one in first}) == len(first) == 2
    machine.no_attempt_calls_the_device_twice()


def test_no_order_of_events_gives_two_writers() -> None:
    chance = random.Random(random.getrandbits(64))  # noqa: S311 - as pytest's seed has it
    for _ in range(WALKS):
        events = random_walk(chance)
        if fails(events):
            pytest.fail("\n".join(map(described, shortened(events))))


def test_walk_that_fails_is_shown_with_the_events_that_it_needs() -> None:
    def evacuated_by_silence(machine: Recovery) -> None:
        machine.world.elsewhere = True

    events = [Recovery.another_leads, evacuated_by_silence, Recovery.reports]
    assert fails(events)
    assert shortened(events) == [evacuated_by_silence]


@pytest.mark.parametrize("dies", [None, *range(14)], ids=str)
def test_server_of_a_dead_host_comes_back_whenever_an_operator_is_killed(dies: int | None) -> None:
    """Killed after any action and before its write: the next one goes on by what is stored."""
    machine = Recovery()
    world = machine.world
    world.power_off()
    for number in range(60):
        world.report()
        if number == dies:
            machine.dies_after_it_has_acted()
        else:
            machine.whole_pass()
        world.evacuate()
        world.now += 15 * S
        machine.server_never_runs_twice()
        machine.no_attempt_calls_the_device_twice()
    assert world.elsewhere
    world.boots()
    for _ in range(40):
        world.report()
        machine.whole_pass()
        world.now += 15 * S
    world.place()
    assert (world.at_source, world.hypervisor.spec.maintenance) == (2, "")
    fencing = world.hypervisor.status.fencing
    assert fencing is not None
    assert fencing.phase == FencingPhase.RELEASED


def test_device_that_lies_is_found_out_by_the_host_and_nothing_more_is_evacuated() -> None:
    machine = Recovery()
    world = machine.world
    world.lies, world.heard = True, False
    for _ in range(12):
        machine.goes_on_for_a_while(1)
        if world.evictions:
            break
    assert is_fenced(world.hypervisor)
    assert world.evictions
    world.heard = True
    for _ in range(3):
        machine.goes_on_for_a_while(1)
    assert not world.evictions
    world.evacuate()
    assert not world.elsewhere
    assert is_ordered(world.hypervisor.status.fencing, "1")  # its agent ends what runs there


def test_silent_host_is_fenced_in_the_boot_that_it_has_begun_without_its_agent() -> None:
    """Its kubelet has reported that boot, its agent has not, and an owner's server runs there."""
    machine = Recovery()
    world = machine.world
    machine.agent(runs=False)
    world.power_off()
    world.boots()
    machine.owner_starts()
    assert (world.at_source, world.hypervisor.status.bootID) == (2, "1")
    machine.partition(heard=False)
    for _ in range(12):
        machine.goes_on_for_a_while(1)
        world.evacuate()
        machine.check()
    assert world.elsewhere
    assert not world.on
