"""Recorded verdicts of KubeVirt's admission, our answers to the same requests, and what differs.

A request goes the way that it goes through an API server: the definition prunes it and fills in its
defaults, `mutate`, the definition's schema, `validate`.

Source: recordings of KubeVirt v1.8, one half of them; the other half is kept for acceptance.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, Literal, cast

from tests.unit.vmi.recorded.pack import file_of

from hypercobalt.api.kubevirt import definition
from hypercobalt.api.kubevirt.schema import SchemaField, virtual_machine_instance
from hypercobalt.api.quantity import Quantity, QuantityError
from hypercobalt.apiserver.schema.changing import apply_defaults, read_custom
from hypercobalt.apiserver.schema.node import Node, compile_schema
from hypercobalt.apiserver.schema.validation import validate as validate_schema
from hypercobalt.vmi import admission
from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.review import (
    FieldCause,
    Json,
    JsonObject,
    RequestUser,
    Review,
    ReviewRefusal,
)
from hypercobalt.vmi.support import NOT_HONOURED

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
UUID: Final = "7d0c3f5e-1c1f-4a54-9f3e-0d3b8a6a1c11"

_ACCOUNTS: Final = {
    "controller": "kubevirt-controller",
    "api": "kubevirt-apiserver",
    "handler": "kubevirt-handler",
}
_JUDGED_STATUS: Final = ("phase", "runtimeUser", "currentCPUTopology", "memory")


@dataclass(frozen=True, slots=True, eq=False)
class RecordedVerdict:
    """One request, and KubeVirt's answer.

    Attributes:
        operation: CREATE or UPDATE.
        group: kind of case.
        by: who refused it: mutate, validate, schema, crash; "" if it is allowed.
        fields: that the causes name, "" for none.
        stricter: fields at which we refuse by decision what KubeVirt allows.
        cut: there were more causes than an answer carries.
        object: after mutation; None where mutation refuses it.
    """

    id: str
    operation: Literal["CREATE", "UPDATE"]
    group: str
    about: str
    user: RequestUser
    gates: frozenset[str]
    sent: JsonObject
    old: JsonObject | None
    by: str
    fields: frozenset[str]
    stricter: frozenset[str]
    cut: bool
    object: JsonObject | None


@dataclass(frozen=True, slots=True)
class OurVerdict:
    """Our answer.

    Attributes:
        fields: that causes name which KubeVirt could have, too.
        unsupported: causes that say that a field is not honoured.
        refused: whether there is any cause of the first kind.
        object: after mutation; None where mutation refuses it.
    """

    fields: frozenset[str]
    unsupported: tuple[FieldCause, ...]
    refused: bool
    object: JsonObject | None


_answers: Final[dict[str, OurVerdict]] = {}


PLAIN: Final = ("rule", "grid")
"""Kinds of cases that ask one thing each."""
UPDATES: Final = "update"
GROUPS: Final = (*PLAIN, UPDATES, "example", "rule-in-another", "random", "wild", "one change")
"""All kinds of cases."""


@lru_cache(maxsize=len(GROUPS))
def recorded(group: str) -> tuple[RecordedVerdict, ...]:
    """The recorded verdicts of a group, but for those of the API server alone."""
    lines = lzma.decompress(file_of(group).read_bytes()).decode().splitlines()
    return tuple(one for line in lines if not _by_server(one := _case(json.loads(line))))


def _by_server(case: RecordedVerdict) -> bool:
    """Names and labels of objects: admission sees none that is wrong."""
    return case.by == "schema" and all(field.startswith("metadata.") for field in case.fields)


def _case(line: JsonObject) -> RecordedVerdict:
    user = cast("dict[str, str]", line.get("user", {}))
    account = _ACCOUNTS.get(user.get("kind", ""))
    name = f"system:serviceaccount:kubevirt:{account}" if account else "jane"
    sent = cast("JsonObject", line["manifest"])
    texts = {
        name: cast("list[str]", line.get(name, [])) for name in ("gates", "stricter", "causes")
    }
    return RecordedVerdict(
        str(line["id"]),
        "CREATE" if line["op"] == "create" else "UPDATE",
        str(line["group"]),
        str(line["about"]),
        RequestUser(name, node=user.get("node")),
        frozenset(texts["gates"]),
        sent,
        cast("JsonObject", merged(sent, line["old"])) if "old" in line else None,
        "" if line["allowed"] else str(line.get("by", "")),
        frozenset(texts["causes"]),
        frozenset(texts["stricter"]),
        bool(line.get("cut")),
        cast("JsonObject", merged(sent, line["object"])) if "object" in line else None,
    )


def merged(old: Json, patch: Json) -> Json:
    """A value with a merge patch applied."""
    if not isinstance(old, dict) or not isinstance(patch, dict):
        return patch
    made = {name: value for name, value in old.items() if patch.get(name, ...) is not None}
    return made | {
        name: merged(old.get(name), value) for name, value in patch.items() if value is not None
    }


@lru_cache(maxsize=1)
def _node() -> Node:
    versions = cast("dict[str, list[JsonObject]]", definition.manifest()["spec"])["versions"]
    return compile_schema(cast("dict[str, JsonObject]", versions[0]["schema"])["openAPIV3Schema"])


def answer(case: RecordedVerdict) -> OurVerdict:
    """Our answer to a recorded request; each is given once."""
    if case.id not in _answers:
        _answers[case.id] = _answer(case)
    return _answers[case.id]


def _answer(case: RecordedVerdict) -> OurVerdict:
    cluster = ClusterConfig(feature_gates=case.gates)
    sent = _read(cast("JsonObject", json.loads(json.dumps(case.sent))))
    review = Review(case.operation, case.user, sent, case.old)
    made = admission.mutate(review, cluster, now=NOW, uuid=UUID)
    if isinstance(made, ReviewRefusal):
        return _ours(made.causes, None)
    stored = _read(made)
    of_schema = validate_schema(_node(), {**stored, "metadata": {}})
    if of_schema:
        fields = frozenset(str(cause.field) for cause in of_schema)
        return OurVerdict(fields, (), refused=True, object=stored)
    return _ours(
        admission.validate(Review(case.operation, case.user, stored, case.old), cluster), stored
    )


def _read(obj: JsonObject) -> JsonObject:
    """An object as an API server reads it; metadata is not the definition's."""
    inner = {name: value for name, value in obj.items() if name != "metadata"}
    read_custom(_node(), inner)
    apply_defaults(_node(), inner)
    meta = obj.get("metadata")
    return {**inner, "metadata": {**meta, "namespace": "lab"} if isinstance(meta, dict) else meta}


