"""What is planned and written, when, and when to look again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from msgspec.structs import replace as with_fields
from tests.unit.operator.eviction.made import (
    NOW,
    POLICY,
    assessed,
    entry,
    eviction,
    facts,
    server,
    situation,
)

from hypercobalt.api.conditions import get_condition, set_condition
from hypercobalt.api.eviction import EvictionCheck, EvictionReason, EvictionStatus
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.transitions import ImpossibleTransitionError
from hypercobalt.compute.model import Host, Size
from hypercobalt.operator.eviction.model.decision import End, EvictionPlan, Preflight, Wait
from hypercobalt.operator.eviction.model.facts import Facts
from hypercobalt.operator.eviction.model.states import (
    Arrived,
    Assessment,
    Departed,
    Moving,
    Observed,
    State,
    Stranded,
    Unaffected,
)
from hypercobalt.operator.eviction.model.whereabouts import Whereabouts
from hypercobalt.operator.eviction.plan import plan
from hypercobalt.operator.eviction.planning.estimate import Timings
from hypercobalt.operator.eviction.recording.status import status_of, write_after

GOOD = Preflight(())
BAD = Preflight((EvictionCheck(name="HostDisabled", result="Failed", message="not disabled"),))
HOST = Host("here", "h", "s", enabled=False)


def gone(id_: str, state: State = Departed("moved to x")) -> Assessment:  # noqa: B008
    return Assessment(Observed(entry(id_, "Migrating", name=f"vm-{id_}"), None), state)


def failed(id_: str) -> Assessment:
    return assessed(server(id_), Stranded("no"))


def read(*, disabled: bool, verified: bool, before: EvictionStatus | None) -> Facts:
    marked = set_condition((), "HypervisorDisabled", "True", "Succeeded", "", now=NOW.now)
    hypervisor = Hypervisor(
        metadata=ObjectMeta(name="here"),
        spec=HypervisorSpec(),
        status=HypervisorStatus(conditions=marked if disabled else ()),
    )
    counted = frozenset[str]() if verified else None
    of = eviction(before)
    return facts(of, hypervisor=hypervisor, looked=True, host=HOST, counted=counted)


@dataclass(frozen=True)
class Settled:
    plan: EvictionPlan
    status: EvictionStatus


def settled(
    *instances: Assessment,
    disabled: bool = True,
    verified: bool = True,
    before: EvictionStatus | None = None,
) -> Settled:
    """A pass in which no call was made."""
    given = read(disabled=disabled, verified=verified, before=before)
    about = situation(given, replace(POLICY, per_cluster=0))
    made = plan(about, instances, (), Timings())
    return Settled(made, status_of(given, made, POLICY.order, 30.0))


def condition_of(status: EvictionStatus, type_: str) -> str:
    found = get_condition(status.conditions, type_)
    return f"{found.status}/{found.reason}" if found else ""


def message_of(status: EvictionStatus, type_: str) -> str:
    found = get_condition(status.conditions, type_)
    return found.message if found else ""


@pytest.mark.parametrize(
    ("of", "evicting", "migrating", "preflight"),
    [
        pytest.param(settled(), "False/Succeeded", "", "True/Succeeded", id="nothing there"),
        pytest.param(
            settled(gone("a")),
            "False/Succeeded",
            "False/Succeeded",
            "True/Succeeded",
            id="all left",
        ),
        pytest.param(
            settled(gone("a"), verified=False),
            "True/Running",
            "False/Succeeded",
            "True/Succeeded",
            id="all left, but not verified",
        ),
        pytest.param(
            settled(gone("a"), assessed(server("b"))),
            "True/Running",
            "False/Succeeded",
            "True/Succeeded",
            id="one left",
        ),
        pytest.param(
            settled(gone("a"), failed("b"), assessed(server("c"))),
            "True/Running",
            "False/Failed",
            "True/Succeeded",
            id="a failure stays in sight while others go on",
        ),
        pytest.param(
            settled(gone("a"), failed("b")),
            "False/Failed",
            "False/Failed",
            "True/Succeeded",
            id="one could not be moved: failed is not success",
        ),
        pytest.param(
            settled(disabled=False), "True/Running", "", "False/Failed", id="stopped by a check"
        ),
        pytest.param(
            settled(gone("a", Unaffected(""))),
            "False/Succeeded",
            "",
            "True/Succeeded",
            id="none to move",
        ),
    ],
)
def test_conditions_follow_from_the_instances(
    of: Settled, evicting: str, migrating: str, preflight: str
) -> None:
    assert condition_of(of.status, "Evicting") == evicting
    assert condition_of(of.status, "MigratingInstance") == migrating
    assert condition_of(of.status, "PreflightChecksSucceeded") == preflight
    assert (of.plan.end is not None) == evicting.startswith("False")


def test_the_next_instance_is_last_and_a_failed_one_first() -> None:
    small, large = server("small", size=Size(1, 1)), server("large", size=Size(1, 9))
    moving = assessed(server("moving"), Moving())
    found = settled(moving, assessed(large), failed("bad"), assessed(small)).status
    assert found.outstandingInstances == ("bad", "small", "large", "moving")
    assert found.outstandingRamMb == 1024 + 1024 + 1 + 9


def test_progress_counts_done_and_failed_instances_and_estimates_the_end() -> None:
    found = settled(gone("a"), failed("b"), assessed(server("c")), gone("d", Unaffected(""))).status
    progress = found.progress
    assert progress is not None
    assert (progress.total, progress.done, progress.failed, progress.percent) == (3, 1, 1, 33)
    assert progress.estimatedCompletion == NOW.now + timedelta(seconds=30)


BEGUN = EvictionStatus(
    conditions=set_condition(
        (), "PreflightChecksSucceeded", "True", "Succeeded", "passed", now=NOW.now
    )
)


@pytest.mark.parametrize(
    ("made", "before", "evicting", "preflight"),
    [
        pytest.param(
            EvictionPlan(wait=Wait("compute service away")), EvictionStatus(), "True/Running", "",
            id="waits",
        ),
        pytest.param(
            EvictionPlan(wait=Wait("no host", "unknown")), EvictionStatus(),
            "True/Running", "False/Failed", id="cannot begin",
        ),
        pytest.param(
            EvictionPlan(wait=Wait("no host", "unknown")), BEGUN, "True/Running", "True/Succeeded",
            id="cannot go on: the checks had passed",
        ),
        pytest.param(
            EvictionPlan(wait=Wait("away")), BEGUN, "True/Running", "True/Succeeded",
            id="waits to go on"
        ),
        pytest.param(
            EvictionPlan(end=End(EvictionReason.FAILED, "refused")), EvictionStatus(),
            "False/Failed", "False/Failed", id="refused",
        ),
        pytest.param(
            EvictionPlan(end=End(EvictionReason.CANCELLED, "deleted")), BEGUN, "False/Cancelled",
            "True/Succeeded", id="cancelled",
        ),
        pytest.param(
            EvictionPlan(end=End(EvictionReason.SUCCEEDED, "no host")), EvictionStatus(),
            "False/Succeeded", "", id="nothing to do",
        ),
        pytest.param(EvictionPlan(), BEGUN, "", "True/Succeeded", id="nothing is decided"),
    ],
)  # fmt: skip
def test_pass_that_ends_before_its_instances_are_looked_at(
    made: EvictionPlan, before: EvictionStatus, evicting: str, preflight: str
) -> None:
    found = status_of(facts(eviction(before)), made, POLICY.order, None)
    assert condition_of(found, "Evicting") == evicting
    assert condition_of(found, "PreflightChecksSucceeded") == preflight
    text = made.wait or made.end
    assert message_of(found, "Evicting") == (text.message if text else "")


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(EvictionPlan(wait=Wait("waits")), id="waits"),
        pytest.param(EvictionPlan(instances=()), id="goes on"),
        pytest.param(EvictionPlan(end=End(EvictionReason.CANCELLED)), id="ends otherwise"),
    ],
)
def test_eviction_that_is_over_is_never_opened_again(made: EvictionPlan) -> None:
    over = facts(eviction(ENDED))
    with pytest.raises(ImpossibleTransitionError):
        status_of(over, made, POLICY.order, None)


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(EvictionPlan(release=True), id="let go"),
        pytest.param(EvictionPlan(end=End(EvictionReason.SUCCEEDED, "over")), id="ends as before"),
    ],
)
def test_eviction_that_is_over_may_be_looked_at_again(made: EvictionPlan) -> None:
    found = status_of(facts(eviction(ENDED)), made, POLICY.order, None)
    assert condition_of(found, "Evicting") == "False/Succeeded"


@pytest.mark.parametrize(
    ("reason", "given", "message"),
    [
        (EvictionReason.CANCELLED, "deleted", "deleted"),
        (EvictionReason.SUCCEEDED, "", "eviction completed successfully: 1 instance left here"),
    ],
)
def test_end_has_its_own_words_or_those_of_its_instances(
    reason: EvictionReason, given: str, message: str
) -> None:
    made = EvictionPlan(instances=(gone("a"),), end=End(reason, given))
    found = status_of(facts(), made, POLICY.order, None)
    assert message_of(found, "Evicting") == message


@pytest.mark.parametrize(
    ("left", "waits"),
    [
        ({"a": Whereabouts()}, "; waiting to see 1 instance run: vm-a (a): is off"),
        ({}, ""),
    ],
)
def test_eviction_names_what_is_not_seen_to_run_where_it_is(
    left: dict[str, Whereabouts], waits: str
) -> None:
    instances = (gone("a", Arrived(due=False, message="is off")), gone("b"))
    found = status_of(facts(left=left), EvictionPlan(instances=instances), POLICY.order, None)
    shown = get_condition(found.conditions, "Evicting")
    assert shown is not None
    assert shown.message == f"Running: 1 of 2 instances have left here, 0 migrating{waits}"
    assert found.outstandingInstances == ("a",)


@pytest.mark.parametrize(
    ("host", "known", "expected"),
    [
        pytest.param(Host("here", "uuid", "s", enabled=True), None, "uuid", id="known"),
        pytest.param(Host("here", "", "s", enabled=True), None, None, id="without one"),
        pytest.param(None, "uuid", "uuid", id="the host is not known any more"),
    ],
)
def test_status_has_the_id_of_the_host(
    host: Host | None, known: str | None, expected: str | None
) -> None:
    given = facts(eviction(EvictionStatus(hypervisorServiceId=known)), host=host)
    found = status_of(given, EvictionPlan(instances=()), POLICY.order, None)
    assert found.hypervisorServiceId == expected


@pytest.mark.parametrize(
    ("results", "status", "message"),
    [
        pytest.param((), "True", "Preflight checks passed", id="all passed"),
        pytest.param(
            ("Warning",), "True", "Preflight checks passed, with warnings: check 0", id="a doubt"
        ),
        pytest.param(
            ("Warning", "Warning"), "True",
            "Preflight checks passed, with warnings: check 0; check 1", id="two doubts",
        ),
        pytest.param(("Pending", "Warning"), "False", "check 0", id="one is awaited"),
        pytest.param(("Pending", "Failed"), "False", "check 0; check 1", id="one has failed"),
    ],
)  # fmt: skip
def test_checks_are_worded_that_do_not_pass(
    results: tuple[str, ...], status: str, message: str
) -> None:
    checks = tuple(
        EvictionCheck(name=f"N{n}", result=result, message=f"check {n}")
        for n, result in enumerate(results)
    )
    made = EvictionPlan(instances=(), checks=Preflight(checks))
    found = status_of(facts(), made, POLICY.order, None)
    condition = get_condition(found.conditions, "PreflightChecksSucceeded")
    assert condition is not None
    assert (condition.status, condition.message) == (status, message)
    assert found.checks == checks


def test_check_without_words_is_named() -> None:
    checks = (EvictionCheck(name="HostDisabled", result="Failed"),)
    made = EvictionPlan(instances=(), checks=Preflight(checks))
    found = status_of(facts(), made, POLICY.order, None)
    assert message_of(found, "PreflightChecksSucceeded") == "HostDisabled"


RUNNING = settled(gone("a"), assessed(server("b"))).status
ENDED = settled(gone("a"), gone("b")).status
LATER = with_fields(
    RUNNING,
    progress=with_fields(RUNNING.progress, estimatedCompletion=NOW.now),  # type: ignore[type-var]
)


@pytest.mark.parametrize(
    ("written", "now", "since", "wait"),
    [
        pytest.param(RUNNING, RUNNING, 100, None, id="nothing new"),
        pytest.param(RUNNING, ENDED, 0, 0, id="the end, at once"),
        pytest.param(EvictionStatus(), RUNNING, 0, 0, id="the start, at once"),
        pytest.param(
            settled(assessed(server("a")), assessed(server("b")), before=RUNNING).status,
            RUNNING,
            0.25,
            0.75,
            id="an instance more, once a second",
        ),
        pytest.param(RUNNING, LATER, 4, 6, id="the estimate alone, every ten seconds"),
        pytest.param(RUNNING, LATER, float("inf"), 0, id="the first write of this process"),
    ],
)
def test_status_is_written_at_once_or_after_a_wait(
    written: EvictionStatus, now: EvictionStatus, since: float, wait: float | None
) -> None:
    found = write_after(written, now, since)
    assert found == (None if wait is None else timedelta(seconds=wait))
