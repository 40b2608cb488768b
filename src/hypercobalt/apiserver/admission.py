"""From what a client sent to what is stored: the stages every write goes through.

    decode → prune unknown fields → default → reset what this endpoint may not write →
    track field owners → validate

All of it is synchronous and free of I/O: objects, time and request options in, object out. The
places where admission webhooks and per-user policy will stand are between defaulting and
validation (`prepare_create`, `prepare_update`).

Source: apiserver pkg/endpoints/handlers/{create,update,patch}.go and the registries' strategies.
"""

from __future__ import annotations

import copy
import re
import secrets
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from hypercobalt.apiserver import status
from hypercobalt.apiserver.kinds import builtin, definitions, names
from hypercobalt.apiserver.kinds.quantities import canonicalise
from hypercobalt.apiserver.kinds.resources import CRD_RESOURCE, Resource
from hypercobalt.apiserver.ownership import managed
from hypercobalt.apiserver.ownership.managed import Manager
from hypercobalt.apiserver.request import Request, duplicate_fields
from hypercobalt.apiserver.schema.node import (
    Node,
    apply_defaults,
    drop_empty,
    drop_nulls,
    prune,
    prune_nulls,
    same,
    shorten,
)
from hypercobalt.apiserver.schema.validation import mistyped, validate
from hypercobalt.apiserver.status import JSON, Cause, JSONObject, StatusError

SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # apimachinery util/rand: no vowels, no words
MAX_GENERATED = 63 - 5
MAX_GRACE_SECONDS = 100 * 365 * 86400  # beyond it, the time of deletion is not told

# Set by the server; whatever a client sends there is replaced by what is stored.
_SERVER_META = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "generation",
)


@dataclass(frozen=True, slots=True)
class Context:
    """What a write needs to know beside the object."""

    resource: Resource
    request: Request
    now: datetime
    subresource: str = ""

    @property
    def stamp(self) -> str:
        return self.now.strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def kind(self) -> str:
        return self.resource.names.kind

    def manager(self, operation: managed.Operation = "Update") -> Manager:
        return Manager(self.request.manager, operation, self.resource.api_version, self.subresource)


def metadata(obj: JSONObject) -> JSONObject:
    """The object's metadata, made when missing."""
    meta = obj.get("metadata")
    if not isinstance(meta, dict):
        meta = obj["metadata"] = {}
    return meta


# -- decoding ----------------------------------------------------------------------------------


def check_body(context: Context, value: JSON, raw: bytes = b"") -> JSONObject:
    """An object of the right kind, without the fields its schema does not know.

    Raises:
        StatusError: 400 for another kind, undecodable values, or (fieldValidation=Strict) unknown
            and duplicate fields.
    """
    resource = context.resource
    if not isinstance(value, dict):
        text = f"couldn't get version/kind; json parse error: a {context.kind} is an object"
        raise status.bad_request(text)
    _check_kind(resource, value)
    if resource.custom:
        shorten(value)
        if not context.request.content_type.startswith("application/apply-patch"):
            prune_nulls(resource.schema.node, value)
    _check_types(context, value)
    unknown = [f'unknown field "{path}"' for path in prune(resource.schema.node, value)]
    mode = context.request.text("fieldValidation") or "Warn"
    if mode != "Ignore" and raw:
        unknown = [f'duplicate field "{path}"' for path in duplicate_fields(raw)] + unknown
    if unknown and mode == "Strict":
        text = f"strict decoding error: {', '.join(unknown)}"
        raise _cannot_handle(context, text)
    if mode == "Warn":
        context.request.warnings.extend(unknown)
    return value


def _check_kind(resource: Resource, value: JSONObject) -> None:
    kind, version = value.get("kind"), value.get("apiVersion")
    for name, sent in (("kind", kind), ("apiVersion", version)):
        if sent is not None and not isinstance(sent, str):
            text = f"cannot unmarshal into Go struct field .{name} of type string"
            raise status.bad_request(f"couldn't get version/kind; json parse error: json: {text}")
    if resource.custom and not kind:
        of = f"(must be of type {resource.names.kind})"
        text = f"the object provided is unrecognized {of}: Object 'Kind' is missing in the body"
        raise status.bad_request(text)
    value.setdefault("kind", resource.names.kind)
    if resource.custom:
        value.setdefault("apiVersion", "")
    elif not value.get("apiVersion"):
        value["apiVersion"] = resource.api_version
    if value["apiVersion"] != resource.api_version:
        raise _wrong_kind(resource, value)
    if value["kind"] != resource.names.kind and not resource.custom:
        raise _wrong_kind(resource, value)


