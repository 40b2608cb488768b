"""managedFields: who owns which field, kept through updates and server-side apply.

An update takes the fields it changes from their owners. An apply owns exactly what it names:
what it named before and names no more is removed, unless another manager owns it too; what another
manager owns with another value is a conflict, unless forced.

Source: structured-merge-diff merge/update.go; k8s.io/apiserver
pkg/endpoints/handlers/fieldmanager.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import msgspec

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.errors import JSON, Cause, JSONObject
from hypercobalt.apiserver.ownership import fieldset
from hypercobalt.apiserver.ownership.fieldset import HERE, Fields
from hypercobalt.apiserver.schema.changing import skeleton
from hypercobalt.apiserver.schema.node import Node
from hypercobalt.apiserver.values import object_at

Operation = Literal["Apply", "Update"]

_OPERATIONS: dict[str, Operation] = {"Apply": "Apply", "Update": "Update"}

MAX_UPDATERS = 10  # entries of updates; fieldmanager/capmanagers.go
OLD_UPDATES = "ancient-changes"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

# No manager owns identifying fields or fields that the server sets (fieldmanager/stripmeta.go).
_STRIPPED: Fields = {
    "f:apiVersion": {HERE: {}},
    "f:kind": {HERE: {}},
    "f:metadata": {
        HERE: {},
        **{
            f"f:{name}": {HERE: {}}
            for name in (
                "name",
                "namespace",
                "creationTimestamp",
                "selfLink",
                "uid",
                "clusterName",
                "generation",
                "managedFields",
                "resourceVersion",
            )
        },
    },
}


class Manager(NamedTuple):
    name: str
    operation: Operation
    api_version: str
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Owned:
    """The fields of one manager; for Apply the version is that of the last apply."""

    manager: Manager
    fields: Fields
    time: str

    @property
    def identity(self) -> tuple[str, str, str, str]:
        name, operation, version, subresource = self.manager
        return name, operation, "" if operation == "Apply" else version, subresource


Owners = dict[tuple[str, str, str, str], Owned]


def read(meta: JSONObject) -> Owners | None:
    """The owners in an object's metadata; None when the entries are malformed."""
    entries = meta.get("managedFields") or []
    if not isinstance(entries, list):
        return None
    owners: Owners = {}
    try:
        for entry in entries:
            owned = _read_entry(entry)
            owners[owned.identity] = owned
    except ValueError:
        return None
    return owners


def _read_entry(entry: JSON) -> Owned:
    if not isinstance(entry, dict) or entry.get("fieldsType", "FieldsV1") != "FieldsV1":
        raise ValueError("not a FieldsV1 entry")
    operation = _OPERATIONS.get(str(entry.get("operation")))
    if operation is None:
        raise ValueError("operation must be Apply or Update")
    texts = [str(entry.get(name, "")) for name in ("manager", "apiVersion", "subresource", "time")]
    name, version, subresource, time = texts
    fields = fieldset.decode(entry.get("fieldsV1") or {})
    return Owned(Manager(name, operation, version, subresource), fields, time)


def write(meta: JSONObject, owners: Owners) -> None:
    """Put the owners into an object's metadata, in Kubernetes' order."""
    ordered = sorted(owners.values(), key=lambda o: (o.manager.operation, o.time, *o.manager))
    if ordered:
        meta["managedFields"] = [_entry(owned) for owned in ordered]
    else:
        meta.pop("managedFields", None)


def _entry(owned: Owned) -> JSONObject:
    entry: JSONObject = {
        "manager": owned.manager.name,
        "operation": owned.manager.operation,
        "apiVersion": owned.manager.api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": fieldset.encode(owned.fields),
    }
    if owned.time:
        entry["time"] = owned.time
    if owned.manager.subresource:
        entry["subresource"] = owned.manager.subresource
    return entry


def is_reset(meta: JSONObject) -> bool:
    """`managedFields: []` or `[{}]` is how a client clears all owners."""
    entries = meta.get("managedFields")
    return entries in ([], [{}])


# -- update ------------------------------------------------------------------------------------


