"""Known attacks on what hosts share: keys, tokens, locks, places of moves, the operator."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tests.conformance.captured import attacks, guests, steps
from tests.conformance.captured.knowledge import VICTIM, Request
from tests.conformance.captured.machine import CapturedHost
from tests.conformance.captured.site import CAPTURED, EVICTIONS, OTHERS
from tests.conformance.wire import Body

from hypercobalt.adapters.libvirt.model import DomainState

_MOVES: Final = 10
"""More than the operator has under way in all."""
_DOMAINS, _DISKS = 30, 1000
"""They take a second to parse, all at once."""
_REWRITES: Final = 20
"""Writes of 800 kB each."""
_NEW: Final = 2
"""Number of a guest that a host did not have at first."""
_RECOVERY: Final = attacks.EVICTION_NAMES[0]


def certificate_for_another_key(machine: CapturedHost) -> None:
    """The token of a host's agent proves no host: its key has to be on the host."""
    machine.requests_a_certificate(own_key=True)
    machine.passes(5)
    machine.requests_a_certificate(own_key=False)
    machine.passes(30)


def token_of_who_scrapes(machine: CapturedHost) -> None:
    """Whoever answers in the place of a page of metrics learns the token that it is read by."""
    learned = machine.is_scraped()
    for how in ("get", "list", "watch"):
        machine.sends(*attacks.secret("lab-bmc", how), credential=learned)


def _has_most_room(machine: CapturedHost) -> None:
    amounts: Body = {"cpu": "100000", "memory": "100Ti"}
    steps.status(machine, {"effectiveCapacity": amounts, "capacity": amounts})


def locks_that_no_guest_holds(machine: CapturedHost) -> None:
    """The host has most room of all, so that a dead host's guests are started there first."""
    if machine.silent:
        return  # one host fails at a time
    _has_most_room(machine)
    machine.refuses_starts(for_locks=True)
    steps.dies_and_is_recovered(machine, OTHERS[1])
    machine.refuses_starts(for_locks=False)


def starts_that_fail_late(machine: CapturedHost) -> None:
    """The host has more room than any other, and takes as long as it may to start nothing."""
    if machine.silent:
        return  # one host fails at a time
    _has_most_room(machine)
    machine.refuses_starts_late(late=True)
    steps.dies_and_is_recovered(machine, OTHERS[0])
    machine.refuses_starts_late(late=False)


def moves_without_end(machine: CapturedHost) -> None:
    """Its libvirtd shows as many moves as there may be, each of which goes on."""
    if machine.silent:
        return  # one host fails at a time
    moving = guests.moving(CAPTURED, _MOVES)
    machine.has_moves_without_end(moving)
    steps.recovers(machine, _RECOVERY, "live", *(one.uuid for one in moving))
    machine.passes(60)
    steps.dies_and_is_recovered(machine, OTHERS[1])
    machine.is_drained(OTHERS[3])
    machine.is_recovered_in_time()
    machine.sends(Request("DELETE", f"{EVICTIONS}/{_RECOVERY}"))
    machine.has_moves_without_end(())


def move_that_it_lists(machine: CapturedHost) -> None:
    """Its guest goes to a host that has room: the captured one has none."""
    if machine.silent:
        return  # one host fails at a time
    steps.status(machine, {"effectiveCapacity": {"cpu": "0", "memory": "0"}})
    machine.lists_a_move(OTHERS[3])


def definitions_to_parse(machine: CapturedHost) -> None:
    """What dead hosts have stored is compared with each guest that is started elsewhere."""
    if machine.silent:
        return  # one host fails at a time
    machine.stores_large_definitions(_DOMAINS, _DISKS)
    machine.falls_silent(CAPTURED)
    machine.passes_without_a_long_turn(120)
    machine.dies(OTHERS[2])
    machine.is_recovered_without_a_long_turn()
    machine.returns(OTHERS[2])


def texts_that_stay(machine: CapturedHost) -> None:
    """The operator has equal texts of many objects once."""
    machine.rewrites_its_node(_REWRITES)


def migration_of_their_guest(machine: CapturedHost) -> None:
    """Whoever recovers an instance waits while that moves."""
    machine.sends(*attacks.THEIRS_MOVES)
    machine.has_a_guest_crash(VICTIM)


def calls_without_an_answer(machine: CapturedHost) -> None:
    """Its agent reports that all is well; it has more room than any other host besides."""
    if machine.silent:
        return  # one host fails at a time
    _has_most_room(machine)
    machine.answers_no_call(silent=True)
    steps.dies_and_is_recovered(machine, OTHERS[0])
    machine.answers_no_call(silent=False)


def returns_that_it_delays(machine: CapturedHost) -> None:
    """The host was given nothing of two that are back, runs a guest of one, then is silent.

    Both have got a guest that no other host has had.
    """
    if machine.silent:
        return  # one host fails at a time
    for name, silent in ((OTHERS[1], False), (OTHERS[3], True)):
        steps.status(machine, {"effectiveCapacity": {"cpu": "0", "memory": "0"}})
        machine.dies(name)
        machine.is_recovered_in_time()
        machine.has_a_copy(name, guests.Copy(_NEW, "runs"))
        machine.answers_no_call(silent=silent)
        there = guests.domain(name, _NEW)
        machine.returns_with(name, replace(there, active=True, state=DomainState.RUNNING))
    machine.answers_no_call(silent=False)
