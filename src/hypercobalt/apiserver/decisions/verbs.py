"""Decides the result of each write on an object: draft, mutate, check, admit, finish.

    draft (`create`, `change`, `patch`, `apply`, `delete`) → await mutation, `mutated` → `check` →
    await admission → `finish`

Pure: the call and the stored object in, a decision out; `writing` awaits admission in between and
carries the decision out. What is drafted is defaulted and has its owners; what is checked is valid,
as admission policies and validating hooks may expect.

Source: apiserver pkg/endpoints/handlers/{create,update,patch}.go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import msgspec

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.decisions import admission, deletion, patches
from hypercobalt.apiserver.decisions.decoding import check_body, check_types
from hypercobalt.apiserver.errors import JSONObject, StatusError
from hypercobalt.apiserver.kinds.builtin import events, strategies
from hypercobalt.apiserver.kinds.resources import Resource
from hypercobalt.apiserver.kinds.versions import to_version
from hypercobalt.apiserver.ownership import fieldset, managed
from hypercobalt.apiserver.requests.bodies import (
    JSON_PATCH,
    MAX_VALUES_OF_A_HOST,
    MERGE_PATCH,
    check_shape,
)
from hypercobalt.apiserver.requests.paging import parse_revision
from hypercobalt.apiserver.requests.request import Call, DeleteOptions
from hypercobalt.apiserver.schema.changing import prune
from hypercobalt.apiserver.schema.numbers import make_canonical
from hypercobalt.apiserver.storage.objects import EventType, Stored
from hypercobalt.apiserver.values import clone, metadata, object_at, text_at

Change = Callable[[JSONObject], JSONObject]

_SHOWN = 100  # faults of an applied configuration


@dataclass(frozen=True, slots=True)
class Prepared:
    """A write as admission sees it, and before that as it is drafted.

    Args:
        new: the object after it; None for a delete.
        old: the object before it; None for a create.
        options: of a delete.
    """

    new: JSONObject | None
    old: JSONObject | None
    options: DeleteOptions | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The write to store, and its answer.

    Args:
        event: what the write is.
        stored: the object after it, as it is stored; of one that goes, as it last was.
        shown: what the client sees, where that is another state.
    """

    event: EventType
    stored: JSONObject
    shown: JSONObject | None = None


def create(call: Call) -> Prepared:
    """Draft a new object.

    Raises:
        StatusError: 400 or 422.
    """
    body = call.body.value
    if not text_at(body, "metadata", "name"):
        body = clone(body)  # it is prepared again with another name when one is taken
    obj = admission.prepare_create(call, check_body(call, body))
    ignored = ("status",) if call.resource.status else ()
    node, manager = call.resource.schema.node, call.manager()
    managed.track_update(node, None, obj, manager, call.stamp, ignored=ignored)
    return Prepared(obj, None)


def check_update(call: Call) -> JSONObject:
    """The body of an update.

    Raises:
        StatusError: 400.
    """
    body = check_body(call, call.body.value)
    admission.check_update_place(call, body)
    return body


def change(call: Call, held: Stored | None, to: Change) -> Prepared:
    """Draft an update of the stored object.

    Args:
        call: the update.
        held: the stored object.
        to: gives the object after it, which shares nothing with the one before.

    Raises:
        StatusError: 400; 404; 409 when the result names another resourceVersion; 422.
    """
    held = _found(call, held)
    old = _shown(call.resource, held)
    new = to(old)
    admission.check_update_place(call, new)
    versioned = call.resource.custom or call.kind in strategies.VERSIONED
    if versioned and not metadata(new).get("resourceVersion"):
        raise unversioned(call)
    _check_revision(call, new, held)
    reset = managed.is_reset(metadata(new))
    new = admission.prepare_update(call, new, old)
    node, manager = call.resource.schema.node, call.manager()
    managed.track_update(node, old, new, manager, call.stamp, reset=reset)
    return Prepared(new, old)


