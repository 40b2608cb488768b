"""Values that are the same as typed structures, also where one is of another type."""

from __future__ import annotations

import pytest

from hypercobalt.api.kubevirt.schema import virtual_machine_instance
from hypercobalt.vmi.review import Json
from hypercobalt.vmi.same import same

SPEC = virtual_machine_instance().fields["spec"]


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (7, [{}], False),
        ([{}], 7, False),
        (7, {"hostname": "a"}, False),
        ({"hostname": "a"}, 7, False),
    ],
)
def test_values_of_two_types_differ(left: Json, right: Json, *, equal: bool) -> None:
    lists = SPEC.fields["tolerations"]
    assert same(left, right, lists) is equal
    assert same({"tolerations": left}, {"tolerations": right}, SPEC) is equal


def test_members_that_no_schema_knows_are_compared_as_they_are() -> None:
    assert same({"unknown": [0]}, {"unknown": [0]}, SPEC)
    assert not same({"unknown": [0]}, {"unknown": [1]}, SPEC)
    assert not same({"unknown": 0}, {}, SPEC)
