"""From what a client sent to what is stored: the stages every write goes through.

    decode → prune unknown fields → default → reset what this endpoint may not write →
    track field owners → (mutate, then default and reset again) → validate

All of it is synchronous and free of I/O: objects, time and request options in, object out.

Source: apiserver pkg/endpoints/handlers/{create,update,patch}.go and the registries' strategies.
"""

from __future__ import annotations

import secrets
import uuid
from collections import Counter

import msgspec

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.errors import Cause, JSONObject, StatusError
from hypercobalt.apiserver.kinds import definitions, names, serving
from hypercobalt.apiserver.kinds.builtin import checks, defaults, strategies
from hypercobalt.apiserver.kinds.quantities import canonicalise
from hypercobalt.apiserver.kinds.resources import CRD_RESOURCE
from hypercobalt.apiserver.requests.request import Call
from hypercobalt.apiserver.schema.changing import apply_defaults, drop_empty, drop_nulls
from hypercobalt.apiserver.schema.validation import validate
from hypercobalt.apiserver.values import clone, metadata, objects_at, same, text_at, texts_at

SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # apimachinery util/rand: no vowels, no words
MAX_GENERATED = 63 - 5

# Set by the server; whatever a client sends there is replaced by what is stored.
_SERVER_META = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "generation",
)


def prepare_create(call: Call, obj: JSONObject) -> JSONObject:
    """A new object, made in place of a pruned body; complete but for its resourceVersion.

    Raises:
        StatusError: 400 or 422 with everything that is wrong.
    """
    resource = call.resource
    meta = metadata(obj)
    _check_place(call, meta)
    if meta.get("resourceVersion"):
        raise errors.bad_request("resourceVersion should not be set on objects to be created")
    counted = resource.custom or call.kind in strategies.WITH_GENERATION
    for field in (*_SERVER_META, "resourceVersion"):
        if field != "generation" or counted:  # kinds that do not count it keep the client's value
            meta.pop(field, None)
    if not meta.get("name") and (prefix := meta.get("generateName")):
        suffix = "".join(secrets.choice(SUFFIX_LETTERS) for _ in range(5))
        meta["name"] = f"{str(prefix)[:MAX_GENERATED]}{suffix}"
    meta["uid"] = str(uuid.uuid4())
    meta["creationTimestamp"] = call.stamp
    if counted:
        meta["generation"] = 1
    if resource.status and resource.custom:
        obj.pop("status", None)
    _default(call, obj)
    return obj


def check_create(call: Call, obj: JSONObject) -> JSONObject:
    """Validate a new object.

    Raises:
        StatusError: 422 with every cause.
    """
    if not call.resource.custom:
        strategies.begin(call.kind, obj)
    _refuse(call, obj, _errors(call, obj, None))
    _advise(call, obj)
    return _ordered(obj)


def prepare_update(call: Call, new: JSONObject, old: JSONObject) -> JSONObject:
    """The object after an update over `old`, complete but for its resourceVersion.

    Raises:
        StatusError: 409 for another uid.
    """
    meta, before = metadata(new), metadata(old)
    if meta.get("uid") not in (None, "", before.get("uid")):
        raise _other_uid(call, str(meta["uid"]), before)
    for field in (*_SERVER_META, "name", "namespace"):  # an apply may have let go of its last field
        _copy_field(meta, before, field)
    _reset(call, new, old)
    _default(call, new)
    if _counts(call, new, old):
        meta["generation"] = generation_of(before) + 1
    return new


def after_mutation(
    call: Call, new: JSONObject, draft: JSONObject, old: JSONObject | None
) -> JSONObject:
    """The object that a mutating hook made of a draft, with what no hook may change.

    Its owners are those of the draft.
    """
    meta, before = metadata(new), metadata(draft)
    for field in (*_SERVER_META, "name", "namespace", "resourceVersion", "managedFields"):
        _copy_field(meta, before, field)
    _reset(call, new, draft)
    _default(call, new)
    if old is not None and (counted := generation_of(metadata(old))):
        meta["generation"] = counted + _counts(call, new, old)
    return new