def _ours(causes: tuple[FieldCause, ...], stored: JsonObject | None) -> OurVerdict:
    rest = [cause for cause in causes if NOT_HONOURED not in cause.message]
    return OurVerdict(
        frozenset(cause.field for cause in rest),
        tuple(cause for cause in causes if NOT_HONOURED in cause.message),
        refused=bool(rest),
        object=stored,
    )


def unexplained(group: str, table: Mapping[str, str]) -> dict[str, str]:
    """What differs in a group but for a table of differences, and lines of it that none needs."""
    found = {one: difference(one, answer(one)) for one in recorded(group)}
    return {
        f"{one.id} {one.about}": differs or "is in the table of differences"
        for one, differs in found.items()
        if bool(differs) != (one.id in table)
    }


def difference(case: RecordedVerdict, ours: OurVerdict) -> str:
    """What differs beside fields that are not honoured; "" if nothing does."""
    if not case.by and ours.refused and not ours.fields & case.stricter:
        return f"refused at {', '.join(sorted(ours.fields))}"
    if case.by and not ours.refused:
        return f"allowed, though {case.by} refuses {', '.join(sorted(case.fields))}"
    named = case.fields - {""} or ours.fields - {""}
    if case.by == "validate" and case.fields and any(case.fields):
        same = named <= ours.fields if case.cut else named == ours.fields - {""}
        if not same:
            return f"names {', '.join(sorted(ours.fields))} instead of {', '.join(sorted(named))}"
    if case.object is not None and ours.object is not None:
        return next(_differing(judged(case.object), judged(ours.object), ""), "")
    return ""


def judged(obj: JsonObject) -> Json:
    """The part of an object that is compared, without what only spelling makes different."""
    meta, status = (cast("JsonObject", obj.get(name) or {}) for name in ("metadata", "status"))
    annotations = cast("JsonObject", meta.get("annotations") or {})
    part: JsonObject = {
        "spec": json.loads(json.dumps(obj["spec"])),
        "status": {name: status[name] for name in _JUDGED_STATUS if name in status},
    }
    spec = cast("dict[str, dict[str, JsonObject]]", part["spec"])
    spec["domain"].get("firmware", {}).pop("uuid", None)  # random
    kept: JsonObject = {
        "finalizers": meta.get("finalizers"),
        "labels": meta.get("labels"),
        "annotations": {name: text for name, text in annotations.items() if "kubevirt.io" in name},
    }
    plain = plainly(part, virtual_machine_instance())
    return {**cast("JsonObject", plain), **{name: value for name, value in kept.items() if value}}


def plainly(value: Json, schema: SchemaField | None) -> Json:
    """A value as typed structures mean it: amounts as numbers, empty members left out."""
    if schema is not None and schema.type == "quantity":
        try:
            return str(Quantity(str(value)).nanos)
        except QuantityError:
            return value
    if isinstance(value, list):
        return [plainly(item, schema.items if schema else None) for item in value]
    if not isinstance(value, dict):
        return value
    made: JsonObject = {}
    for name, item in value.items():
        below = (schema.values or schema.fields.get(name)) if schema else None
        plain = plainly(item, below)
        if plain or (plain == {} and not (below and below.values) and name != "resources"):
            made[name] = plain
    return made


def _differing(left: Json, right: Json, path: str) -> Iterator[str]:
    if isinstance(left, dict) and isinstance(right, dict):
        for name in sorted(left.keys() | right.keys()):
            yield from _differing(left.get(name), right.get(name), f"{path}.{name}")
    elif left != right:
        yield f"{path.lstrip('.')}: {json.dumps(left)} is recorded, {json.dumps(right)} is made"