def patch(call: Call, held: Stored | None) -> Prepared:
    """Draft a JSON, merge or strategic merge patch.

    Raises:
        StatusError: 400; 404; 409; 422.
    """
    held = _found(call, held)
    if call.request.content_type != JSON_PATCH and not isinstance(call.body.value, dict):
        raise errors.bad_request("error decoding patch: json: a merge patch is an object")
    return change(call, held, lambda old: _patched(call, clone(old)))


def apply(call: Call, held: Stored | None) -> Prepared:
    """Draft a server-side apply.

    Raises:
        StatusError: 400; 404 of a subresource; 409 for conflicts; 422.
    """
    config = _applied_config(call)
    node, manager = call.resource.schema.node, call.manager("Apply")
    force = call.request.flag("force")
    if held is not None:
        old = _shown(call.resource, held)
        _check_revision(call, config, held)
        new = managed.apply(node, old, config, manager, call.stamp, force=force)
        if call.request.manager == "kubectl" and not call.subresource:
            managed.note_last_applied(new, call.body.value)
        new = _pruned(call, clone(new))
        return Prepared(admission.prepare_update(call, new, old), old)
    if call.subresource:
        raise errors.not_found(call.subject)
    if uid := metadata(config).get("uid"):
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object"
        raise errors.conflict(call.subject, f"{why} was found")
    metadata(config).pop("resourceVersion", None)
    applied = managed.apply(node, None, config, manager, call.stamp, force=force)
    owners = metadata(applied).get("managedFields")
    obj = admission.prepare_create(call, _pruned(call, applied))
    if owners is not None:
        metadata(obj)["managedFields"] = owners
    return Prepared(obj, None)


def _pruned(call: Call, obj: JSONObject) -> JSONObject:
    """The same object, without what a custom kind does not keep: it may have been applied."""
    if call.resource.custom:
        prune(call.resource.schema.node, obj)
    return obj


def delete(call: Call, held: Stored | None, options: DeleteOptions) -> Prepared:
    """A delete whose preconditions hold.

    Raises:
        StatusError: 403; 404; 409 when a precondition does not hold.
    """
    old = _shown(call.resource, _found(call, held))
    deletion.check_delete(call, old, options)
    return Prepared(None, old, options)


def mutated(call: Call, draft: Prepared, new: JSONObject) -> Prepared:
    """The draft with the object that a mutating hook made of its object."""
    own = _pruned(call, clone(new))  # the hook may share parts of it with what it keeps
    made = admission.after_mutation(call, own, draft.new or {}, draft.old)
    return Prepared(made, draft.old)


def check(call: Call, draft: Prepared) -> Prepared:
    """The write that may be admitted.

    Raises:
        StatusError: 403; 413 for what many small writes of a host's user would make of an object;
            422 with every cause.
    """
    new, old = draft.new, draft.old
    if new is not None:
        if call.request.user.is_of_a_host:
            check_shape(new, 2 * MAX_VALUES_OF_A_HOST)  # each value has an owner
        if old is None:
            new = admission.check_create(call, new)
        else:
            new = admission.check_update(call, new, old)
    call.guard(new, old)
    return Prepared(new, old, draft.options)


def finish(call: Call, write: Prepared, held: Stored | None) -> Decision | None:
    """Decide what an admitted write stores over the object that it was prepared for.

    None when it changes nothing.
    """
    new, old = write.new, write.old
    if held is None or old is None:
        return None if new is None else Decision("ADDED", _stored_form(call.resource, new))
    if new is None:
        return _deleted(call, old, write.options or DeleteOptions())
    before = old
    if call.resource.revised:  # a change of what is stored counts, seen or not
        before = {**msgspec.json.decode(held.data), "apiVersion": old["apiVersion"]}
    if not admission.changed(new, before):
        return None
    if deletion.is_released(call, new, old):
        return Decision("DELETED", _stored_form(call.resource, clone(old)), new)
    return Decision("MODIFIED", _stored_form(call.resource, new))


def _deleted(call: Call, old: JSONObject, options: DeleteOptions) -> Decision | None:
    """The object's end or its beginning; None when that has been written."""
    new = deletion.begin_delete(call, old, options)
    if new is None:
        return Decision("DELETED", _stored_form(call.resource, deletion.ended(call, old)))
    return None if new == old else Decision("MODIFIED", _stored_form(call.resource, new))


