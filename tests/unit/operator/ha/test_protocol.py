"""The protocol of fencing and evacuation as a state machine over the real decisions."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)
from tests.unit.operator.ha.model import Operator, World

from hypercobalt.api.fencing import FencingPhase, is_ordered
from hypercobalt.api.hypervisor import is_fenced

S = timedelta(seconds=1)


class Recovery(RuleBasedStateMachine):
    """Two operators, of which one leads, and everything that may happen to a host."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.operators = [Operator(), Operator()]
        self.leader = 0

    @property
    def leading(self) -> Operator:
        return self.operators[self.leader]

    # The host

    @rule()
    def power_cut(self) -> None:
        self.world.power_off()

    @rule()
    def host_boots(self) -> None:
        self.world.boots()

    @rule(heard=st.booleans())
    def partition(self, heard: bool) -> None:
        self.world.heard = heard

    @rule()
    def reports(self) -> None:
        self.world.report()

    @rule(status=st.sampled_from(["False", "Unknown"]))
    def node_flaps(self, status: str) -> None:
        if self.world.ready != "True":
            self.world.ready = status

    @rule(refuses=st.booleans())
    def device(self, refuses: bool) -> None:
        self.world.refuses = refuses

    @rule(opened=st.booleans())
    def gate(self, opened: bool) -> None:
        self.world.gate = opened

    @rule(seconds=st.sampled_from([1, 20, 61, 200]))
    def time_passes(self, seconds: int) -> None:
        self.world.now += seconds * S

    # The operators

    @rule()
    def whole_pass(self) -> None:
        world, operator = self.world, self.leading
        world.observe(operator)
        world.act(operator)
        world.write(operator)

    @rule(passes=st.sampled_from([3, 6, 12]))
    def goes_on_for_a_while(self, passes: int) -> None:
        for _ in range(passes):
            self.world.report()
            self.whole_pass()
            self.world.now += 15 * S

    @rule()
    def dies_before_it_acts(self) -> None:
        self.world.observe(self.leading)
        self.operators[self.leader] = Operator()

    @rule()
    def dies_after_it_has_acted(self) -> None:
        self.world.observe(self.leading)
        self.world.act(self.leading)
        self.operators[self.leader] = Operator(call=self.leading.call)

    @rule()
    def freezes_in_a_call_and_another_leads(self) -> None:
        """The order is sent and acts later; nothing else of that process gets through."""
        world, operator = self.world, self.leading
        world.observe(operator)
        refused, world.refuses = world.refuses, True
        world.act(operator)
        world.refuses = refused
        self.operators[self.leader] = Operator(call=operator.call)
        self.leader = 1 - self.leader

    @rule()
    def another_leads(self) -> None:
        self.leader = 1 - self.leader

    @rule(number=st.sampled_from([0, 1]))
    def late_call_acts(self, number: int) -> None:
        self.world.take_effect(self.operators[number])

    # Who follows the record

    @rule()
    def evacuates(self) -> None:
        self.world.evacuate()

    @rule()
    def places(self) -> None:
        self.world.place()

    @invariant()
    def server_never_runs_twice(self) -> None:
        assert not (self.world.elsewhere and self.world.at_source is not None)

    @invariant()
    def no_attempt_calls_the_device_twice(self) -> None:
        called = Counter((one.bootID, one.startedAt, one.attempts) for one in self.world.calls)
        assert all(count == 1 for count in called.values())

    @invariant()
    def running_server_is_lost_only_with_its_host(self) -> None:
        """A host that is back and serves is not switched off by an order from before."""
        world = self.world
        serves = not world.hypervisor.spec.maintenance and world.on_source
        if serves and world.at_source is not None and world.on:
            late = [one.call for one in self.operators if one.call is not None]
            boot = str(world.boot)
            assert not [c for c in late if c.boot != boot and world.now < c.until]


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


@pytest.mark.timeout(60)
def test_no_order_of_events_gives_two_writers() -> None:
    thorough = settings(
        max_examples=300,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Recovery, settings=thorough)


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