def track_update(
    node: Node,
    live: JSONObject | None,
    new: JSONObject,
    manager: Manager,
    now: str,
    *,
    reset: bool = False,
    ignored: tuple[str, ...] = (),
) -> None:
    """Set `new`'s managedFields after `manager` wrote it over `live` (None on create).

    Args:
        node: schema of the kind.
        live: the stored object.
        new: what it becomes; changed in place.
        manager: who writes.
        now: RFC 3339 time of this request.
        reset: the client cleared all owners.
        ignored: top-level fields that this endpoint never writes, so that no manager owns them.
    """
    meta = object_at(new, "metadata")
    if live is not None and reset:
        write(meta, {})
        return
    if (
        live is not None
        and not object_at(live, "metadata").get("managedFields")
        and not meta.get("managedFields")
    ):
        return  # its owners were reset on purpose; the next apply records them again
    owners = _claimed(live, new, manager)
    comparison = fieldset.compare(node, skeleton(node) if live is None else live, new)
    changed = fieldset.union(comparison.added, comparison.modified)
    for name in ignored:
        changed.pop(f"f:{name}", None)
    _take(owners, _identity(manager), changed, comparison.removed)
    mine = owners.get(_identity(manager))
    before = mine.fields if mine else {}
    after = fieldset.union(fieldset.difference(before, comparison.removed), changed)
    since = mine.time if mine and not changed else now
    _set(owners, manager, fieldset.difference(after, _STRIPPED), since)
    _merge_oldest(owners)
    write(meta, owners)


def _merge_oldest(owners: Owners) -> None:
    """Merge the oldest updates of a version into one entry while there are too many."""
    updates = [owned for owned in owners.values() if owned.manager.operation == "Update"]
    left = len(updates)
    updates.sort(key=lambda owned: (owned.time, owned.manager))
    first: dict[str, Owned] = {}
    for owned in updates:
        if left <= MAX_UPDATERS:
            return
        version = owned.manager.api_version
        if version not in first:
            first[version] = owned
            continue
        bucket = Manager(OLD_UPDATES, "Update", version)
        before = owners.get(_identity(bucket)) or owners.pop(first[version].identity)
        owners.pop(owned.identity, None)
        fields = fieldset.union(before.fields, owned.fields)
        owners[_identity(bucket)] = Owned(bucket, fields, owned.time)
        left -= 1


def _claimed(live: JSONObject | None, new: JSONObject, manager: Manager) -> Owners:
    """The owners to start from: what the client sent, where it may change them."""
    if not manager.subresource and object_at(new, "metadata").get("managedFields"):
        sent = read(object_at(new, "metadata"))
        if sent is not None:
            return sent
    return read(object_at(live, "metadata")) or {}


def _take(
    owners: Owners, taker: tuple[str, str, str, str], changed: Fields, removed: Fields
) -> None:
    for identity, owned in list(owners.items()):
        if identity == taker:
            continue
        left = fieldset.difference(fieldset.difference(owned.fields, changed), removed)
        if not left:
            del owners[identity]
        elif left != owned.fields:
            owners[identity] = replace(owned, fields=left)


def _set(owners: Owners, manager: Manager, fields: Fields, now: str) -> None:
    owners.pop(_identity(manager), None)
    if fields:
        owners[_identity(manager)] = Owned(manager, fields, now)


def _identity(manager: Manager) -> tuple[str, str, str, str]:
    return Owned(manager, {}, "").identity


# -- apply -------------------------------------------------------------------------------------


def apply(
    node: Node,
    live: JSONObject | None,
    config: JSONObject,
    manager: Manager,
    now: str,
    *,
    force: bool,
) -> JSONObject:
    """The object after `manager` applied `config`, its managedFields set.

    Args:
        node: schema of the kind.
        live: the stored object; None when there is none.
        config: what the client applies, as it came, without what this endpoint may not write.
        manager: who applies.
        now: RFC 3339 time of this request.
        force: take fields from other managers instead of refusing.

    Raises:
        StatusError: 409 with every conflicting field, when not forced.
    """
    owners = _owners_before_apply(node, live, manager)
    mine = fieldset.difference(fieldset.fields_of(node, config), _STRIPPED)
    last = owners.get(_identity(manager))
    base: JSONObject = live if live is not None else {}
    merged = object_at(fieldset.merge(node, base, config))
    _set(owners, manager, mine, now)
    if last is not None:
        merged = object_at(fieldset.remove(node, merged, _abandoned(node, last.fields, owners)))
    comparison = fieldset.compare(node, base, merged)
    if comparison.same() and _identity(manager) in owners:
        # Owning more without changing anything is no event in the manager's life.
        since = last.time if last else ""
        owners[_identity(manager)] = replace(owners[_identity(manager)], time=since)
    changed = fieldset.union(comparison.added, comparison.modified)
    if not force:
        _refuse_conflicts(node, live, owners, _identity(manager), changed)
    _take(owners, _identity(manager), changed, comparison.removed)
    meta = dict(object_at(merged, "metadata"))
    merged["metadata"] = meta
    write(meta, owners)
    return merged


