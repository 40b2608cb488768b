"""Invariants of the protocol, by random walks and by chosen ones."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from tests.unit.operator.ha.model import Bug, Operator
from tests.unit.operator.ha.protocol import (
    WALKS,
    Recovery,
    S,
    described,
    fails,
    random_walk,
    shortened,
)

from hypercobalt.api.fencing import ASSERTED_DEAD, FencingPhase, is_ordered
from hypercobalt.api.hypervisor import is_fenced


def silent_and_judged(machine: Recovery) -> None:
    """A host that is cut off, until its first attempt is recorded."""
    machine.partition(connected=False)
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
    world.elsewhere = True  # an operator that evacuates by silence instead of a proof
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
        machine.partition(connected=True)
        machine.goes_on_for_a_while(12)
        found = machine.world.hypervisor.status.fencing
        assert found is not None
        assert found.phase == FencingPhase.RELEASED
    first = [one for one in machine.world.calls if one.attempts == 1]
    assert len({one.startedAt for one in first}) == len(first) == 2
    machine.no_attempt_calls_the_device_twice()


def test_no_order_of_events_gives_two_writers_or_none() -> None:
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


def test_server_that_runs_nowhere_in_the_end_would_be_found() -> None:
    machine = Recovery(Bug(sees=lambda facts: replace(facts, silenced="paused")))
    with pytest.raises(AssertionError, match="it runs nowhere"):
        machine.comes_back()


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
        machine.evacuates()
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


def test_device_that_lies_is_detected_by_the_host_and_nothing_more_is_evacuated() -> None:
    machine = Recovery()
    world = machine.world
    world.lies, world.connected = True, False
    for _ in range(12):
        machine.goes_on_for_a_while(1)
        if world.evictions:
            break
    assert is_fenced(world.hypervisor)
    assert world.evictions
    world.connected = True
    for _ in range(3):
        machine.goes_on_for_a_while(1)
    assert not world.evictions
    world.evacuate()
    assert not world.elsewhere
    assert is_ordered(world.hypervisor.status.fencing, "1")  # its agent ends what runs there


def test_agent_that_was_ordered_to_end_every_server_is_a_proof() -> None:
    """A person has written the record of a host that lives and cannot be emptied."""
    machine = Recovery()
    world = machine.world
    world.ready = "False"
    machine.person_orders_the_agent()
    machine.agent_obeys()
    for _ in range(8):
        machine.whole_pass()
        machine.evacuates()
        world.now += 15 * S
        machine.check()
    assert world.elsewhere
    assert not world.calls


def behind_its_fence(machine: Recovery) -> None:
    """A host that lives, is cut off from its storage, and whose server runs elsewhere."""
    machine.storage_is_set_up()
    machine.device(refuses=True)
    machine.partition(connected=False)
    for _ in range(12):
        machine.goes_on_for_a_while(1)
        machine.evacuates()
        machine.check()
    assert (machine.world.elsewhere, machine.world.cut, machine.world.at_source) == (True, True, 1)


@pytest.mark.parametrize("dies", [None, *range(14)], ids=str)
def test_host_that_is_cut_off_gets_its_storage_back_whenever_an_operator_is_killed(
    dies: int | None,
) -> None:
    """Killed after any action and before its write, both while it fences and on the return."""
    machine = Recovery()
    world = machine.world

    def goes_on(passes: int, begins: int = 0) -> None:
        """Passes; `begins` is the first one in which something is done about the host."""
        for number in range(passes):
            world.report()
            if dies is not None and number == begins + dies:
                machine.dies_after_it_has_acted()
            else:
                machine.whole_pass()
            machine.evacuates()
            world.now += 5 * S
            machine.check()

    machine.storage_is_set_up()
    machine.device(refuses=True)
    machine.partition(connected=False)
    goes_on(60, begins=12)
    assert (world.elsewhere, world.cut) == (True, True)
    world.power_off()
    world.boots()
    machine.partition(connected=True)
    goes_on(80)
    machine.places()
    assert (world.at_source, world.cut, world.hypervisor.spec.maintenance) == (2, False, "")
    machine.check()


def test_host_that_lives_behind_its_storage_fence_stays_cut_off_until_it_boots() -> None:
    machine = Recovery()
    world = machine.world
    behind_its_fence(machine)
    machine.partition(connected=True)  # it thaws
    machine.goes_on_for_a_while(20)
    machine.check()
    assert (world.cut, world.gifts) == (True, [])
    machine.agent_obeys()
    machine.goes_on_for_a_while(20)
    assert (world.cut, world.at_source, world.elsewhere) == (True, None, True)
    world.power_off()
    machine.goes_on_for_a_while(2)
    world.boots()
    machine.goes_on_for_a_while(20)
    assert (world.cut, len(world.gifts)) == (False, 1)
    machine.check()


def test_host_that_is_given_its_storage_by_a_person_is_cut_off_again() -> None:
    """No instance is left to evacuate; its server would write to a disk that another one writes."""
    machine = Recovery()
    behind_its_fence(machine)
    machine.world.at_source, machine.world.cut = None, False
    machine.goes_on_for_a_while(12)
    assert machine.world.cut


def test_storage_device_that_lies_is_detected_by_the_host() -> None:
    machine = Recovery()
    world = machine.world
    machine.storage_is_set_up()
    machine.device(refuses=True)
    world.storage_lies, world.connected = True, False
    for _ in range(12):
        machine.goes_on_for_a_while(1)
        if world.evictions:
            break
    assert world.evictions
    machine.partition(connected=True)
    machine.goes_on_for_a_while(3)
    assert not world.evictions
    machine.evacuates()
    assert not world.elsewhere


@pytest.mark.parametrize("agent", [True, False], ids=["an agent", "no agent"])
@pytest.mark.parametrize("tainted", [True, False], ids=["taint", "annotation"])
def test_assertion_about_a_host_that_lives_does_not_count_once_it_is_silent(
    *, tainted: bool, agent: bool
) -> None:
    machine = Recovery()
    world = machine.world
    world.agent, world.mute = agent, True
    if tainted:
        world.tainted = True
    else:
        world.note(ASSERTED_DEAD, "1")
    machine.goes_on_for_a_while(2)
    assert ASSERTED_DEAD not in world.hypervisor.metadata.annotations
    machine.operators = [Operator(), Operator()]
    machine.partition(connected=False)
    for _ in range(12):
        machine.goes_on_for_a_while(1)
        machine.evacuates()
        machine.check()
    assert not is_fenced(world.hypervisor)


def test_silent_host_is_fenced_in_the_boot_that_it_has_begun_without_its_agent() -> None:
    """The kubelet has reported that boot, the agent has not, and an owner's server runs there."""
    machine = Recovery()
    world = machine.world
    machine.agent(runs=False)
    world.power_off()
    world.boots()
    machine.owner_starts()
    assert (world.at_source, world.hypervisor.status.bootID) == (2, "1")
    machine.partition(connected=False)
    for _ in range(12):
        machine.goes_on_for_a_while(1)
        machine.evacuates()
        machine.check()
    assert world.elsewhere
    assert not world.on
