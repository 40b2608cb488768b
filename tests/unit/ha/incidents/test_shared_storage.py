"""Cases that wait for a storage that fails for several instances."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.unit.ha.cases import open_case
from tests.unit.ha.signs import NOON, U1

from hypercobalt.api.eviction import EvictionMode
from hypercobalt.api.incident import IncidentType, Reaction
from hypercobalt.ha.incidents.cases import Case, InstanceRecord, State, Step
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.shared_storage import fails_elsewhere, stalled, wait_for_storage
from hypercobalt.ha.incidents.signals import HOST

CONFIG = HaConfig()
CASE = open_case(
    IncidentType.IO_ERROR,
    eviction="ha-i",
    step=Step.RECOVER,
    due=NOON,
    mode=EvictionMode.LIVE,
    about="/pool/a.raw",
)


def instance(state: State) -> InstanceRecord:
    return InstanceRecord(uuid=U1, state=state, resumes=5, paused_since=NOON, cases=(CASE,))


@pytest.mark.parametrize(
    ("case", "failing", "waits"),
    [
        (CASE, ("/other", "/pool"), True),
        (CASE, ("/other",), False),
        (CASE, (), False),
        (replace(CASE, type=IncidentType.CRASH), ("/pool",), False),
        (replace(CASE, about="/dev/dm-1"), ("/dev", ""), False),
    ],
    ids=["it", "another one", "none", "not for storage", "a device of the host"],
)
def test_case_waits_for_what_fails_on_other_hosts_too(
    case: Case, failing: tuple[str, ...], *, waits: bool
) -> None:
    text = "the storage /pool fails on other hosts, too" if waits else ""
    assert fails_elsewhere(case, failing) == text


def test_paused_instance_is_probed_and_has_all_its_resumes_again() -> None:
    after, fails = wait_for_storage(instance(State.PAUSED), CASE, "why", CONFIG, NOON)
    (case,) = after.cases
    assert fails
    assert (case.step, case.due, case.eviction) == (Step.PROBE, NOON + timedelta(seconds=10), "")
    assert (case.reaction, case.evidence) == (Reaction.WAIT, ("why",))
    assert (after.resumes, after.paused_since) == (0, NOON)


def test_wait_of_a_paused_instance_begins_as_late_as_given() -> None:
    later = timedelta(minutes=10)
    paused = instance(State.PAUSED)
    after, _ = wait_for_storage(paused, CASE, "why", CONFIG, NOON, at_least=later)
    assert after.paused_since == NOON + later


@pytest.mark.parametrize(
    ("quiet", "step", "fails"),
    [
        (CONFIG.thresholds.io_errors_over - timedelta(seconds=1), Step.RECOVER, True),
        (CONFIG.thresholds.io_errors_over, Step.EXPIRE, False),
    ],
)
def test_running_instance_is_read_again_until_it_has_no_errors(
    quiet: timedelta, step: Step, *, fails: bool
) -> None:
    now = NOON + quiet
    after, failing = wait_for_storage(instance(State.RUNNING), CASE, "why", CONFIG, now)
    (case,) = after.cases
    assert (case.step, failing) == (step, fails)
    assert case.due == now + (timedelta(minutes=1) if fails else timedelta(0))
    assert after.resumes == 5


M = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("stalls", "last_seen", "due"),
    [
        pytest.param((0,), 0, 2, id="once"),
        pytest.param((0, 1), 1, 3, id="again"),
        pytest.param((0, 10), 10, 12, id="long after"),
    ],
)
def test_storage_that_does_not_answer_is_one_incident_until_it_has_been_well_for_a_while(
    stalls: tuple[int, ...], last_seen: int, due: int
) -> None:
    host = InstanceRecord(uuid=HOST)
    for minute in stalls:
        host = stalled(host, "/pool/a.raw", "vm", NOON + minute * M)
    (case,) = host.cases
    assert (case.type, case.step) == (IncidentType.STORAGE_DEGRADED, Step.EXPIRE)
    assert (case.first_seen, case.last_seen) == (NOON, NOON + last_seen * M)
    assert case.due == NOON + due * M
    assert case.evidence[-1] == "the storage /pool does not answer, and vm has no I/O"


def test_storage_that_fails_and_then_does_not_answer_is_reported_for_as_long_as_it_was() -> None:
    other = replace(CASE, id="other", eviction="")
    host = stalled(InstanceRecord(uuid=HOST, cases=(other,)), "/pool/a.raw", "vm", NOON)
    late = host.cases[-1].then(Step.EXPIRE, NOON + 10 * M)
    again = stalled(host.with_case(late), "/pool/a.raw", "vm", NOON + M)
    assert again.cases[0] == other
    assert [case.due for case in again.cases] == [NOON, NOON + 10 * M]