def _wrong_kind(resource: Resource, value: JSONObject) -> StatusError:
    sent, expected = value.get("apiVersion"), resource.api_version
    if sent != expected:
        text = (
            f"the API version in the data ({sent}) does not match the expected API version "
            f"({expected})"
        )
    else:
        text = (
            f'{value.get("kind")} in version "{resource.version}" cannot be handled as a '
            f'{resource.names.kind}: no kind "{value.get("kind")}" is registered for version '
            f'"{sent}"'
        )
    return status.bad_request(text)


def _check_types(context: Context, value: JSONObject) -> None:
    """Refuse what typed decoding would: wrong types in metadata, and anywhere in built-in kinds."""
    root = context.resource.schema.node
    checked: list[tuple[Node, JSON, str]] = [(root, value, "")]
    if context.resource.custom:
        checked = [(root.fields["metadata"], value.get("metadata", {}), "metadata")]
    for node, part, path in checked:
        for place, found, wanted in mistyped(node, part, path):
            text = (
                f"json: cannot unmarshal {found} into Go struct field "
                f"{context.kind}.{place} of type {wanted}"
            )
            raise _cannot_handle(context, text)
    if not context.resource.custom:
        builtin.check_decodable(context.kind, context.resource.version, value)


def _cannot_handle(context: Context, text: str) -> StatusError:
    kind, version = context.kind, context.resource.version
    return status.bad_request(
        f'{kind} in version "{version}" cannot be handled as a {kind}: {text}'
    )


# -- writing -----------------------------------------------------------------------------------


def prepare_create(
    context: Context, obj: JSONObject, *, namespace: str, name: str = ""
) -> JSONObject:
    """A new object, complete but for its resourceVersion.

    Args:
        context: the request.
        obj: pruned body.
        namespace: from the URL.
        name: from the URL, where the URL has one (create by apply).

    Raises:
        StatusError: 400 or 422 with everything that is wrong.
    """
    resource = context.resource
    meta = metadata(obj)
    _check_place(context, meta, namespace, name)
    if meta.get("resourceVersion"):
        raise status.bad_request("resourceVersion should not be set on objects to be created")
    for field in _SERVER_META:
        meta.pop(field, None)
    meta.pop("resourceVersion", None)
    if not meta.get("name") and (prefix := meta.get("generateName")):
        suffix = "".join(secrets.choice(SUFFIX_LETTERS) for _ in range(5))
        meta["name"] = f"{str(prefix)[:MAX_GENERATED]}{suffix}"
    meta["uid"] = str(uuid.uuid4())
    meta["creationTimestamp"] = context.stamp
    if resource.custom or context.kind in builtin.WITH_GENERATION:
        meta["generation"] = 1
    if resource.status and resource.custom:
        obj.pop("status", None)
    _default(context, obj)
    return obj


def finish_create(context: Context, obj: JSONObject) -> JSONObject:
    """Validate a new object.

    Raises:
        StatusError: 422 with every cause.
    """
    if not context.resource.custom:
        builtin.begin(context.kind, obj)
    _refuse(context, obj, _errors(context, obj, None))
    return _ordered(obj)


def prepare_update(context: Context, new: JSONObject, old: JSONObject) -> JSONObject:
    """The object after an update over `old`, complete but for its resourceVersion.

    Raises:
        StatusError: 409 for another uid.
    """
    meta, before = metadata(new), metadata(old)
    if meta.get("uid") not in (None, "", before.get("uid")):
        raise _other_uid(context, str(meta["uid"]), before)
    for field in _SERVER_META:
        if field in before:
            meta[field] = before[field]
        else:
            meta.pop(field, None)
    for field in ("name", "namespace"):
        if field in before:
            meta[field] = before[field]
    _reset(context, new, old)
    _default(context, new)
    if _counts(context, new, old):
        meta["generation"] = _generation(before) + 1
    return new


def _other_uid(context: Context, sent: str, before: JSONObject) -> StatusError:
    name = str(before.get("name"))
    if context.request.method == "PUT":
        why = f"Precondition failed: UID in precondition: {sent}, UID in object meta: "
        return status.conflict(context.resource.subject(name), f"{why}{before.get('uid')}")
    cause = status.FieldErrors.invalid("metadata.uid", sent, "field is immutable")
    return status.invalid(context.resource.group, context.kind, name, [cause])


def finish_update(context: Context, new: JSONObject, old: JSONObject) -> JSONObject:
    """Validate an updated object.

    Raises:
        StatusError: 422 with every cause.
    """
    causes = _errors(context, new, old)
    added = _added_finalizers(new, old)
    if metadata(old).get("deletionTimestamp") and added:
        text = (
            "no new finalizers can be added if the object is being deleted, found new finalizers "
            f"[]string{{{', '.join(status.quote(name) for name in added)}}}"
        )
        causes.insert(0, status.FieldErrors.forbidden("metadata.finalizers", text))
    _refuse(context, new, causes)
    return _ordered(new)