def _other_uid(call: Call, sent: str, before: JSONObject) -> StatusError:
    if call.request.method == "PUT":
        why = f"Precondition failed: UID in precondition: {sent}, UID in object meta: "
        return errors.conflict(call.subject, f"{why}{before.get('uid')}")
    cause = errors.FieldErrors.invalid("metadata.uid", sent, "field is immutable")
    return errors.invalid(call.resource.group, call.kind, call.name, [cause])


def check_update(call: Call, new: JSONObject, old: JSONObject) -> JSONObject:
    """Validate an updated object.

    Raises:
        StatusError: 422 with every cause.
    """
    if call.resource.qualified == "namespaces" and call.subresource != "finalize":
        _copy_field(new, old, "spec")  # it holds only the finalizers of the namespace
    causes = _errors(call, new, old)
    before = set(texts_at(old, "metadata", "finalizers"))
    added = [n for n in texts_at(new, "metadata", "finalizers") if n not in before]
    if metadata(old).get("deletionTimestamp") and added:
        text = (
            "no new finalizers can be added if the object is being deleted, found new finalizers "
            f"[]string{{{', '.join(errors.quote(name) for name in added)}}}"
        )
        causes.insert(0, errors.FieldErrors.forbidden("metadata.finalizers", text))
    _refuse(call, new, causes)
    _advise(call, new)
    return _ordered(new)


def _reset(call: Call, new: JSONObject, old: JSONObject) -> None:
    """Keep what this endpoint may not write: status on the main one, all else on the status."""
    resource = call.resource
    if not resource.status:
        return
    if call.subresource != "status":
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
        new[name] = clone(old[name])
    else:
        new.pop(name, None)


def _counts(call: Call, new: JSONObject, old: JSONObject) -> bool:
    """Whether this change counts in metadata.generation."""
    if call.subresource == "status":
        return False
    resource = call.resource
    if resource.custom:
        free = {"metadata", "status"} if resource.status else {"metadata"}
        names = ({*new} | {*old}) - free
        return not all(same(new.get(name), old.get(name)) for name in names)
    return call.kind in strategies.WITH_GENERATION and not same(new.get("spec"), old.get("spec"))


def generation_of(meta: JSONObject) -> int:
    value = meta.get("generation")
    return value if isinstance(value, int) else 0


def _check_place(call: Call, meta: JSONObject) -> None:
    """Put the object at its URL's place, which it must not contradict."""
    sent = meta.get("namespace") or ""
    if call.resource.namespaced:
        if sent and sent != call.namespace:
            text = "the namespace of the provided object does not match the namespace sent on the "
            raise errors.bad_request(f"{text}request")
        meta["namespace"] = call.namespace
    elif sent:
        del meta["namespace"]
    if call.name:
        named = meta.setdefault("name", call.name)
        if named != call.name:
            text = f"the name of the object ({named}) does not match the name on the URL"
            raise errors.bad_request(f"{text} ({call.name})")


def check_update_place(call: Call, new: JSONObject) -> None:
    """Refuse an update whose body names another object than its URL.

    Raises:
        StatusError: 400.
    """
    meta = metadata(new)
    if not meta.get("name"):
        text = f"the name of the object ({call.name} based on URL) was undeterminable: "
        raise errors.bad_request(f"{text}name must be provided")
    _check_place(call, meta)


def _default(call: Call, obj: JSONObject) -> None:
    root = call.resource.schema.node
    if call.resource.custom:
        drop_nulls(root.fields["metadata"], metadata(obj))
    else:
        drop_nulls(root, obj)
    apply_defaults(root, obj)
    _clean_metadata(metadata(obj))
    _drop_repeated_owners(call, metadata(obj))
    if not call.resource.custom:
        if call.kind in strategies.WITH_QUANTITIES:
            canonicalise(root, obj)
        drop_empty(call.resource.schema.node, obj)
        change = defaults.DEFAULTS.get(call.kind)
        if change is not None:
            change(obj)
        if call.resource.qualified == CRD_RESOURCE:
            definitions.default_definition(obj)


def _clean_metadata(meta: JSONObject) -> None:
    """Drop empty maps and lists, as Go's omitempty does."""
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        if name in meta and not meta[name]:
            del meta[name]


