"""Whether a host counts as proven dead."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace
from tests.records import recorded

from hypercobalt.api.fencing import (
    Fencing,
    FencingMethod,
    FencingPhase,
    is_declared_dead,
    is_ordered,
)
from hypercobalt.api.hypervisor import Hypervisor, is_fenced, is_shown_fenced
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("boot", "fencing", "expected"),
    [
        ("b1", None, False),
        ("b1", Fencing(phase=FencingPhase.ATTEMPTING, bootID="b1"), False),
        ("b1", Fencing(phase=FencingPhase.FAILED, bootID="b1"), False),
        ("b1", Fencing(phase=FencingPhase.RELEASED, bootID="b1"), False),
        ("b1", Fencing(phase=FencingPhase.FENCED, bootID="b1"), True),
        ("b1", Fencing(phase=FencingPhase.FENCED, bootID="b1", livesSince=NOON), False),
        ("b2", Fencing(phase=FencingPhase.FENCED, bootID="b1"), False),
        ("b2", Fencing(phase=FencingPhase.FENCED), False),
        (None, Fencing(phase=FencingPhase.FENCED, bootID="b1"), False),
        (None, Fencing(phase=FencingPhase.FENCED), False),
        ("", Fencing(phase=FencingPhase.FENCED, bootID=""), False),
        (None, Fencing(phase=FencingPhase.FENCED, bootID=""), False),
    ],
)
def test_a_host_is_fenced_for_the_boot_that_it_has_reported_last(
    boot: str | None, fencing: Fencing | None, expected: bool
) -> None:
    status = HypervisorStatus(bootID=boot, fencing=fencing)
    shown = Hypervisor(metadata=ObjectMeta(name="kvm-1"), status=status)
    assert (is_fenced(recorded(shown)), is_shown_fenced(shown)) == (expected, expected)
    assert not is_fenced(shown), "the host's own word"


@pytest.mark.parametrize(
    ("phase", "more", "declared"),
    [
        (FencingPhase.ATTEMPTING, {}, False),
        (FencingPhase.FAILED, {}, False),
        (FencingPhase.FENCED, {}, True),
        (FencingPhase.FENCED, {"livesSince": NOON}, True),
        (FencingPhase.FENCED, {"forcedDownAt": NOON}, True),
        (FencingPhase.ATTEMPTING, {"forcedDownAt": NOON}, True),
        (FencingPhase.FAILED, {"forcedDownAt": NOON, "livesSince": NOON}, True),
        (FencingPhase.RELEASED, {"forcedDownAt": NOON}, False),
    ],
)
def test_host_that_was_declared_dead_ends_its_instances_until_it_is_taken_back(
    phase: FencingPhase, more: dict[str, datetime], declared: bool
) -> None:
    """The instances may run elsewhere, whatever became of the proof."""
    record = replace(Fencing(phase=phase, bootID="b1"), **more)
    assert is_declared_dead(record) is declared
    assert (is_ordered(record, "b1"), is_ordered(record, "b2")) == (declared, False)


def test_agent_ends_its_instances_by_order() -> None:
    order = Fencing(phase=FencingPhase.ATTEMPTING, bootID="b1", method=FencingMethod.AGENT)
    assert is_ordered(order, "b1")
    assert not is_ordered(order, "")
    assert not is_ordered(None, "b1")