def _reset(context: Context, new: JSONObject, old: JSONObject) -> None:
    """Keep what this endpoint may not write: status on the main one, all else on the status."""
    resource = context.resource
    if not resource.status:
        return
    if context.subresource != "status":
        _copy_field(new, old, "status")
    elif not resource.custom:
        for name in {*new, *old} - {"status", "metadata", "apiVersion", "kind"}:
            _copy_field(new, old, name)
    else:
        kept = metadata(new).get("managedFields")
        for name in {*new, *old} - {"status"}:
            _copy_field(new, old, name)
        if kept is not None:
            metadata(new)["managedFields"] = kept


def _copy_field(new: JSONObject, old: JSONObject, name: str) -> None:
    if name in old:
        new[name] = copy.deepcopy(old[name])
    else:
        new.pop(name, None)


def _counts(context: Context, new: JSONObject, old: JSONObject) -> bool:
    """Whether this change counts in metadata.generation."""
    if context.subresource == "status":
        return False
    resource = context.resource
    if resource.custom:
        free = {"metadata", "status"} if resource.status else {"metadata"}
        names = ({*new} | {*old}) - free
        return not all(same(new.get(name), old.get(name)) for name in names)
    return context.kind in builtin.WITH_GENERATION and not same(new.get("spec"), old.get("spec"))


def _generation(meta: JSONObject) -> int:
    value = meta.get("generation")
    return value if isinstance(value, int) else 0


def mark_deleted(context: Context, obj: JSONObject, grace_seconds: int) -> JSONObject:
    """The object once its deletion has begun and something still holds it."""
    marked = copy.deepcopy(obj)
    meta = metadata(marked)
    due = context.now + timedelta(seconds=min(grace_seconds, MAX_GRACE_SECONDS))
    meta["deletionTimestamp"] = due.strftime("%Y-%m-%dT%H:%M:%SZ")
    meta["deletionGracePeriodSeconds"] = grace_seconds
    if "generation" in meta:
        meta["generation"] = _generation(meta) + 1
    if context.kind == "Namespace" and not context.resource.custom:
        marked["status"] = {"phase": "Terminating"}
    if context.resource.qualified == CRD_RESOURCE:
        meta["generation"] = metadata(obj).get("generation")
        del meta["deletionGracePeriodSeconds"]
        definitions.mark_terminating(marked, context.stamp)
    return marked


def _check_place(context: Context, meta: JSONObject, namespace: str, name: str) -> None:
    sent = meta.get("namespace") or ""
    if context.resource.namespaced:
        if sent and sent != namespace:
            text = "the namespace of the provided object does not match the namespace sent on the "
            raise status.bad_request(f"{text}request")
        meta["namespace"] = namespace
    elif sent:
        meta.pop("namespace", None)
    if name and meta.get("name", name) != name:
        named = meta.get("name")
        text = f"the name of the object ({named}) does not match the name on the URL ({name})"
        raise status.bad_request(text)
    if name:
        meta["name"] = name


def check_update_place(context: Context, new: JSONObject, namespace: str, name: str) -> None:
    """Refuse an update whose body names another object than its URL.

    Raises:
        StatusError: 400.
    """
    meta = metadata(new)
    if not meta.get("name"):
        text = f"the name of the object ({name} based on URL) was undeterminable: "
        raise status.bad_request(f"{text}name must be provided")
    _check_place(context, meta, namespace, name)


def _default(context: Context, obj: JSONObject) -> None:
    root = context.resource.schema.node
    if context.resource.custom:
        drop_nulls(root.fields["metadata"], metadata(obj))
    else:
        drop_nulls(root, obj)
    apply_defaults(root, obj)
    _clean_metadata(metadata(obj))
    _advise(context, metadata(obj))
    if not context.resource.custom:
        if context.kind in builtin.WITH_QUANTITIES:
            canonicalise(root, obj)
        drop_empty(context.resource.schema.node, obj)
        change = builtin.DEFAULTS.get(context.kind)
        if change is not None:
            change(obj)
        if context.resource.qualified == CRD_RESOURCE:
            definitions.default_definition(obj)


def _clean_metadata(meta: JSONObject) -> None:
    """Drop empty maps and lists, as Go's omitempty does."""
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        if name in meta and not meta[name]:
            del meta[name]


