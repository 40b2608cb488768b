"""Locks of servers while they are evacuated: whose they are, and for how long."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec.structs import replace as with_fields
from tests.unit.operator.eviction.made import BEGAN, entry, eviction, server

from hypercobalt.api.conditions import set_condition
from hypercobalt.api.eviction import Eviction, EvictionStatus
from hypercobalt.compute.model import Server
from hypercobalt.operator.eviction.assessing.locks import Lock, is_to_be_locked, lock_of, outlived
from hypercobalt.operator.eviction.unlocking import worth_a_pass

MINE = Lock("e-1", "h-1")


def locked(reason: str = MINE.reason) -> Server:
    return replace(server(), locked=True, locked_reason=reason)


def recovering(
    phase: str | None = "Evacuating", uid: str = "e-1", mode: str = "evacuate"
) -> Eviction:
    """An Eviction that has the instance `a`; None: its status does not show that yet."""
    made = eviction()
    entries = () if phase is None else (entry(phase=phase, mode=mode),)
    meta = with_fields(made.metadata, uid=uid)
    return with_fields(made, metadata=meta, status=EvictionStatus(instances=entries))


def ended(phase: str = "Evacuating") -> Eviction:
    made = recovering(phase)
    over = set_condition((), "Evicting", "False", "Failed", "", now=BEGAN)
    return with_fields(made, status=with_fields(made.status, conditions=over))


def deleted() -> Eviction:
    made = recovering()
    return with_fields(made, metadata=with_fields(made.metadata, deletionTimestamp=BEGAN))


@pytest.mark.parametrize(
    "reason",
    [
        pytest.param("", id="none"),
        pytest.param("the database is being moved", id="another"),
        pytest.param(f"{MINE.reason}, too", id="longer"),
        pytest.param(f"see: {MINE.reason}", id="quoted"),
        pytest.param(MINE.reason.replace("e-1", ""), id="without its Eviction"),
    ],
)
def test_lock_with_another_reason_is_not_removed(reason: str) -> None:
    assert lock_of(reason) is None
    assert not is_to_be_locked(locked(reason), MINE)
    assert outlived([locked(reason)], [], {"h-1"}) == ()


def test_lock_is_found_again_by_its_reason_which_nova_takes() -> None:
    uid = "0f8fad5b-d9cb-469f-a165-70867728950e"
    lock = Lock(uid, uid)
    assert lock_of(lock.reason) == lock
    assert len(lock.reason) <= 255


@pytest.mark.parametrize(
    ("of", "wanted"),
    [
        pytest.param(server(), True, id="not locked"),
        pytest.param(locked(), False, id="locked for this Eviction already"),
        pytest.param(locked(Lock("e-0", "h-1").reason), True, id="locked for an earlier one"),
        pytest.param(locked("mine"), False, id="locked by its owner"),
    ],
)
def test_server_is_locked_unless_others_have_locked_it(of: Server, wanted: bool) -> None:
    assert is_to_be_locked(of, MINE) is wanted


@pytest.mark.parametrize(
    ("evictions", "over"),
    [
        pytest.param([recovering("Evacuating")], False, id="is evacuated"),
        pytest.param([recovering("Pending")], False, id="is tried again"),
        pytest.param([recovering(None)], False, id="not written yet"),
        pytest.param([recovering("Succeeded")], True, id="has arrived"),
        pytest.param([recovering("Failed")], True, id="given up"),
        pytest.param([recovering("Skipped")], True, id="nothing is done with it"),
        pytest.param([ended()], True, id="the Eviction has ended"),
        pytest.param([deleted()], True, id="the Eviction is deleted"),
        pytest.param([], True, id="the Eviction is gone"),
        pytest.param([recovering(uid="e-2")], True, id="another Eviction has it"),
    ],
)
def test_lock_lasts_until_the_recovery_is_over(evictions: list[Eviction], over: bool) -> None:
    assert outlived([locked()], evictions, {"h-1"}) == ((locked(),) if over else ())


def test_lock_for_a_host_of_another_operator_is_left_to_that() -> None:
    assert outlived([locked()], [], {"h-2"}) == ()


def test_server_that_is_not_locked_is_not_unlocked() -> None:
    assert outlived([replace(locked(), locked=False)], [], {"h-1"}) == ()


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        pytest.param(None, recovering(), True, id="first seen"),
        pytest.param(recovering(), None, True, id="gone"),
        pytest.param(recovering(), deleted(), True, id="deleted"),
        pytest.param(recovering(), ended(), True, id="ended"),
        pytest.param(recovering(), recovering("Succeeded"), True, id="arrived"),
        pytest.param(recovering("Pending"), recovering(), False, id="goes on"),
        pytest.param(None, recovering(None), False, id="has begun nothing"),
        pytest.param(
            recovering(mode="live"), recovering("Succeeded", mode="live"), False, id="a drain"
        ),
    ],
)
def test_pass_is_made_when_a_recovery_may_be_over(
    old: Eviction | None, new: Eviction | None, wanted: bool
) -> None:
    assert worth_a_pass(old, new) is wanted
