"""Create, update, patch, apply and delete: read the object, decide what it becomes, commit.

Each write holds its object from reading it to its commit, so no two writes of one object cross.
Writes of different objects go on side by side and share commits.

Source: apiserver pkg/endpoints/handlers and pkg/registry/generic/registry/store.go.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from hypercobalt.apiserver import admission, deletion, status
from hypercobalt.apiserver.bodies import (
    APPLY_PATCH,
    JSON_PATCH,
    MAX_BODY,
    MERGE_PATCH,
)
from hypercobalt.apiserver.decoding import check_body
from hypercobalt.apiserver.kinds import builtin
from hypercobalt.apiserver.kinds.resources import CRD_RESOURCE, Resource
from hypercobalt.apiserver.ownership import fieldset, managed, patches
from hypercobalt.apiserver.paging import parse_revision
from hypercobalt.apiserver.rendering import to_version
from hypercobalt.apiserver.request import Call, DeleteOptions
from hypercobalt.apiserver.status import JSONObject
from hypercobalt.apiserver.store import EventType, Key, Store, Stored
from hypercobalt.apiserver.values import metadata, object_at, text_at

NAME_RETRIES = 8  # as its create with generateName

Change = Callable[[JSONObject], JSONObject]


@dataclass(frozen=True, slots=True)
class Written:
    """What a write left: the object as it is stored now, or as it last was."""

    data: bytes
    created: bool = False
    deleted: bool = False


class Writer:
    """The write verbs."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # -- create --------------------------------------------------------------------------------

    async def create(self, call: Call) -> Written:
        """Create an object; where the server names it, with another name when one is taken."""
        body = check_body(call, call.body.value)
        tries = 1 if metadata(body).get("name") else NAME_RETRIES
        while True:
            obj = admission.prepare_create(call, copy.deepcopy(body))
            ignored = ("status",) if call.resource.status else ()
            node, manager = call.resource.schema.node, call.manager()
            managed.track_update(node, None, obj, manager, call.stamp, ignored=ignored)
            obj = admission.finish_create(call, obj)
            key = call.key._replace(name=text_at(obj, "metadata", "name"))
            tries -= 1
            try:
                async with self._store.locked(key) as held:
                    return await self._insert(call, key, obj, held)
            except status.StatusError as error:
                if error.reason != "AlreadyExists" or not tries:
                    raise

    async def _insert(self, call: Call, key: Key, obj: JSONObject, held: Stored | None) -> Written:
        if held is not None:
            error = status.already_exists(call.resource.subject(key.name))
            if _is_ending(held):
                error.message = f"object is being deleted: {error.message}"
            raise error
        self._check_open(call, key)
        return await self._commit(call, "ADDED", key, _stored_form(call.resource, obj), None)

    def _check_open(self, call: Call, key: Key) -> None:
        """Refuse new content where its namespace or definition is missing or on its way out."""
        subject = call.resource.subject(key.name)
        if call.resource.custom:
            definition = self._store.get(Key(CRD_RESOURCE, "", key.resource))
            if definition is None or _is_ending(definition):
                why = "create not allowed while custom resource definition is terminating"
                raise status.forbidden(subject, why)
        if not key.namespace:
            return
        space = self._store.get(Key("namespaces", "", key.namespace))
        if space is None:
            raise status.not_found(status.Subject("", "namespaces", key.namespace))
        if _is_ending(space):
            ending = f"namespace {key.namespace} because it is being terminated"
            error = status.forbidden(subject, f"unable to create new content in {ending}")
            text = f"namespace {key.namespace} is being terminated"
            cause = status.Cause("metadata.namespace", "NamespaceTerminating", text)
            error.details = subject.details([cause])
            raise error

    # -- update and patch ----------------------------------------------------------------------

    async def update(self, call: Call) -> Written:
        if call.subresource == "scale":
            return await self.change(call, lambda old: _scaled(call, old))
        body = check_body(call, call.body.value)
        admission.check_update_place(call, body)
        try:
            return await self.change(call, lambda _old: copy.deepcopy(body))
        except status.StatusError as error:
            by_put = not call.resource.custom and call.kind in builtin.CREATED_BY_PUT
            if error.reason != "NotFound" or not by_put or call.subresource:
                raise
        if metadata(body).get("resourceVersion"):
            raise _unversioned(call)
        return await self.create(call)

    async def patch(self, call: Call) -> Written:
        if call.request.content_type == APPLY_PATCH:
            if call.subresource == "scale":
                raise status.unsupported("server-side apply of a scale")
            return await self._apply(call)
        if call.request.content_type != JSON_PATCH and not isinstance(call.body.value, dict):
            raise status.bad_request("error decoding patch: json: a merge patch is an object")
        if call.request.flag("force"):
            text = "may not be specified for non-apply patch"
            cause = status.FieldErrors.forbidden("force", text)
            raise status.invalid_options("PatchOptions", cause)
        patched = _scaled if call.subresource == "scale" else _patched
        return await self.change(call, lambda old: patched(call, old))

    async def change(self, call: Call, change: Change) -> Written:
        """Write what `change` makes of the stored object.

        Raises:
            StatusError: 404; 409 when the result names another resourceVersion; 422.
        """
        async with self._store.locked(call.key) as held:
            if held is None:
                raise status.not_found(call.subject)
            old = _shown(call.resource, held)
            new = change(old)
            admission.check_update_place(call, new)
            versioned = call.resource.custom or call.kind in builtin.VERSIONED
            if versioned and not metadata(new).get("resourceVersion"):
                raise _unversioned(call)
            _check_revision(call, new, held)
            reset = managed.is_reset(metadata(new))
            new = admission.prepare_update(call, new, old)
            node, manager = call.resource.schema.node, call.manager()
            managed.track_update(node, old, new, manager, call.stamp, reset=reset)
            return await self._replace(call, new, old, held)

    async def _replace(self, call: Call, new: JSONObject, old: JSONObject, held: Stored) -> Written:
        new = admission.finish_update(call, new, old)
        before = old
        if call.resource.revised:  # a change of what is stored counts, seen or not
            before = {**msgspec.json.decode(held.data), "apiVersion": old["apiVersion"]}
        if not admission.changed(new, before):
            return Written(held.data)
        if deletion.is_released(call, new, old):
            await self._remove(call, copy.deepcopy(old), held)
            return Written(msgspec.json.encode(new))
        return await self._commit(
            call, "MODIFIED", call.key, _stored_form(call.resource, new), held
        )

    # -- apply ---------------------------------------------------------------------------------

    async def _apply(self, call: Call) -> Written:
        if not call.request.text("fieldManager"):
            cause = status.FieldErrors.required("fieldManager", "is required for apply patch")
            raise status.invalid_options("PatchOptions", cause)
        config = _applied_config(call)
        async with self._store.locked(call.key) as held:
            if held is None:
                return await self._apply_new(call, config)
            return await self._apply_over(call, config, held)

    async def _apply_new(self, call: Call, config: JSONObject) -> Written:
        if call.subresource:
            raise status.not_found(call.subject)
        if uid := metadata(config).get("uid"):
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object"
            raise status.conflict(call.subject, f"{why} was found")
        metadata(config).pop("resourceVersion", None)
        applied = _merged(call, None, config)
        owners = metadata(applied).get("managedFields")
        obj = admission.prepare_create(call, applied)
        if owners is not None:
            metadata(obj)["managedFields"] = owners
        return await self._insert(call, call.key, admission.finish_create(call, obj), None)

    async def _apply_over(self, call: Call, config: JSONObject, held: Stored) -> Written:
        old = _shown(call.resource, held)
        _check_revision(call, config, held)
        new = _merged(call, old, config)
        if call.request.manager == "kubectl" and not call.subresource:
            managed.note_last_applied(new, call.body.value)
        new = admission.prepare_update(call, copy.deepcopy(new), old)
        return await self._replace(call, new, old, held)

    # -- delete --------------------------------------------------------------------------------

    async def delete(self, call: Call, options: DeleteOptions) -> Written:
        """Delete one object, or begin to where something still holds it.

        Raises:
            StatusError: 404; 409 when a precondition does not hold.
        """
        async with self._store.locked(call.key) as held:
            if held is None:
                raise status.not_found(call.subject)
            old = _shown(call.resource, held)
            deletion.check_delete(call, old, options)
            new = deletion.begin_delete(call, old, options)
            dry = "All" in options.dryRun
            if new is None:
                gone = deletion.ended(call, old)
                if dry:
                    return Written(msgspec.json.encode(gone), deleted=True)
                return await self._remove(call, gone, held)
            if new == old or dry:
                return Written(msgspec.json.encode(new))
            stored = _stored_form(call.resource, new)
            return await self._commit(call, "MODIFIED", call.key, stored, held)

    async def delete_all(self, call: Call, keys: list[Key], options: DeleteOptions) -> list[Stored]:
        """Delete each; what is already gone is passed over. Gives them as they were."""
        done: list[Stored] = []
        for key in keys:
            stored = self._store.get(key)
            try:
                one = replace(call, namespace=key.namespace, name=key.name)
                await self.delete(one, options)
            except status.StatusError as error:
                if error.reason != "NotFound":
                    raise
                continue
            if stored is not None:
                done.append(stored)
        return done

    # -- commit --------------------------------------------------------------------------------

    async def _remove(self, call: Call, last: JSONObject, held: Stored) -> Written:
        stored = _stored_form(call.resource, last)
        written = await self._commit(call, "DELETED", call.key, stored, held)
        return replace(written, deleted=True)

    async def _commit(
        self, call: Call, kind: EventType, key: Key, obj: JSONObject, held: Stored | None
    ) -> Written:
        created = held is None
        if call.dry_run:
            if held is not None:
                metadata(obj)["resourceVersion"] = str(held.revision)
            return Written(msgspec.json.encode(obj), created)
        previous = held.data if held is not None else None
        done = await self._store.write(kind, key, _encoder(obj), previous)
        return Written(done.data, created)


