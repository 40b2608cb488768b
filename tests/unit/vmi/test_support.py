"""The table of what is honoured: each field of the schema is honoured, or refused at its path."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypercobalt.api.kubevirt.schema import fields, virtual_machine_instance
from hypercobalt.vmi import support_page
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import Json, JsonObject
from hypercobalt.vmi.support import (
    EXCEPTIONS,
    NOT_HONOURED,
    NOT_PLANNED,
    PARENTS,
    TABLE,
    Honoured,
    is_honoured,
    refusals,
)

PAGE = Path(__file__).resolve().parents[3] / "docs/vmi.md"
SPEC = [
    path
    for path, _ in fields(virtual_machine_instance())
    if path.startswith("spec.") and not path.endswith(("[]", "{}"))
]


def holding(path: str, value: Json) -> JsonObject:
    """A spec in which nothing but this field is set."""
    steps = path.removeprefix("spec.").split(".")
    for step in reversed(steps):
        name = step.rstrip("[]{}")
        for _ in range(step.count("[]")):
            value = [value]
        for _ in range(step.count("{}")):
            value = {"key": value}
        value = {name: value}
    assert isinstance(value, dict)
    return value


def is_alone(path: str) -> bool:
    """Whether setting a field sets no object above it that is refused by being there."""
    return is_honoured(path) or path.rpartition(".")[0].removesuffix("[]") in {*PARENTS, "spec"}


def refused(path: str, value: Json) -> list[str]:
    return [one.field for one in refusals(At(holding(path, value), "spec"))]


def test_each_field_of_the_table_is_one_of_the_schema() -> None:
    known = {path for path, _ in fields(virtual_machine_instance())}
    assert {one.path for one in TABLE} | EXCEPTIONS | NOT_PLANNED <= known
    assert len({one.path for one in TABLE}) == len(TABLE)
    assert not any(is_honoured(path) for path in NOT_PLANNED)


@pytest.mark.parametrize("value", ["a text", 7, True, {"name": "x"}], ids=str)
def test_each_field_is_honoured_or_refused_at_its_topmost_field(value: Json) -> None:
    only = {one.path for one in TABLE if one.values}
    for path in SPEC:
        if path in PARENTS or path in only:
            continue
        found = refused(path, value)
        if is_honoured(path):
            assert found == [], path
        else:
            (field,) = found
            assert path.replace("[]", "[0]").startswith(field), path


@pytest.mark.parametrize("value", ["", 0, False, []], ids=str)
def test_what_asks_for_nothing_is_not_refused(value: Json) -> None:
    assert not [path for path in SPEC if is_alone(path) and refused(path, value)]


@pytest.mark.parametrize("one", [one for one in TABLE if one.values], ids=lambda one: one.path)
def test_other_values_than_the_honoured_ones_are_refused(one: Honoured) -> None:
    path, values = one.path, one.values
    assert not any(refused(path, value) for value in values)
    (cause,) = refusals(At(holding(path, "other"), "spec"))
    assert cause.field == path.replace("[]", "[0]")
    assert NOT_HONOURED in cause.message


def test_empty_object_counts_by_being_there() -> None:
    assert refused("spec.livenessProbe", {}) == ["spec.livenessProbe"]
    assert refused("spec.volumes[].persistentVolumeClaim", {}) == [
        "spec.volumes[0].persistentVolumeClaim"
    ]


def test_field_below_an_honoured_one_can_be_an_exception() -> None:
    assert refused("spec.networks[].pod", {}) == []
    assert refused("spec.networks[].pod.vmNetworkCIDR", "10.0.0.0/24") == [
        "spec.networks[0].pod.vmNetworkCIDR"
    ]


def test_page_of_all_fields_is_current() -> None:
    run = PAGE.with_name("images") / "vmi-run.mmd"
    assert PAGE.read_text() == support_page.page(run.read_text()), "run scripts/generate"
