"""Verdicts on changes are KubeVirt's: those of its actors, and those of people."""

from __future__ import annotations

from tests.unit.vmi.differences import DIFFERENCES
from tests.unit.vmi.verdicts import UPDATES, unexplained


def test_verdict_on_a_change_is_the_recorded_one() -> None:
    assert unexplained(UPDATES, DIFFERENCES) == {}
