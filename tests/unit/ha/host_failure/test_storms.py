"""How long recovery pauses once a gate about many hosts has opened again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from tests.unit.ha.host_failure.fleets import NOW, OBSERVER, SUBJECT, S, fleet

from hypercobalt.ha.host_failure.census import HostState, census
from hypercobalt.ha.host_failure.guard import FLEET, Closure, GateLimits, closures, gates, is_open
from hypercobalt.ha.host_failure.storms import LOOKS, Storms, followed, inherited, pauses

LIMITS = GateLimits()
LOOK = 5 * S
"""Time between two looks at a host that is unwell."""


def looks(
    storms: Storms, closure: Closure, seconds: int, *, since: datetime, scope: str = FLEET
) -> Storms:
    """The storms after looks for so long, the first one at once."""
    for second in range(0, seconds + 1, 5):
        storms = followed(storms, {scope: closure}, LIMITS, since + second * S)
    return storms


def test_closing_that_no_single_host_could_open_pauses_for_the_whole_cool_down() -> None:
    found = looks({}, Closure.BY_MANY, 0, since=NOW)
    assert pauses(found) == {FLEET: NOW + LIMITS.cool_down}


def test_closing_that_one_host_could_open_pauses_as_long_as_it_lasted_at_most() -> None:
    assert pauses(looks({}, Closure.BY_ONE, 0, since=NOW)) == {FLEET: NOW}
    assert pauses(looks({}, Closure.BY_ONE, 60, since=NOW)) == {FLEET: NOW + 120 * S}
    end = NOW + 900 * S
    assert pauses(looks({}, Closure.BY_ONE, 900, since=NOW)) == {FLEET: end + LIMITS.cool_down}


def test_pause_that_has_begun_is_not_shortened() -> None:
    found = looks({}, Closure.BY_MANY, 0, since=NOW)
    found = looks(found, Closure.BY_ONE, 0, since=NOW + 5 * S)
    assert pauses(found) == {FLEET: NOW + LIMITS.cool_down}


def test_look_that_finds_the_gate_open_ends_the_closing_and_not_the_pause() -> None:
    found = looks({}, Closure.BY_ONE, 60, since=NOW)
    found = looks(found, Closure.OPEN, 0, since=NOW + 65 * S)
    assert pauses(found) == {FLEET: NOW + 120 * S}
    found = looks(found, Closure.BY_ONE, 0, since=NOW + 70 * S)
    assert pauses(found) == {FLEET: NOW + 120 * S}
    found = looks(found, Closure.BY_ONE, 80, since=NOW + 70 * S)
    assert pauses(found) == {FLEET: NOW + 230 * S}


def test_closings_with_no_look_between_them_for_long_are_two() -> None:
    for between, until in ((LOOKS, 2 * LOOKS), (LOOKS + S, LOOKS + S)):
        found = followed({}, {FLEET: Closure.BY_ONE}, LIMITS, NOW)
        found = followed(found, {FLEET: Closure.BY_ONE}, LIMITS, NOW + between)
        assert pauses(found) == {FLEET: NOW + until}


def test_storm_is_forgotten_once_it_is_over() -> None:
    found = looks({}, Closure.BY_MANY, 0, since=NOW)
    found = looks(found, Closure.OPEN, 0, since=NOW + LIMITS.cool_down - S)
    assert set(found) == {FLEET}
    assert looks(found, Closure.OPEN, 0, since=NOW + LIMITS.cool_down) == {}
    left = looks({}, Closure.BY_ONE, 0, since=NOW, scope="a rack that its last host has left")
    assert len(left) == 1
    assert set(followed(left, {}, LIMITS, NOW + LOOKS)) == set(left)
    assert followed(left, {}, LIMITS, NOW + LOOKS + S) == {}


def test_storms_of_others_go_on() -> None:
    found = looks({}, Closure.BY_MANY, 0, since=NOW, scope="rack 0")
    found = looks(found, Closure.OPEN, 10, since=NOW)
    assert pauses(found) == {"rack 0": NOW + LIMITS.cool_down}


def test_pause_is_never_ahead_of_a_clock_that_has_gone_back() -> None:
    found = looks({}, Closure.BY_ONE, 60, since=NOW)
    back = NOW - timedelta(hours=1)
    found = looks(found, Closure.OPEN, 0, since=back)
    assert pauses(found) == {FLEET: back + LIMITS.cool_down}
    shut = looks({}, Closure.BY_ONE, 60, since=NOW)
    assert pauses(looks(shut, Closure.BY_ONE, 0, since=back)) == {FLEET: back + LIMITS.cool_down}
    early = followed({}, {FLEET: Closure.BY_ONE}, LIMITS, back)
    early = followed(early, {FLEET: Closure.BY_ONE}, LIMITS, back - S)
    assert pauses(early) == {FLEET: back}


def test_leader_pauses_once_where_the_last_one_had_found_a_gate_closed() -> None:
    found = inherited(LIMITS, NOW)
    assert pauses(found) == {FLEET: NOW + LIMITS.cool_down}
    assert looks(found, Closure.OPEN, 0, since=NOW + LIMITS.cool_down) == {}
    found = looks(found, Closure.BY_ONE, 0, since=NOW + LOOK)
    assert pauses(found) == {FLEET: NOW + LIMITS.cool_down}


def refused(hosts: Callable[[bool], list[HostState]], *, domain: str, captured: str) -> int:
    """Seconds of an hour for which the dead host h0 may not be recovered.

    A captured host is unwell for two seconds of each 290; both are looked at.
    """
    storms: Storms = {}
    subject = replace(SUBJECT, domains=(domain,))
    attacker = replace(subject, domains=(captured,))
    count = 0
    for second in range(3600):
        ill, now = second % 290 < 2, NOW + second * S
        counted = census(hosts(ill))
        if ill:
            storms = followed(storms, closures(attacker, counted, LIMITS, now), LIMITS, now)
        if second % 5 == 0:
            storms = followed(storms, closures(subject, counted, LIMITS, now), LIMITS, now)
            observer = replace(OBSERVER, pauses=pauses(storms))
            count += 5 * (not is_open(gates(subject, counted, observer, LIMITS, now)))
    return count


def test_captured_host_that_is_unwell_now_and_then_stops_no_recovery_in_a_small_fleet() -> None:
    def hosts(ill: bool) -> list[HostState]:
        return [*fleet(4, [0]), HostState("captured", unwell=ill, stale=ill)]

    assert refused(hosts, domain="", captured="") <= 180


def test_captured_host_that_joins_a_domain_in_trouble_stops_no_recovery_in_others() -> None:
    def hosts(ill: bool) -> list[HostState]:
        small = [replace(one, domains=("rack z",)) for one in fleet(3, [0])]
        captured = HostState("captured", unwell=ill, stale=ill, domains=("rack z",))
        return [*fleet(100, [0]), *small, captured]

    assert refused(hosts, domain="rack 0", captured="rack z") == 0


def test_host_that_comes_back_later_than_another_one_is_not_fenced_at_once() -> None:
    """A switch fails for three minutes: one of its two hosts reports ten seconds later."""
    storms = looks({}, Closure.BY_ONE, 180, since=NOW)
    back = NOW + 181 * S
    subject = replace(SUBJECT, domains=())
    counted = census(fleet(5, [0]))
    storms = followed(storms, closures(subject, counted, LIMITS, back), LIMITS, back)
    answers = gates(subject, counted, replace(OBSERVER, pauses=pauses(storms)), LIMITS, back)
    assert [gate.name for gate in answers if not gate.passed] == ["CoolDown"]
