"""Sets of fields, as managedFields holds them, and what a schema-aware walk finds in values.

A set is a trie of path elements: `f:NAME` a field, `k:{…}` a list item by its key fields, `v:…` an
item of a list of type set. The key "." marks the place itself as a member. (On the wire a
leaf is written `{}` instead of `{".": {}}`; `decode` and `encode` convert.)

Source: sigs.k8s.io/structured-merge-diff (fieldpath.Set, typed.ToFieldSet, typed.Compare,
typed.RemoveItems); the format is meta/v1 FieldsV1.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

import msgspec

from hypercobalt.apiserver.errors import JSON, JSONObject
from hypercobalt.apiserver.schema.node import UNTYPED, Node
from hypercobalt.apiserver.schema.numbers import key_text
from hypercobalt.apiserver.schema.validation import list_key
from hypercobalt.apiserver.values import same

HERE = "."
Fields: TypeAlias = "dict[str, Fields]"


def decode(wire: JSON) -> Fields:
    """FieldsV1 as a set; anything malformed raises ValueError."""
    if not isinstance(wire, dict):
        raise ValueError("fieldsV1 must be an object")  # noqa: TRY004  # a bad value
    found: Fields = {}
    for name, below in wire.items():
        if name == HERE:
            found[HERE] = {}
        else:
            _check_element(name)
            found[name] = decode(below) if below else {HERE: {}}
    return found


def _check_element(name: str) -> None:
    kind, rest = name[:2], name[2:]
    if kind not in ("f:", "k:", "v:", "i:"):
        raise ValueError(f"invalid path element {name!r}")
    if kind in ("k:", "v:"):
        try:
            msgspec.json.decode(rest, type=dict[str, Any] if kind == "k:" else Any)
        except msgspec.DecodeError as error:
            raise ValueError(f"invalid path element {name!r}") from error


def encode(fields: Fields) -> dict[str, JSON]:
    """A set as FieldsV1."""
    return {
        name: {} if name == HERE or below.keys() == {HERE} else encode(below)
        for name, below in sorted(fields.items())
    }


def union(a: Fields, b: Fields) -> Fields:
    merged = dict(a)
    for name, below in b.items():
        merged[name] = union(merged[name], below) if name in merged else below
    return merged


def intersection(a: Fields, b: Fields) -> Fields:
    shared: Fields = {}
    for name, below in a.items():
        if name not in b:
            continue
        if name == HERE:
            shared[HERE] = {}
        elif common := intersection(below, b[name]):
            shared[name] = common
    return shared


def difference(a: Fields, b: Fields) -> Fields:
    left: Fields = {}
    for name, below in a.items():
        if name not in b:
            left[name] = below
        elif name != HERE and (rest := difference(below, b[name])):
            left[name] = rest
    return left


def with_named_parents(node: Node, fields: Fields) -> Fields:
    """The set, with every declared field that holds a member made a member too."""
    grown: Fields = {}
    for name, below in fields.items():
        if name == HERE:
            grown[HERE] = {}
            continue
        inner = with_named_parents(_step(node, name), below)
        if name.startswith("f:") and name[2:] in node.fields:
            inner[HERE] = {}
        grown[name] = inner
    return grown


def _step(node: Node, element: str) -> Node:
    if element.startswith("f:"):
        return node.child(element[2:]) or UNTYPED
    return node.items or UNTYPED


def paths(fields: Fields, prefix: str = "") -> Iterator[str]:
    """Each member as Kubernetes prints it: `.spec.containers[name="a"].image`."""
    for name, below in sorted(fields.items()):
        if name == HERE:
            yield prefix
            continue
        yield from paths(below, prefix + _printed(name))


def _printed(element: str) -> str:
    kind, rest = element[:2], element[2:]
    if kind == "f:":
        return f".{rest}"
    if kind == "k:":
        keys: dict[str, JSON] = msgspec.json.decode(rest)
        listed = ",".join(
            f"{name}={msgspec.json.encode(value).decode()}" for name, value in keys.items()
        )
        return f"[{listed}]"
    return f"[{'=' if kind == 'v:' else ''}{rest}]"


def typed_errors(node: Node, value: JSON, path: str = "", *, free: bool = False) -> Iterator[str]:
    """Why a configuration cannot be applied: fields and types that the schema does not have.

    Source: structured-merge-diff typed/validate.go and typed/helpers.go, with its words.

    Args:
        node: the schema of a value.
        value: what is applied there.
        path: of it.
        free: it is below an object that keeps undeclared fields; then all below it may have some.
    """
    free = free or node.opaque
    if value is None or node.int_or_string:
        return
    wanted = _WANTED.get(node.type)
    if wanted is not None and not isinstance(value, wanted[0]):
        yield f"{path}: expected {wanted[1]}, got {_shown_as_go(value)}"
    elif isinstance(value, dict):
        for name, item in value.items():
            below = node.child(name) or (UNTYPED if free else None)
            if below is None:
                yield f"{path}.{name}: field not declared in schema"
            else:
                yield from typed_errors(below, item, f"{path}.{name}", free=free)
    elif isinstance(value, list):
        yield from _typed_errors_of_items(node, value, path, free=free)


def _typed_errors_of_items(
    node: Node, items: list[JSON], path: str, *, free: bool
) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(items):
        place = f"[{index}]"
        if node.list_type != "atomic":
            if fault := _keyless(node, item):
                yield f"{path}: element {index}: {fault}"
                continue
            name = element_of(node, item)
            place = _printed(name)
            if name in seen:
                yield f"{path}: duplicate entries for key {place}"
            seen.add(name)
        if node.items is not None:
            yield from typed_errors(node.items, item, f"{path}{place}", free=free)


def _keyless(node: Node, item: JSON) -> str:
    """Why an item cannot be found again; empty when it can."""
    if node.list_type == "map":
        if not isinstance(item, dict):
            return "associative list with keys may not have non-map elements"
        named = ", ".join(f'"{name}"' for name in node.list_keys)
        omits = f"associative list with keys has an element that omits all key fields {named}"
        return "" if list_key(node, item) else f"{omits} (and doesn't have default values)"
    if isinstance(item, dict):
        return "associative list without keys has an element that's a map type"
    if item is None:
        return "associative list without keys has an element that's an explicit null"
    is_list = isinstance(item, list)
    return "not supported: associative list with lists as elements" if is_list else ""


_WANTED: dict[str, tuple[type | tuple[type, ...], str]] = {
    "object": (dict, "map"),
    "array": (list, "list"),
    "string": (str, "string"),
    "boolean": (bool, "boolean"),
    "integer": ((int, float), "numeric (int or float)"),
    "number": ((int, float), "numeric (int or float)"),
}


def _shown_as_go(value: JSON) -> str:
    if isinstance(value, str):
        return "string" if value else '""'
    return f"&value.valueUnstructured{{Value:{msgspec.json.encode(value).decode()}}}"


# -- values ------------------------------------------------------------------------------------


def is_atomic(node: Node, value: JSON) -> bool:
    """Whether the value is owned as a whole."""
    if isinstance(value, dict):
        return node.map_type == "atomic"
    if isinstance(value, list):
        return node.list_type == "atomic"
    return True


def elements(node: Node, value: JSON) -> dict[str, tuple[Node, JSON]]:
    """The path elements directly below a granular map or list, with their schema and value."""
    found: dict[str, tuple[Node, JSON]] = {}
    if isinstance(value, dict):
        for name, item in value.items():
            found[f"f:{name}"] = (node.child(name) or UNTYPED, item)
    elif isinstance(value, list):
        for item in value:
            found.setdefault(element_of(node, item), (node.items or UNTYPED, item))
    return found


def element_of(node: Node, item: JSON) -> str:
    """The path element of an item of a list of type map or set."""
    if node.list_type == "map":
        keys = list_key(node, item) or {}
        return f"k:{key_text(keys)}"
    return f"v:{key_text(item)}"


def fields_of(node: Node, value: JSON) -> Fields:
    """The fields that an applied configuration names (ToFieldSet)."""
    found: Fields = {}
    for name, (below, item) in elements(node, value).items():
        if is_atomic(below, item):
            inner: Fields = {HERE: {}}
        else:
            inner = fields_of(below, item)
            free_key = name[:2] != "f:" or name[2:] not in node.fields
            if item == {} or free_key:
                inner = {HERE: {}, **inner}
        if inner:
            found[name] = inner
    return found


def _nothing() -> Fields:
    return {}


@dataclass(slots=True)
class Comparison:
    """How one value differs from another, place by place."""

    added: Fields = field(default_factory=_nothing)
    modified: Fields = field(default_factory=_nothing)
    removed: Fields = field(default_factory=_nothing)

    def same(self) -> bool:
        return not (self.added or self.modified or self.removed)


class _Absent(Enum):
    """Nothing there, as distinct from null."""

    HERE = "absent"


_ABSENT = _Absent.HERE


def compare(node: Node, old: JSON, new: JSON) -> Comparison:
    """What `new` adds, changes and removes, compared with `old` (typed.Compare)."""
    result = Comparison()
    olds, news = elements(node, old), elements(node, new)
    for name in olds.keys() | news.keys():
        below = (olds.get(name) or news[name])[0]
        before = olds[name][1] if name in olds else _ABSENT
        after = news[name][1] if name in news else _ABSENT
        _compare_at(below, name, before, after, result)
    return result


def _compare_at(
    node: Node, name: str, old: JSON | _Absent, new: JSON | _Absent, into: Comparison
) -> None:
    if same(old, new):
        return
    inner = Comparison()
    if not (_leaf(node, old) and _leaf(node, new)):
        inner = compare(node, _below(node, old), _below(node, new))
        if old is _ABSENT:
            inner.added = {HERE: {}, **inner.added}
        elif new is _ABSENT:
            inner.removed = {HERE: {}, **inner.removed}
    elif old is _ABSENT:
        inner.added = {HERE: {}}
    elif new is _ABSENT:
        inner.removed = {HERE: {}}
    else:
        inner.modified = {HERE: {}}
    present = not any(value is None or value is _ABSENT for value in (old, new))
    if present and _form(node, old) is not _form(node, new):
        inner.modified = {HERE: {}, **inner.modified}
    for kind in ("added", "modified", "removed"):
        found: Fields = getattr(inner, kind)
        if found:
            getattr(into, kind)[name] = found


def _leaf(node: Node, value: JSON | _Absent) -> bool:
    return not isinstance(value, (dict, list)) or not value or is_atomic(node, value)


def _form(node: Node, value: JSON | _Absent) -> type:
    """What a place holds: fields, items or one value."""
    return type(value) if isinstance(value, (dict, list)) and not is_atomic(node, value) else str


def _below(node: Node, value: JSON | _Absent) -> JSON:
    if isinstance(value, (dict, list)) and not is_atomic(node, value):
        return value
    return None


def merge(node: Node, live: JSON, config: JSON) -> JSON:
    """`live` with `config` applied over it: granular where the schema declares it (typed.Merge)."""
    if isinstance(config, dict) and isinstance(live, dict) and not is_atomic(node, config):
        merged: JSONObject = {**live}
        for name, item in config.items():
            below = node.child(name)
            known = below is not None and name in live
            merged[name] = merge(below, live[name], item) if known and below else item
        return merged
    if isinstance(config, list) and isinstance(live, list):
        granular = node.list_type != "atomic"
        return _merge_lists(node, live, config) if granular else config
    if config is None and not is_atomic(node, live):
        return live
    return config


def _merge_lists(node: Node, live: list[JSON], config: list[JSON]) -> list[JSON]:
    """Applied items in their order; items only in `live` keep their place among the shared ones."""
    below = node.items or UNTYPED
    lives = {element_of(node, item): item for item in live}
    configs = {element_of(node, item): item for item in config}
    out: list[JSON] = []
    waiting = deque(lives)
    passed: set[str] = set()
    for name, item in configs.items():
        if name in lives and name not in passed:
            while (ahead := waiting.popleft()) != name:
                passed.add(ahead)
                if ahead not in configs:
                    out.append(lives[ahead])
        while waiting and name not in lives and waiting[0] not in configs:
            out.append(lives[waiting.popleft()])
        out.append(merge(below, lives[name], item) if name in lives else item)
    out.extend(lives[name] for name in waiting if name not in configs)
    return out


def remove(node: Node, value: JSON, fields: Fields) -> JSON:
    """`value` without the members of `fields`, each with all below it (typed.RemoveItems)."""
    if isinstance(value, dict) and not is_atomic(node, value):
        kept: dict[str, JSON] = {}
        for name, item in value.items():
            below = fields.get(f"f:{name}")
            if below is None:
                kept[name] = item
            elif HERE not in below:
                kept[name] = remove(_step(node, f"f:{name}"), item, below)
        return kept
    if isinstance(value, list) and not is_atomic(node, value):
        items: list[JSON] = []
        for item in value:
            element = element_of(node, item)
            below = fields.get(element)
            if below is None:
                items.append(item)
            elif HERE not in below:
                items.append(remove(_step(node, element), item, below))
        return items
    return value