def _advise(context: Context, meta: JSONObject) -> None:
    """Warn of what is taken all the same."""
    owners = meta.get("ownerReferences")
    if isinstance(owners, list):
        unique = {msgspec.json.encode(owner, order="sorted"): owner for owner in owners}
        if len(unique) < len(owners):
            uids = [o.get("uid") for o in owners if isinstance(o, dict)]
            twice = dict.fromkeys(str(uid) for uid in uids if uids.count(uid) > 1)
            context.request.warnings.append(
                ".metadata.ownerReferences contains duplicate entries; API server dedups owner "
                "references in 1.20+, and may reject such requests as early as 1.24; please fix "
                f"your requests; duplicate UID(s) observed: {', '.join(twice)}"
            )
            meta["ownerReferences"] = list(unique.values())
    finalizers = meta.get("finalizers")
    for name in finalizers if isinstance(finalizers, list) and context.resource.custom else []:
        odd = "/" not in str(name) and name not in names.STANDARD_FINALIZERS
        if odd and not names.label_key_errors(str(name)):
            text = "prefer a domain-qualified finalizer name to avoid accidental conflicts with"
            warning = f"metadata.finalizers: {status.quote(name)}: {text} other finalizer writers"
            context.request.warnings.append(warning)


def _errors(context: Context, obj: JSONObject, old: JSONObject | None) -> list[Cause]:
    resource = context.resource
    rule = names.subdomain_errors
    if not resource.custom:
        rule = builtin.NAME_RULES.get(context.kind, rule)
    custom = resource.custom or resource.qualified == CRD_RESOURCE
    causes = names.check_metadata(metadata(obj), rule, custom=custom)
    if resource.custom:
        if obj["kind"] != context.kind:
            text = f"must be {context.kind}"
            causes.append(status.FieldErrors.invalid("kind", obj["kind"], text))
        root = resource.schema.body
        before = () if old is None else (_judged(old),)
        part = "status" if context.subresource == "status" else ""
        causes += validate(root, _judged(obj), part, *before, elsewhere=causes)
    else:
        check = builtin.CHECKS.get(context.kind)
        found = check(obj, old) if check is not None else []
        known = {cause.field for cause in found}
        causes += found
        if resource.qualified != CRD_RESOURCE:
            judged = _schema_errors(resource.schema.body, obj)
            causes += [cause for cause in judged if cause.field not in known]
        elif context.subresource != "status":
            definitions.note_stored(obj)
            causes += definitions.check_definition(obj, old)
    return causes


def _judged(obj: JSONObject) -> JSONObject:
    """What a custom resource's schema and rules see: of the metadata, the name only."""
    meta = metadata(obj)
    shown: JSONObject = {n: meta[n] for n in ("name", "generateName") if n in meta}
    return {**obj, "metadata": shown}


def _schema_errors(node: Node, obj: JSONObject) -> list[Cause]:
    kept = ("FieldValueRequired", "FieldValueNotSupported")
    return [cause for cause in validate(node, obj) if cause.reason in kept]


def _refuse(context: Context, obj: JSONObject, causes: list[Cause]) -> None:
    if causes:
        name = str(metadata(obj).get("name") or "")
        group = "" if context.resource.group == "events.k8s.io" else context.resource.group
        raise status.invalid(group, str(obj["kind"]), name, causes)


def _added_finalizers(new: JSONObject, old: JSONObject) -> list[str]:
    def listed(obj: JSONObject) -> list[str]:
        found = metadata(obj).get("finalizers")
        return [str(name) for name in found] if isinstance(found, list) else []

    before = set(listed(old))
    return [name for name in listed(new) if name not in before]


def _ordered(obj: JSONObject) -> JSONObject:
    """With apiVersion, kind and metadata first, as stored objects begin."""
    head = ("apiVersion", "kind", "metadata")
    return {
        **{name: obj[name] for name in head},
        **{name: value for name, value in obj.items() if name not in head},
    }


def changed(new: JSONObject, old: JSONObject) -> bool:
    """Whether a write would change anything but the times in managedFields."""
    if not same(
        {k: v for k, v in new.items() if k != "metadata"},
        {k: v for k, v in old.items() if k != "metadata"},
    ):
        return True
    meta, before = dict(metadata(new)), dict(metadata(old))
    owners, owned = meta.pop("managedFields", []), before.pop("managedFields", [])
    meta.pop("resourceVersion", None)
    before.pop("resourceVersion", None)
    return meta != before or _timeless(owners) != _timeless(owned)


def _timeless(entries: JSON) -> JSON:
    listed = entries if isinstance(entries, list) else []
    return [
        {k: v for k, v in entry.items() if k != "time"}
        for entry in listed
        if isinstance(entry, dict)
    ]


_VERSION = re.compile(r"[1-9][0-9]{0,18}")  # what fits 64 bits


def parse_revision(text: str, *, list_of: bool = False) -> int:
    """A resourceVersion as a number; 0 when empty.

    Raises:
        StatusError: 400 when it is not one.
    """
    if text in ("", "0"):
        return 0
    if not _VERSION.fullmatch(text):
        detail = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        cause = str(status.FieldErrors.invalid("resourceVersion", text, detail))
        raise status.bad_request(f"invalid resource version: {cause}" if list_of else cause)
    return int(text)