def _stored_form(resource: Resource, obj: JSONObject) -> JSONObject:
    if resource.group == "events.k8s.io":
        return builtin.event_to_core(obj)
    if resource.version != resource.storage_version:
        return {**obj, "apiVersion": f"{resource.group}/{resource.storage_version}"}
    return obj


def _shown(resource: Resource, held: Stored) -> JSONObject:
    return to_version(resource, msgspec.json.decode(held.data))


def _is_ending(stored: Stored) -> bool:
    if b'"deletionTimestamp"' not in stored.data:
        return False
    return bool(metadata(msgspec.json.decode(stored.data)).get("deletionTimestamp"))


def _encoder(obj: JSONObject) -> Callable[[int], bytes]:
    def encode(revision: int) -> bytes:
        metadata(obj)["resourceVersion"] = str(revision)
        data = msgspec.json.encode(obj)
        if len(data) > MAX_BODY:
            raise status.too_large(MAX_BODY)
        return data

    return encode


def _check_revision(call: Call, new: JSONObject, held: Stored) -> None:
    sent = metadata(new).get("resourceVersion")
    if sent not in (None, "") and parse_revision(str(sent)) != held.revision:
        raise status.conflict(call.subject)


def _unversioned(call: Call) -> status.StatusError:
    detail = "must be specified for an update"
    cause = status.FieldErrors.invalid("metadata.resourceVersion", 0, detail)
    return status.invalid(call.resource.group, call.resource.names.plural, call.name, [cause])


