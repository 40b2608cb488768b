"""When a process of a lab that died is started again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta

import pytest

from hypercobalt.lab.supervision import rules

NOW = datetime(2026, 11, 28, 4, 0, tzinfo=UTC)
WANTED = ("apiserver", "operator")


def facts(
    running: Collection[str] = WANTED,
    *,
    held: Collection[str] = (),
    ends: Mapping[str, str] | None = None,
) -> rules.SupervisionFacts:
    return rules.SupervisionFacts(WANTED, running, held, ends or {}, {"operator": "apiserver"})


def test_nothing_is_done_while_everything_runs() -> None:
    plan = rules.decide(facts(), {}, NOW)
    assert (plan.start, plan.record) == ((), {})


def test_process_that_died_is_started_at_once_and_its_end_is_kept() -> None:
    plan = rules.decide(facts(["apiserver"], ends={"operator": "killed by SIGKILL"}), {}, NOW)
    assert plan.start == ("operator",)
    assert plan.record["operator"].how == "killed by SIGKILL"
    assert plan.record["operator"].died == NOW


def test_how_a_process_ended_is_added_when_it_is_known() -> None:
    first = rules.decide(facts(["apiserver"]), {}, NOW)
    assert first.record["operator"].how == rules.UNKNOWN
    running = {"operator": rules.started(first.record["operator"], NOW)}
    plan = rules.decide(facts(ends={"operator": "exit code 3"}), running, NOW)
    assert (plan.start, plan.record["operator"].how) == ((), "exit code 3")


def test_process_that_is_not_wanted_any_more_is_waited_for_no_longer() -> None:
    """A good cable has none; what is due would end each wait at once."""
    bad = rules.died(None, rules.UNKNOWN, NOW - timedelta(minutes=1))
    plan = rules.decide(facts(), {"wire/kvm-1": bad}, NOW)
    assert (plan.start, plan.record["wire/kvm-1"].due) == ((), None)
    assert rules.wake(plan.record, NOW, timedelta(seconds=3)) == timedelta(seconds=3)


def test_process_waits_for_the_one_that_it_needs() -> None:
    plan = rules.decide(facts(()), {}, NOW)
    assert plan.start == ("apiserver",)
    assert plan.record["operator"].due == NOW


def test_held_process_is_not_started_and_its_death_does_not_count() -> None:
    assert rules.decide(facts(["apiserver"], held=["operator"]), {}, NOW).start == ()
    waiting = {"operator": rules.died(None, "exit code 1", NOW)}
    plan = rules.decide(facts(["apiserver"], held=["operator"]), waiting, NOW)
    assert (plan.start, plan.record["operator"].due) == ((), None)


def test_process_that_a_command_has_started_is_not_started_again() -> None:
    plan = rules.decide(facts(), {"operator": rules.died(None, "exit code 1", NOW)}, NOW)
    assert (plan.start, plan.record["operator"].due) == ((), None)


def test_process_that_keeps_dying_is_started_ever_later() -> None:
    now, record, waits = NOW, rules.Restarts(), []
    for _ in range(10):
        record = rules.died(record, "exit code 1", now)
        assert record.due is not None
        waits.append((record.due - now).total_seconds())
        now = record.due
        record = rules.started(record, now)
    assert waits == [0, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert record.times == 10


def test_start_that_fails_is_repeated_later_with_its_cause() -> None:
    record = rules.failed(rules.died(None, "exit code 1", NOW), "the disk is full", NOW)
    assert (record.how, record.times) == ("the disk is full", 1)
    assert record.due == NOW + timedelta(seconds=1)
    plan = rules.decide(facts(["apiserver"]), {"operator": record}, NOW)
    assert plan.start == ()
    assert rules.decide(facts(["apiserver"]), plan.record, record.due).start == ("operator",)


@pytest.mark.parametrize(
    ("ran", "wait"),
    [(rules.STEADY, 0), (rules.STEADY - timedelta(seconds=1), 4)],
    ids=["steady", "short"],
)
def test_process_that_ran_steadily_is_started_at_once(ran: timedelta, wait: int) -> None:
    record = rules.died(rules.Restarts(times=5, in_a_row=3, started=NOW - ran), "exit code 1", NOW)
    assert record.due == NOW + timedelta(seconds=wait)
    assert record.times == 5


def test_delay_has_an_upper_bound() -> None:
    assert rules.delay(10**6) == timedelta(seconds=60)


def test_next_pass_is_when_the_first_start_is_due() -> None:
    resync = timedelta(seconds=10)
    due = {"a": rules.Restarts(due=NOW + timedelta(seconds=3)), "b": rules.Restarts()}
    assert rules.wake({}, NOW, resync) == resync
    assert rules.wake(due, NOW, resync) == timedelta(seconds=3)
    assert rules.wake(due, NOW + timedelta(seconds=5), resync) == timedelta()
