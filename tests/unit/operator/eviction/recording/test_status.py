"""What is planned and written, when, and when to look again."""

from __future__ import annotations

from dataclasses import replace
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
)

from hypercobalt.api.conditions import get_condition, set_condition
from hypercobalt.api.eviction import EvictionCheck, EvictionStatus
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.model import Host, Size
from hypercobalt.operator.eviction.model.decision import Plan, Preflight
from hypercobalt.operator.eviction.model.facts import Facts
from hypercobalt.operator.eviction.model.policy import Order, order_of
from hypercobalt.operator.eviction.model.states import (
    Assessment,
    Departed,
    Moving,
    Observed,
    State,
    Stranded,
    Unaffected,
)
from hypercobalt.operator.eviction.plan import plan
from hypercobalt.operator.eviction.planning.estimate import Timings
from hypercobalt.operator.eviction.recording.notes import notes
from hypercobalt.operator.eviction.recording.status import status_of, write_after
from hypercobalt.operator.wording import Note

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


class Settled:
    def __init__(self, given: Facts, made: Plan) -> None:
        self.plan = made
        self.status = status_of(given, made, POLICY.order, 30.0)
        self.notes: tuple[Note, ...] = notes(given.status, self.status, "here")


def settled(
    *instances: Assessment,
    disabled: bool = True,
    verified: bool = True,
    before: EvictionStatus | None = None,
) -> Settled:
    """A pass in which no call was made."""
    given = read(disabled=disabled, verified=verified, before=before)
    made = plan(given, instances, (), Timings(), replace(POLICY, per_cluster=0))
    return Settled(given, made)


def condition_of(of: Settled, type_: str) -> str:
    found = get_condition(of.status.conditions, type_)
    return f"{found.status}/{found.reason}" if found else ""


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
def test_conditions(of: Settled, evicting: str, migrating: str, preflight: str) -> None:
    assert condition_of(of, "Evicting") == evicting
    assert condition_of(of, "MigratingInstance") == migrating
    assert condition_of(of, "PreflightChecksSucceeded") == preflight
    assert (of.plan.end is not None) == evicting.startswith("False")


def test_the_next_instance_is_last_and_a_failed_one_first() -> None:
    small, large = server("small", size=Size(1, 1)), server("large", size=Size(1, 9))
    moving = assessed(server("moving"), Moving())
    found = settled(moving, assessed(large), failed("bad"), assessed(small)).status
    assert found.outstandingInstances == ("bad", "small", "large", "moving")
    assert found.outstandingRamMb == 1024 + 1024 + 1 + 9


def test_progress() -> None:
    found = settled(gone("a"), failed("b"), assessed(server("c")), gone("d", Unaffected(""))).status
    progress = found.progress
    assert progress is not None
    assert (progress.total, progress.done, progress.failed, progress.percent) == (3, 1, 1, 33)
    assert progress.estimatedCompletion == NOW.now + timedelta(seconds=30)


def test_events_come_once() -> None:
    first = settled(gone("a"), failed("b"), assessed(server("c")))
    assert [note.reason for note in first.notes] == ["EvictionStarted", "InstanceNotMoved"]
    again = settled(gone("a"), failed("b"), assessed(server("c")), before=first.status)
    assert again.notes == ()
    end = settled(gone("a"), failed("b"), gone("c"), before=first.status)
    assert [note.reason for note in end.notes] == ["EvictionFailed"]


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
def test_when_to_write(
    written: EvictionStatus, now: EvictionStatus, since: float, wait: float | None
) -> None:
    found = write_after(written, now, since)
    assert found == (None if wait is None else timedelta(seconds=wait))


def test_a_shutdown_is_urgent() -> None:
    assert order_of(eviction(trigger="HostShutdown"), POLICY) is Order.URGENT
    assert order_of(eviction(), POLICY) is Order.LARGEST