def _owners_before_apply(node: Node, live: JSONObject | None, manager: Manager) -> Owners:
    if live is None:
        return {}
    owners = read(object_at(live, "metadata")) or {}
    if owners:
        return owners
    everything = fieldset.compare(node, skeleton(node), live).added
    fields = fieldset.difference(everything, _STRIPPED)
    first = Manager("before-first-apply", "Update", manager.api_version)
    created = object_at(live, "metadata").get("creationTimestamp")
    return {_identity(first): Owned(first, fields, str(created or ""))} if fields else {}


def _abandoned(node: Node, last: Fields, owners: Owners) -> Fields:
    """The fields that the last apply named and no manager owns now."""
    owned: Fields = {}
    for entry in owners.values():
        owned = fieldset.union(owned, entry.fields)
    return fieldset.difference(
        fieldset.with_named_parents(node, last), fieldset.with_named_parents(node, owned)
    )


def _refuse_conflicts(
    node: Node,
    live: JSONObject | None,
    owners: Owners,
    applier: tuple[str, str, str, str],
    changed: Fields,
) -> None:
    others = {identity: owned for identity, owned in owners.items() if identity != applier}
    if applier[0] == "kubectl":
        # What kubectl applied from the client's side before is its own to change.
        changed = fieldset.difference(changed, _last_applied(node, live))
    causes: list[Cause] = []
    grouped: dict[str, list[str]] = {}
    for _, owned in sorted(others.items()):
        for path in fieldset.paths(fieldset.intersection(owned.fields, changed)):
            label = _label(owned.manager)
            causes.append(Cause(path, "FieldManagerConflict", f"conflict with {label}"))
            grouped.setdefault(label, []).append(path)
    if causes:
        raise errors.apply_conflict(causes, _conflict_message(grouped, len(causes)))


def _last_applied(node: Node, live: JSONObject | None) -> Fields:
    """The fields in kubectl's own note of what it applied last."""
    annotations = object_at(live, "metadata").get("annotations")
    note = annotations.get(LAST_APPLIED) if isinstance(annotations, dict) else None
    try:
        applied: JSON = msgspec.json.decode(note) if isinstance(note, str) else None
    except msgspec.DecodeError:
        return {}
    return fieldset.fields_of(node, applied)


def note_last_applied(obj: JSONObject, config: JSON) -> None:
    """Renew kubectl's note after a server-side apply, where the object carries one.

    Source: fieldmanager/lastappliedupdater.go.
    """
    annotations = object_at(obj, "metadata").get("annotations")
    if isinstance(annotations, dict) and LAST_APPLIED in annotations:
        text = msgspec.json.encode(config, order="sorted").decode()
        obj["metadata"] = {
            **object_at(obj, "metadata"),
            "annotations": {**annotations, LAST_APPLIED: f"{text}\n"},
        }


def _label(manager: Manager) -> str:
    """Source: fieldmanager/internal/conflict.go, printManager."""
    text = f'"{manager.name}"'
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    if manager.operation == "Update":
        text += f" using {manager.api_version}"
    return text


def _conflict_message(grouped: dict[str, list[str]], count: int) -> str:
    if count == 1:
        label, (path,) = next(iter(grouped.items()))
        return f"Apply failed with 1 conflict: conflict with {label}: {path}"
    lines = [
        f"conflicts with {label}:\n" + "\n".join(f"- {path}" for path in found)
        for label, found in grouped.items()
    ]
    return f"Apply failed with {count} conflicts: " + "\n".join(lines)
