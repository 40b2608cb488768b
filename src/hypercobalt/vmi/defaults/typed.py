"""A spec as KubeVirt's typed structures write it, where that is more than spelling.

A required text, number or flag that is missing is written as empty, so that a rule can name it and
the definition's schema lets it pass until then. A fraction as a quantity is written as text, and a
map with free keys that is empty is left out.
"""

from __future__ import annotations

from typing import Final

from hypercobalt.api.kubevirt.schema import SchemaField, virtual_machine_instance
from hypercobalt.vmi.defaults.members import given, member, objects
from hypercobalt.vmi.review import Json, JsonObject
from hypercobalt.vmi.shape import SCALARS

_EMPTY: Final[dict[str, Json]] = {"string": "", "boolean": False}


def copy(value: Json) -> Json:
    """A copy of a value without nulls of objects; as deep as the value, which has a known shape."""
    if isinstance(value, dict):
        return {name: copy(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [copy(item) for item in value]
    return value


def fill(spec: JsonObject) -> None:
    """Add what a typed structure would write, in place."""
    _fill(virtual_machine_instance().fields["spec"], spec)
    member(given(spec, "domain") or {}, "resources")
    for volume in objects(spec, "volumes"):
        disk = given(volume, "hostDisk")
        if disk is not None:
            disk.setdefault("capacity", "0")
        for field in objects(given(volume, "downwardAPI") or {}, "fields"):
            reference = given(field, "resourceFieldRef")
            if reference is not None:
                reference.setdefault("divisor", "0")


def _fill(one: SchemaField, value: Json) -> None:
    if isinstance(value, list):
        for item in value:
            if one.items:
                _fill(one.items, item)
    if not isinstance(value, dict):
        return
    for name in one.required:
        type_ = one.fields[name].type
        if name not in value and type_ in SCALARS:
            value[name] = _EMPTY.get(type_, 0)
    for name, item in value.items():
        below = one.values or one.fields.get(name)
        if below is None:
            continue
        if below.type == "quantity" and isinstance(item, float):
            value[name] = repr(item)
        else:
            _fill(below, item)
    for name in [name for name, item in value.items() if item == {}]:
        if one.fields.get(name) is not None and one.fields[name].values:
            del value[name]
