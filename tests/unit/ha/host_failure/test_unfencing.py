"""When a host that was cut off from its storage gets that back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec.structs import replace as with_fields
from tests.unit.ha.host_failure.made import DEAD, NOW, but, in_order

from hypercobalt.api.fencing import Fencing, FencingMethod, FencingPhase
from hypercobalt.ha.host_failure.facts import HostFacts, Means
from hypercobalt.ha.host_failure.fencing import Nothing, Record, WaitUntil
from hypercobalt.ha.host_failure.unfencing import (
    GiveBack,
    Held,
    UnfencingStep,
    given_back,
    next_step,
)

S = timedelta(seconds=1)
CUT = Fencing(
    phase=FencingPhase.FENCED, bootID="b1", method=FencingMethod.STORAGE, device="san",
    storageDevice="san", startedAt=NOW - 300 * S, deadline=NOW, evidence=("silent",),
    forcedDownAt=NOW,
)  # fmt: skip
FAILED = with_fields(CUT, phase=FencingPhase.FAILED, forcedDownAt=None)
AWAY = but(DEAD, boot="b2", node_boot="b2", storage=Means("san", 60 * S))
BACK = in_order(AWAY)
UNTIL = NOW + 61 * S
BEGUN = with_fields(CUT, unfenceDeadline=UNTIL)
REBOOT = "its boot {} was fenced; reboot the host"
OLD_BOOT = but(BACK, boot="b1", node_boot="b1")


@pytest.mark.parametrize(
    ("stored", "back", "expected"),
    [
        pytest.param(
            with_fields(CUT, storageDevice=None), BACK, Nothing(), id="one that was not cut off"
        ),
        pytest.param(CUT, BACK, Record(BEGUN), id="a clean host: the attempt is recorded first"),
        pytest.param(BEGUN, but(BACK, mine=UNTIL), GiveBack(BEGUN), id="and then made"),
        pytest.param(BEGUN, BACK, WaitUntil(UNTIL), id="another process has recorded it"),
        pytest.param(
            with_fields(CUT, unfenceDeadline=NOW), but(BACK, mine=NOW), Record(BEGUN),
            id="an attempt that is over is recorded anew",
        ),
        pytest.param(
            with_fields(CUT, deadline=NOW + S), BACK, WaitUntil(NOW + S),
            id="a call that is late may cut it off yet",
        ),
        pytest.param(with_fields(CUT, deadline=None), BACK, Record(
            with_fields(BEGUN, deadline=None)), id="there is no such call"),
        pytest.param(CUT, AWAY, Held(""), id="not in order yet"),
        pytest.param(FAILED, but(AWAY, boot="b1", node_boot="b1"), Record(
            with_fields(FAILED, unfenceDeadline=UNTIL)),
            id="nothing was begun by it: at once, in the same boot",
        ),
        pytest.param(
            with_fields(FAILED, forcedDownAt=NOW), BACK, Record(
                with_fields(FAILED, forcedDownAt=NOW, unfenceDeadline=UNTIL)),
            id="fenced anew in vain, and back with another boot",
        ),
    ],
)  # fmt: skip
def test_next_step_of_unfencing_follows_from_record_and_reports(
    stored: Fencing, back: HostFacts, expected: UnfencingStep
) -> None:
    assert next_step(stored, back) == expected


@pytest.mark.parametrize(
    ("stored", "back", "why"),
    [
        pytest.param(CUT, OLD_BOOT, REBOOT.format("b1"), id="the same boot"),
        pytest.param(CUT, but(BACK, boot=""), REBOOT.format(""), id="no boot is known"),
        pytest.param(
            with_fields(CUT, nodeBootID="b2"), BACK, REBOOT.format("b2"), id="the kubelet's"
        ),
        pytest.param(
            with_fields(FAILED, forcedDownAt=NOW), OLD_BOOT, REBOOT.format("b1"),
            id="fenced anew in vain",
        ),
        pytest.param(
            CUT, but(BACK, node_boot="b3"), "the node agent has not reported boot b3 yet",
            id="its kubelet has a later one",
        ),
        pytest.param(CUT, in_order(BACK, "vm-1"), "instances run there: vm-1", id="runs"),
        pytest.param(
            CUT, in_order(BACK, "a", "b", "c"), "instances run there: a, b, c", id="three"
        ),
        pytest.param(
            CUT, in_order(BACK, "a", "b", "c", "d", "e"),
            "instances run there: a, b, c and 2 more", id="many",
        ),
        pytest.param(
            CUT, but(BACK, storage=Means()), "its fence devices any more: set it up again",
            id="its device is not set up any more",
        ),
    ],
)  # fmt: skip
def test_host_that_stays_cut_off_has_the_reason(stored: Fencing, back: HostFacts, why: str) -> None:
    found = next_step(stored, back)
    assert isinstance(found, Held)
    assert found.why.startswith("san ")
    assert found.why.endswith(why)


def test_agent_alone_counts_where_the_kubelet_has_not_reported() -> None:
    assert isinstance(next_step(CUT, but(BACK, node_boot="")), Record)


def test_attempt_has_a_deadline_in_whole_seconds() -> None:
    found = next_step(CUT, but(BACK, later=timedelta(milliseconds=900)))
    assert found == Record(BEGUN)


def test_host_that_has_its_storage_back_is_no_longer_recorded_as_cut_off() -> None:
    found = given_back(BEGUN)
    assert (found.storageDevice, found.unfenceDeadline) == (None, UNTIL)
    assert found.evidence == ("silent", "san reports that the host reaches its storage again")
    assert next_step(found, BACK) == Nothing()


def test_launcher_pod_keeps_no_host_cut_off_from_its_storage() -> None:
    """None is started on another host, so it writes to no disk that another one writes."""
    back = in_order(BACK, "default_a")
    (pod,) = back.hypervisor.status.instances
    launched = with_fields(
        back.hypervisor.status, instances=(with_fields(pod, namespace="default"),)
    )
    given = replace(back, hypervisor=with_fields(back.hypervisor, status=launched))
    found = next_step(CUT, given)
    assert isinstance(found, Record)