def _patched(call: Call, old: JSONObject) -> JSONObject:
    """What the call's JSON, merge or strategic merge patch makes of the object."""
    patch, base = call.body.value, copy.deepcopy(old)
    if call.request.content_type == JSON_PATCH:
        changed = patches.json_patch(base, patch)
    elif call.request.content_type == MERGE_PATCH:
        changed = object_at(patches.merge_patch(base, patch))
    else:
        changed = patches.strategic_merge(call.resource.schema.node, old, object_at(patch))
    if call.resource.custom:
        _check_identity(call, changed, old)
    try:
        return check_body(call, changed)
    except status.StatusError as error:
        text = msgspec.json.encode(changed).decode()
        cause = status.FieldErrors.invalid("patch", text, error.message)
        raise status.invalid("", "", "", [cause]) from error


def _scaled(call: Call, old: JSONObject) -> JSONObject:
    """What a write of its scale makes of the object."""
    scale = call.resource.scale
    if scale is None:
        raise status.not_found(call.subject)
    sent, shown = call.body.value, scale.view(old)
    if call.request.content_type == JSON_PATCH:
        sent = patches.json_patch(shown, sent)
    elif call.request.content_type == MERGE_PATCH:
        sent = patches.merge_patch(shown, sent)
    return scale.applied(old, sent)


def _check_identity(call: Call, new: JSONObject, old: JSONObject) -> None:
    """Refuse a patch that makes a custom object one of another kind."""
    causes = [
        status.FieldErrors.invalid(name, new.get(name), f"must be {old[name]}")
        for name in ("apiVersion", "kind")
        if new.get(name) != old[name]
    ]
    if causes:
        raise status.invalid(call.resource.group, str(new.get("kind") or ""), call.name, causes)


def _applied_config(call: Call) -> JSONObject:
    """What may be applied, without what this endpoint does not write."""
    resource, config = call.resource, copy.deepcopy(call.body.value)
    if not isinstance(config, dict):
        raise status.bad_request("error decoding YAML: a configuration is an object")
    version, kind = str(config.get("apiVersion") or ""), str(config.get("kind") or "")
    if (version, kind) != (resource.api_version, call.kind):
        shown = version if "/" in version else f"/{version}"
        raise status.bad_request(f"invalid object type: {shown}, Kind={kind}")
    where = object_at(config, "metadata")
    if where.get("managedFields"):
        raise status.bad_request("metadata.managedFields must be nil")
    if error := fieldset.typed_error(resource.schema.node, config):
        place = f"{where.get('namespace', '')}/{where.get('name', '')}"
        shown = f"{resource.group}/{resource.version}, Kind={kind}"
        text = f"failed to create typed patch object ({place}; {shown}): {error}"
        raise status.StatusError(500, "", text)
    metadata(config).setdefault("name", call.name)
    admission.check_update_place(call, config)
    if not resource.status:
        return config
    if call.subresource == "status":
        kept = ("apiVersion", "kind", "metadata", "status")
        return {name: value for name, value in config.items() if name in kept}
    return {name: value for name, value in config.items() if name != "status"}


def _merged(call: Call, live: JSONObject | None, config: JSONObject) -> JSONObject:
    force = call.request.flag("force")
    node = call.resource.schema.node
    return managed.apply(node, live, config, call.manager("Apply"), call.stamp, force=force)
