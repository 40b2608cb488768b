"""How the smoke test goes on."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.unit.operator.samples import NOW, hypervisor

from hypercobalt.api.hypervisor_status import SmokeTest
from hypercobalt.compute.model import TestServer
from hypercobalt.operator.lifecycle.settings import LifecycleSettings
from hypercobalt.operator.lifecycle.smoke_test import (
    SmokeTestAction,
    decide,
    server_name,
    wants_console,
)

SETTINGS = LifecycleSettings()
MINE = TestServer("t1", "ohooc--kvm-a-uid", "ACTIVE", NOW, launched=NOW)
BUILD = replace(MINE, status="BUILD", launched=None)
OLD = replace(MINE, id="t0")
SECOND = SmokeTest(attempts=2, server="t1", lastFailure="server t0: no host")
LAST = SmokeTest(attempts=3, server="t1")
DELETING = SmokeTest(attempts=1, deletingSince=NOW)
SOON, LATE = timedelta(minutes=1), timedelta(minutes=11)


@pytest.mark.parametrize(
    ("found", "test", "console", "after", "expected"),
    [
        pytest.param((), SmokeTest(), None, SOON, SmokeTestAction.CREATE, id="first server"),
        pytest.param((BUILD,), SECOND, None, SOON, SmokeTestAction.WAIT, id="being built"),
        pytest.param((BUILD,), SECOND, None, LATE, SmokeTestAction.DELETE, id="built for too long"),
        pytest.param((MINE,), SECOND, "boot…", SOON, SmokeTestAction.WAIT, id="boots"),
        pytest.param(
            (MINE,), SECOND, None, SOON, SmokeTestAction.WAIT, id="console not readable yet"
        ),
        pytest.param(
            (MINE,), SECOND, "boot…", LATE, SmokeTestAction.DELETE, id="never prints its name"
        ),
        pytest.param(
            (MINE,), SECOND, None, LATE, SmokeTestAction.DELETE, id="console never readable"
        ),
        pytest.param(
            (replace(MINE, launched=None),),
            SECOND,
            "boot…",
            LATE,
            SmokeTestAction.WAIT,
            id="launch unknown",
        ),
        pytest.param(
            (MINE,),
            SECOND,
            "ohooc--kvm-a-uid login:",
            LATE,
            SmokeTestAction.PASSED,
            id="prints its name",
        ),
        pytest.param(
            (replace(MINE, status="ERROR", fault="No valid host"),),
            SECOND,
            None,
            SOON,
            SmokeTestAction.DELETE,
            id="failed",
        ),
        pytest.param((), SECOND, None, SOON, SmokeTestAction.DELETE, id="a client has deleted it"),
        pytest.param(
            (OLD,), SmokeTest(1), None, SOON, SmokeTestAction.DELETE, id="left over from earlier"
        ),
        pytest.param((OLD,), DELETING, None, SOON, SmokeTestAction.DELETE, id="being deleted"),
        pytest.param(
            (OLD,), DELETING, None, LATE, SmokeTestAction.GIVEN_UP, id="deleted for too long"
        ),
        pytest.param(
            (), SmokeTest(3, None, "t1: x"), None, SOON, SmokeTestAction.GIVEN_UP, id="enough"
        ),
    ],
)
def test_next_step_follows_from_the_test_servers(
    found: tuple[TestServer, ...],
    test: SmokeTest,
    console: str | None,
    after: timedelta,
    expected: SmokeTestAction,
) -> None:
    assert decide(found, test, console, SETTINGS, NOW + after).next is expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param((OLD, MINE), MINE, id="it runs"),
        pytest.param((BUILD,), None, id="it does not run yet"),
        pytest.param((OLD,), None, id="another's"),
        pytest.param((), None, id="none"),
    ],
)
def test_console_of_the_current_test_server_decides(
    found: tuple[TestServer, ...], expected: TestServer | None
) -> None:
    assert wants_console(found, SECOND) is expected


@pytest.mark.parametrize(
    ("found", "test", "limit"),
    [
        pytest.param(BUILD, SECOND, SETTINGS.build_limit, id="to be built"),
        pytest.param(MINE, SECOND, SETTINGS.console_limit, id="to print its name"),
        pytest.param(OLD, DELETING, SETTINGS.build_limit, id="to be deleted"),
    ],
)
def test_wait_ends_at_its_limit(found: TestServer, test: SmokeTest, limit: timedelta) -> None:
    just = decide((found,), test, None, SETTINGS, NOW + limit - timedelta(seconds=1))
    over = decide((found,), test, None, SETTINGS, NOW + limit)
    assert just.next is not over.next


@pytest.mark.parametrize(
    ("found", "test", "expected"),
    [
        pytest.param((), SmokeTest(), "Smoke test, try 1 of 3: booting a server", id="first"),
        pytest.param(
            (), SmokeTest(1, None, "t0: x"),
            "Smoke test, try 2 of 3: booting a server; the one before: t0: x", id="second",
        ),
        pytest.param(
            (BUILD,), SECOND, "Smoke test, try 2 of 3: server t1 is BUILD since 00:00:00Z",
            id="being built",
        ),
        pytest.param(
            (BUILD,), SmokeTest(None, "t1"),
            "Smoke test, try 1 of 3: server t1 is BUILD since 00:00:00Z", id="not counted",
        ),
        pytest.param(
            (replace(MINE, status="ERROR"),), SmokeTest(None, "t1"),
            "Smoke test, try 1 of 3 failed: server t1: it went into ERROR", id="no reason known",
        ),
    ],
)  # fmt: skip
def test_message_names_the_state_of_the_smoke_test(
    found: tuple[TestServer, ...], test: SmokeTest, expected: str
) -> None:
    assert decide(found, test, None, SETTINGS, NOW).message == expected


@pytest.mark.parametrize(("attempts", "counted"), [(None, 0), (2, 2)])
def test_deleting_what_is_left_over_is_no_try(attempts: int | None, counted: int) -> None:
    at = NOW + timedelta(microseconds=5)
    plan = decide((OLD,), SmokeTest(attempts), None, SETTINGS, at)
    assert plan.test == SmokeTest(counted, None, None, NOW)


def test_server_that_is_gone_need_not_be_deleted() -> None:
    gone = decide((), SECOND, None, SETTINGS, NOW)
    assert (gone.test.deletingSince, gone.delete) == (None, ())
    broken = replace(MINE, status="ERROR")
    failed = decide((broken,), SECOND, None, SETTINGS, NOW + timedelta(microseconds=5))
    assert failed.test.deletingSince == NOW


def test_try_that_failed_is_deleted_counted_and_named() -> None:
    broken = replace(MINE, status="ERROR", fault="No valid host")
    plan = decide((broken,), LAST, None, SETTINGS, NOW)
    assert plan.delete == (broken,)
    assert plan.test == SmokeTest(3, None, "server t1: No valid host", NOW)
    assert plan.message == "Smoke test, try 3 of 3 failed: server t1: No valid host"
    given_up = decide((), plan.test, None, SETTINGS, NOW)
    assert given_up.next is SmokeTestAction.GIVEN_UP
    assert "No valid host" in given_up.message


def test_the_next_try_gives_its_reason() -> None:
    plan = decide((), SmokeTest(1, None, "server t0: no host"), None, SETTINGS, NOW)
    assert plan.test.attempts == 2
    assert "no host" in plan.message


def test_a_server_that_has_passed_goes_with_all_that_is_left() -> None:
    plan = decide((OLD, MINE), SECOND, "ohooc--kvm-a-uid", SETTINGS, NOW)
    assert plan.next is SmokeTestAction.PASSED
    assert set(plan.delete) == {OLD, MINE}


def test_fault_of_any_length_stays_readable() -> None:
    broken = replace(MINE, status="ERROR", fault="x" * 100_000)
    assert len(decide((broken,), SECOND, None, SETTINGS, NOW).message) < 700


def test_no_host_finds_the_test_server_of_another_whose_name_begins_alike() -> None:
    ours = hypervisor()
    assert server_name(ours, "node1") != server_name(ours, "node10")


def test_a_server_that_is_never_gone_is_named_with_the_time_and_given_up() -> None:
    first = decide((OLD,), SmokeTest(1, None, "t0: no host"), None, SETTINGS, NOW)
    assert "t0" in first.message
    assert "since 00:00:00Z" in first.message
    later = decide((OLD,), first.test, None, SETTINGS, NOW + SOON)
    assert later == first
    last = decide((OLD,), later.test, None, SETTINGS, NOW + LATE)
    assert last.next is SmokeTestAction.GIVEN_UP
    assert last.delete == (OLD,)
    assert "still there 10m after they were to be deleted, at 00:00:00Z: t0" in last.message
    assert last.test.lastFailure == "t0: no host"
