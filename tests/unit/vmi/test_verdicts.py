"""Verdicts on VirtualMachineInstances are KubeVirt's, but for a table of differences."""

from __future__ import annotations

import pytest
from tests.unit.vmi.differences import DIFFERENCES
from tests.unit.vmi.verdicts import RecordedVerdict, answer, difference, recorded

from hypercobalt.vmi.support import is_honoured

GROUPS = sorted({(one.operation, one.group) for one in recorded()})


def cases(operation: str, group: str) -> list[RecordedVerdict]:
    return [one for one in recorded() if (one.operation, one.group) == (operation, group)]


@pytest.mark.parametrize(("operation", "group"), GROUPS, ids=[" ".join(one) for one in GROUPS])
def test_verdict_is_the_recorded_one(operation: str, group: str) -> None:
    found = {one.id: difference(one, answer(one)) for one in cases(operation, group)}
    unexplained = {
        f"{one.id} {one.about}": found[one.id]
        for one in cases(operation, group)
        if found[one.id] and one.id not in DIFFERENCES
    }
    assert not unexplained
    assert {one for one in found if one in DIFFERENCES} == {
        one for one, differs in found.items() if differs
    }


def test_each_difference_is_that_of_a_recorded_case() -> None:
    assert DIFFERENCES.keys() <= {one.id for one in recorded()}


@pytest.mark.parametrize("group", [group for operation, group in GROUPS if operation == "CREATE"])
def test_what_is_not_honoured_is_refused_at_a_path_of_the_schema(group: str) -> None:
    for case in cases("CREATE", group):
        for cause in answer(case).unsupported:
            assert cause.field.startswith("spec."), case.id
            assert cause.message.startswith(cause.field), case.id


def test_what_is_honoured_is_allowed_as_recorded() -> None:
    allowed = [one for one in recorded() if not one.by and one.operation == "CREATE"]
    answers = [answer(one) for one in allowed]
    assert sum(not (one.refused or one.unsupported) for one in answers) > 150
    assert is_honoured("spec.domain.cpu.cores")
