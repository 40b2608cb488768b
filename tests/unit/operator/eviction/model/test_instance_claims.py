"""Which claims on instances of a dead host are shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.unit.operator.samples import NOW

from hypercobalt.compute.model import Move, MoveKind
from hypercobalt.operator.eviction.model.claims import claims

HOUR = timedelta(hours=1)
REFUSED = Move(
    "m", "vm-1", MoveKind.EVACUATION, "error", "kvm-1", "kvm-2", NOW, NOW,
    message="vm is not started elsewhere: its disk is that of x on kvm-3, too", claimed_by="kvm-3",
)  # fmt: skip
WENT = replace(REFUSED, status="done", claimed_by="", created=NOW + HOUR)


@pytest.mark.parametrize(
    ("moves", "by"),
    [
        pytest.param((REFUSED,), ["kvm-3"], id="claimed"),
        pytest.param((WENT, REFUSED), [], id="that is over"),
        pytest.param((replace(REFUSED, claimed_by=""),), [], id="it failed for another reason"),
        pytest.param((replace(REFUSED, created=NOW - HOUR),), [], id="in an earlier Eviction"),
        pytest.param((REFUSED, replace(REFUSED, server="vm-2")), ["kvm-3"] * 2, id="two"),
    ],
)
def test_claim_counts_while_it_stops_the_instance(moves: tuple[Move, ...], by: list[str]) -> None:
    assert [one.by for one in claims(moves, NOW, "kvm-1")] == by


def test_claim_names_both_hosts_and_what_to_do() -> None:
    (found,) = claims([replace(REFUSED, message=REFUSED.message + "x" * 5000)], NOW, "kvm-1")
    assert "vm-1 of kvm-1" in found.text
    assert "is that of x on kvm-3" in found.text
    assert "Undefine the domain on the host that it does not belong to" in found.text
    assert len(found.text) < 1024
