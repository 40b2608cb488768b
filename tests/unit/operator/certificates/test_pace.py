"""Pace of the decisions about one host's CertificateRequests."""

from __future__ import annotations

from datetime import timedelta

from hypercobalt.operator.certificates.pace import AT_ONCE, PAUSE, HostPace

NOW = 1000.0
NONE = timedelta(0)


def test_a_host_has_a_few_decisions_at_once_and_then_one_after_the_other() -> None:
    pace = HostPace()
    waits = [pace.wait("kvm-a", str(number), "u", NOW) for number in range(AT_ONCE + 3)]
    assert waits == [NONE] * AT_ONCE + [PAUSE, 2 * PAUSE, 3 * PAUSE]
    assert pace.wait("kvm-b", "other", "u", NOW) == NONE


def test_a_request_keeps_its_time() -> None:
    pace = HostPace()
    for number in range(AT_ONCE + 2):
        pace.wait("kvm-a", str(number), "u", NOW)
    last = str(AT_ONCE + 1)
    assert pace.wait("kvm-a", last, "u", NOW) == 2 * PAUSE
    assert pace.wait("kvm-a", last, "u", NOW + PAUSE.total_seconds()) == PAUSE
    assert pace.wait("kvm-a", last, "u", NOW + 2 * PAUSE.total_seconds()) == NONE


def test_one_that_is_made_again_under_its_name_has_another_time() -> None:
    pace = HostPace()
    waits = [pace.wait("kvm-a", "same", str(number), NOW) for number in range(AT_ONCE + 1)]
    assert waits[-1] == PAUSE


def test_a_host_that_was_silent_for_a_while_has_as_many_at_once_again() -> None:
    pace = HostPace()
    for number in range(2 * AT_ONCE):
        pace.wait("kvm-a", str(number), "u", NOW)
        pace.forget(str(number))
    later = NOW + 2 * AT_ONCE * PAUSE.total_seconds()
    waits = [pace.wait("kvm-a", f"late-{number}", "u", later) for number in range(AT_ONCE)]
    assert waits == [NONE] * AT_ONCE


def test_nothing_is_kept_of_requests_that_are_decided() -> None:
    pace = HostPace()
    pace.wait("kvm-a", "a", "u", NOW)
    pace.forget("a")
    pace.forget("unknown")
    assert not pace._times