def unversioned(call: Call) -> StatusError:
    """The answer to an update that does not name the resourceVersion it was made from."""
    detail = "must be specified for an update"
    cause = errors.FieldErrors.invalid("metadata.resourceVersion", 0, detail)
    return errors.invalid(call.resource.group, call.resource.names.plural, call.name, [cause])


def _found(call: Call, held: Stored | None) -> Stored:
    if held is None:
        raise errors.not_found(call.subject)
    return held


def _shown(resource: Resource, held: Stored) -> JSONObject:
    return to_version(resource, held.data)


def _stored_form(resource: Resource, obj: JSONObject) -> JSONObject:
    if resource.group == "events.k8s.io":
        return events.to_core(obj)
    if resource.version != resource.storage_version:
        return {**obj, "apiVersion": f"{resource.group}/{resource.storage_version}"}
    return obj


def _check_revision(call: Call, new: JSONObject, held: Stored) -> None:
    sent = metadata(new).get("resourceVersion")
    if sent not in (None, "") and parse_revision(str(sent)) != held.revision:
        raise errors.conflict(call.subject)


def _patched(call: Call, obj: JSONObject) -> JSONObject:
    """What the call's patch makes of the object, which it may change."""
    patch = call.body.value
    if call.request.content_type == JSON_PATCH:
        changed = patches.json_patch(obj, patch)
    elif call.request.content_type == MERGE_PATCH:
        changed = object_at(patches.merge_patch(obj, patch))
    else:
        changed = patches.strategic_merge(call.resource.schema.node, obj, object_at(patch))
    if call.resource.custom:
        _check_identity(call, changed)
    try:
        return check_body(call, changed)
    except StatusError as error:
        text = msgspec.json.encode(changed, order="sorted").decode()
        why = error.message.partition(f" cannot be handled as a {call.kind}: ")[2]
        cause = errors.FieldErrors.invalid("patch", text, why or error.message)
        raise errors.invalid("", "", "", [cause]) from error


def _check_identity(call: Call, new: JSONObject) -> None:
    """Refuse a patch that makes a custom object one of another kind."""
    causes = [
        errors.FieldErrors.invalid(name, new.get(name), f"must be {wanted}")
        for name, wanted in (("apiVersion", call.resource.api_version), ("kind", call.kind))
        if new.get(name) != wanted
    ]
    if causes:
        raise errors.invalid(call.resource.group, str(new.get("kind") or ""), call.name, causes)


def _applied_config(call: Call) -> JSONObject:
    """What may be applied, without what this endpoint does not write."""
    resource, config = call.resource, make_canonical(clone(call.body.value))
    if not isinstance(config, dict):
        raise errors.bad_request("error decoding YAML: a configuration is an object")
    version, kind = str(config.get("apiVersion") or ""), str(config.get("kind") or "")
    if (version, kind) != (resource.api_version, call.kind):
        shown = version if "/" in version else f"/{version}"
        raise errors.bad_request(f"invalid object type: {shown}, Kind={kind}")
    where = object_at(config, "metadata")
    if where.get("managedFields"):
        raise errors.bad_request("metadata.managedFields must be nil")
    if mistakes := [*islice(fieldset.typed_errors(resource.schema.node, config), _SHOWN)]:
        place = f"{where.get('namespace', '')}/{where.get('name', '')}"
        shown = f"{resource.group}/{resource.version}, Kind={kind}"
        listed = mistakes[0] if len(mistakes) == 1 else "\n  ".join(("errors:", *mistakes))
        text = f"failed to create typed patch object ({place}; {shown}): {listed}"
        raise errors.bad_request(text)
    if not resource.custom:
        check_types(call, config)
    metadata(config).setdefault("name", call.name)
    admission.check_update_place(call, config)
    if not resource.status:
        return config
    if call.subresource == "status":
        kept = ("apiVersion", "kind", "metadata", "status")
        return {name: value for name, value in config.items() if name in kept}
    return {name: value for name, value in config.items() if name != "status"}