def _drop_repeated_owners(call: Call, meta: JSONObject) -> None:
    owners = meta.get("ownerReferences")
    if isinstance(owners, list):
        unique = {msgspec.json.encode(owner, order="sorted"): owner for owner in owners}
        if len(unique) < len(owners):
            counts = Counter(text_at(owner, "uid") for owner in owners)
            twice = [uid for uid, count in counts.items() if count > 1]
            call.request.warnings.append(
                ".metadata.ownerReferences contains duplicate entries; API server dedups owner "
                "references in 1.20+, and may reject such requests as early as 1.24; please fix "
                f"your requests; duplicate UID(s) observed: {', '.join(twice)}"
            )
            meta["ownerReferences"] = list(unique.values())


def _advise(call: Call, obj: JSONObject) -> None:
    """Warn of what is taken all the same."""
    for name in texts_at(obj, "metadata", "finalizers") if call.resource.custom else ():
        if names.is_bare_finalizer(name) and not names.label_key_errors(name):
            text = "prefer a domain-qualified finalizer name to avoid accidental conflicts with"
            warning = f"metadata.finalizers: {errors.quote(name)}: {text} other finalizer writers"
            call.request.warnings.append(warning)


def _errors(call: Call, obj: JSONObject, old: JSONObject | None) -> list[Cause]:
    """Everything that is wrong with an object."""
    custom = call.resource.custom
    rule = names.subdomain_errors
    if not custom:
        rule = strategies.NAME_RULES.get(call.kind, rule)
    strict = custom or call.resource.qualified == CRD_RESOURCE
    causes = names.check_metadata(metadata(obj), rule, custom=strict)
    if not custom:
        return causes + _builtin_errors(call, obj, old)
    if obj["kind"] != call.kind:
        text = f"must be {call.kind}"
        causes.append(errors.FieldErrors.invalid("kind", obj["kind"], text))
    before = () if old is None else (_judged(old),)
    part = "status" if call.subresource == "status" else ""
    node = call.resource.schema.body
    return causes + validate(node, _judged(obj), part, *before, elsewhere=causes)


def _judged(obj: JSONObject) -> JSONObject:
    """What a custom resource's schema and rules see: of the metadata, the name only."""
    meta = metadata(obj)
    shown: JSONObject = {n: meta[n] for n in ("name", "generateName") if n in meta}
    return {**obj, "metadata": shown}


def _builtin_errors(call: Call, obj: JSONObject, old: JSONObject | None) -> list[Cause]:
    if call.resource.qualified == CRD_RESOURCE:
        if call.subresource == "status":
            return []
        serving.note_stored(obj)
        return definitions.check_definition(obj, old)
    check = checks.CHECKS.get(call.kind)
    causes = check(obj, old) if check is not None else []
    known = {cause.field for cause in causes}
    reported = ("FieldValueRequired", "FieldValueNotSupported")
    judged = validate(call.resource.schema.body, obj)
    return causes + [c for c in judged if c.reason in reported and c.field not in known]


def _refuse(call: Call, obj: JSONObject, causes: list[Cause]) -> None:
    if causes:
        name = str(metadata(obj).get("name") or "")
        group = "" if call.resource.group == "events.k8s.io" else call.resource.group
        raise errors.invalid(group, str(obj["kind"]), name, causes)


def _ordered(obj: JSONObject) -> JSONObject:
    """Return the object with apiVersion, kind and metadata first, as stored objects begin."""
    head = ("apiVersion", "kind", "metadata")
    return {
        **{name: obj[name] for name in head},
        **{name: value for name, value in obj.items() if name not in head},
    }


def changed(new: JSONObject, old: JSONObject) -> bool:
    """Whether a write would change anything but the times in managedFields."""
    bodies = [{k: v for k, v in obj.items() if k != "metadata"} for obj in (new, old)]
    apart = ("managedFields", "resourceVersion")
    metas = [{k: v for k, v in metadata(obj).items() if k not in apart} for obj in (new, old)]
    return not same(*bodies) or metas[0] != metas[1] or _owners(new) != _owners(old)


def _owners(obj: JSONObject) -> list[JSONObject]:
    entries = objects_at(obj, "metadata", "managedFields")
    return [{name: value for name, value in e.items() if name != "time"} for e in entries]
