"""Verdicts on VirtualMachineInstances are KubeVirt's, but for a table of differences."""

from __future__ import annotations

import pytest
from tests.unit.vmi.differences import DIFFERENCES
from tests.unit.vmi.verdicts import GROUPS, PLAIN, UPDATES, answer, recorded, unexplained


@pytest.mark.parametrize("group", [one for one in GROUPS if one not in {*PLAIN, UPDATES}])
def test_verdict_on_a_manifest_is_the_recorded_one(group: str) -> None:
    assert unexplained(group, DIFFERENCES) == {}


@pytest.mark.parametrize("group", GROUPS)
def test_what_is_not_honoured_is_named_by_its_path(group: str) -> None:
    for case in recorded(group):
        for cause in answer(case).unsupported:
            assert cause.field.startswith("spec."), case.id
            assert cause.message.startswith(cause.field), case.id


def test_each_difference_is_that_of_a_recorded_case() -> None:
    assert DIFFERENCES.keys() <= {one.id for group in GROUPS for one in recorded(group)}


def test_hundreds_of_recorded_guests_can_run() -> None:
    answers = [answer(one) for group in GROUPS for one in recorded(group) if not one.by]
    assert sum(not (one.refused or one.unsupported) for one in answers) >= 290
