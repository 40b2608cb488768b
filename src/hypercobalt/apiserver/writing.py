"""Create, update, patch, apply and delete: read the object, decide what it becomes, commit.

Each write holds its object from reading it to its commit, so no two writes of one object cross.
Writes of different objects go on side by side and share commits.

Source: apiserver pkg/endpoints/handlers and pkg/registry/generic/registry/store.go.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from hypercobalt.apiserver import admission, status
from hypercobalt.apiserver.admission import Context, metadata
from hypercobalt.apiserver.kinds import builtin, definitions
from hypercobalt.apiserver.kinds.resources import CRD_RESOURCE, Registry, Resource
from hypercobalt.apiserver.ownership import fieldset, managed, patches
from hypercobalt.apiserver.reading import Renderer, to_version
from hypercobalt.apiserver.request import (
    MAX_BODY,
    PATCH_TYPES,
    DeleteOptions,
    Request,
    Response,
    Target,
    User,
    decode_body,
    decode_json,
    decode_yaml,
    delete_options,
)
from hypercobalt.apiserver.status import JSON, JSONObject
from hypercobalt.apiserver.store import EventType, Key, Store, Stored

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
CRD_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
NAME_RETRIES = 8  # as its create with generateName
POD_GRACE_SECONDS = 30


@dataclass(frozen=True, slots=True)
class _Written:
    data: bytes
    created: bool = False
    deleted: bool = False


class Writer:
    """The write verbs."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store, self._registry = store, registry
        self._unsettled = {""}  # groups whose definitions changed

    # -- create --------------------------------------------------------------------------------

    async def create(self, resource: Resource, target: Target, request: Request) -> Response:
        renderer = Renderer(resource, request)
        context = Context(resource, request, datetime.now(UTC))
        body = admission.check_body(context, decode_body(request), request.body)
        named = bool(metadata(body).get("name"))
        written = await self._create(context, body, target, 1 if named else NAME_RETRIES)
        return Response(201, renderer.object(written.data), renderer.form.media)

    async def _create(
        self, context: Context, body: JSONObject, target: Target, tries: int
    ) -> _Written:
        """Create, with another generated name when one is taken."""
        obj = self._new(context, copy.deepcopy(body), target.namespace)
        try:
            return await self._insert(context, obj)
        except status.StatusError as error:
            if error.reason != "AlreadyExists" or tries == 1:
                raise
        return await self._create(context, body, target, tries - 1)

    def _new(
        self, context: Context, body: JSONObject, namespace: str, name: str = ""
    ) -> JSONObject:
        obj = admission.prepare_create(context, body, namespace=namespace, name=name)
        node, manager = context.resource.schema.node, context.manager()
        ignored = ("status",) if context.resource.status else ()
        managed.track_update(node, None, obj, manager, context.stamp, ignored=ignored)
        return self._finished(context, obj)

    def _finished(self, context: Context, obj: JSONObject) -> JSONObject:
        obj = admission.finish_create(context, obj)
        return self._stored_form(context.resource, obj)

    def _stored_form(self, resource: Resource, obj: JSONObject) -> JSONObject:
        if resource.group == "events.k8s.io":
            return builtin.event_to_core(obj)
        if resource.version != resource.storage_version:
            return {**obj, "apiVersion": f"{resource.group}/{resource.storage_version}"}
        return obj

    async def _insert(self, context: Context, obj: JSONObject) -> _Written:
        key = self._key(context.resource, obj)
        async with self._store.locked(key) as held:
            if held is not None:
                error = status.already_exists(context.resource.subject(key.name))
                if _is_ending(held):
                    error.message = f"object is being deleted: {error.message}"
                raise error
            self._check_open(context, key)
            return await self._commit(context, "ADDED", key, obj, None)

    def _check_open(self, context: Context, key: Key) -> None:
        """Refuse new content where its namespace or definition is missing or on its way out."""
        subject = context.resource.subject(key.name)
        if context.resource.custom:
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

    async def settle(self) -> None:
        """Accept the names of definitions as far as they are free by now, and serve them.

        After every write of definitions, and at the start: a crash may have come between.
        """
        resource = self._registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        while self._unsettled and resource is not None:
            group = self._unsettled.pop()
            request = Request("PATCH", "", {"fieldManager": "kube-apiserver"}, {}, User(""))
            context = Context(resource, request, datetime.now(UTC), "status")
            for key, _ in tuple(self._store.scan(CRD_RESOURCE)):
                if key.name.endswith(group):
                    target = Target(resource.group, resource.version, CRD_RESOURCE, "", key.name)
                    change = functools.partial(self._settled, context)
                    with contextlib.suppress(status.StatusError):  # it went in the meantime
                        await self.change(context, target, change)

    def _settled(self, context: Context, obj: JSONObject) -> JSONObject:
        name = str(metadata(obj).get("name"))
        others: list[JSONObject] = [
            msgspec.json.decode(stored.data)
            for key, stored in self._store.scan(CRD_RESOURCE)
            if key.name != name and key.name.endswith(_group_of(name))
        ]
        return definitions.establish(copy.deepcopy(obj), others, context.stamp)

    # -- update and patch ----------------------------------------------------------------------

    async def update(self, resource: Resource, target: Target, request: Request) -> Response:
        renderer = Renderer(resource, request)
        context = Context(resource, request, datetime.now(UTC), target.subresource)
        body = admission.check_body(context, decode_body(request), request.body)
        admission.check_update_place(context, body, target.namespace, target.name)

        def change(_old: JSONObject) -> JSONObject:
            return copy.deepcopy(body)

        try:
            written = await self.change(context, target, change)
        except status.StatusError as error:
            by_put = not resource.custom and resource.names.kind in builtin.CREATED_BY_PUT
            if error.reason != "NotFound" or not by_put or target.subresource:
                raise
            if metadata(body).get("resourceVersion"):
                raise _unversioned(resource, target.name) from None
            written = await self._create(context, body, target, 1)
        code = 201 if written.created else 200
        return Response(code, renderer.object(written.data), renderer.form.media)

    async def patch(self, resource: Resource, target: Target, request: Request) -> Response:
        known = [k for k in PATCH_TYPES if not (resource.custom and "strategic" in k)]
        if request.content_type not in known:
            raise status.unsupported_media_type(known)
        if request.content_type.startswith("application/apply-patch"):
            return await self._apply(resource, target, request)
        renderer = Renderer(resource, request)
        context = Context(resource, request, datetime.now(UTC), target.subresource)
        change = self._patcher(context)
        if request.flag("force"):
            text = "may not be specified for non-apply patch"
            cause = status.FieldErrors.forbidden("force", text)
            raise status.invalid("meta.k8s.io", "PatchOptions", "", [cause])
        written = await self.change(context, target, change)
        return Response(200, renderer.object(written.data), renderer.form.media)

    def _patcher(self, context: Context) -> Callable[[JSONObject], JSONObject]:
        request, resource = context.request, context.resource
        patch, raw = decode_json(request.body), request.body
        if request.content_type == "application/json-patch+json":
            raw = b""  # its keys are not the object's

            def change(old: JSONObject) -> JSONObject:
                return patches.json_patch(copy.deepcopy(old), patch)

        elif not isinstance(patch, dict):
            raise status.bad_request("error decoding patch: json: a merge patch is an object")
        elif request.content_type == "application/merge-patch+json":

            def change(old: JSONObject) -> JSONObject:
                merged = patches.merge_patch(copy.deepcopy(old), patch)
                return merged if isinstance(merged, dict) else {}

        else:

            def change(old: JSONObject) -> JSONObject:
                return patches.strategic_merge(resource.schema.node, old, patch)

        def checked(old: JSONObject) -> JSONObject:
            changed = change(old)
            if resource.custom:
                _check_identity(resource, changed, old)
            try:
                admission.check_body(context, changed, raw)
            except status.StatusError as error:
                text = msgspec.json.encode(changed).decode()
                cause = status.FieldErrors.invalid("patch", text, error.message)
                raise status.invalid("", "", "", [cause]) from error
            return changed

        return checked

    async def change(
        self, context: Context, target: Target, change: Callable[[JSONObject], JSONObject]
    ) -> _Written:
        """Write what `change` makes of the stored object.

        Raises:
            StatusError: 404; 409 when the result names another resourceVersion; 422.
        """
        key = Key(context.resource.stored, target.namespace, target.name)
        async with self._store.locked(key) as held:
            if held is None:
                raise status.not_found(context.resource.subject(target.name))
            stored: JSONObject = msgspec.json.decode(held.data)
            old = to_version(context.resource, stored)
            new = change(old)
            admission.check_update_place(context, new, target.namespace, target.name)
            versioned = context.resource.custom or context.kind in builtin.VERSIONED
            if versioned and not metadata(new).get("resourceVersion"):
                raise _unversioned(context.resource, target.name)
            self._check_revision(context, new, held)
            reset = managed.is_reset(metadata(new))
            new = admission.prepare_update(context, new, old)
            node, manager = context.resource.schema.node, context.manager()
            managed.track_update(node, old, new, manager, context.stamp, reset=reset)
            new = admission.finish_update(context, new, old)
            return await self._replace(context, key, new, old, held)

    def _check_revision(self, context: Context, new: JSONObject, held: Stored) -> None:
        sent = metadata(new).get("resourceVersion")
        if sent in (None, ""):
            return
        if admission.parse_revision(str(sent)) != held.revision:
            raise status.conflict(context.resource.subject(str(metadata(new).get("name"))))

    async def _replace(
        self, context: Context, key: Key, new: JSONObject, old: JSONObject, held: Stored
    ) -> _Written:
        before = old
        if context.resource.revised:  # a change of what is stored counts, seen or not
            stored: JSONObject = msgspec.json.decode(held.data)
            before = {**stored, "apiVersion": old["apiVersion"]}
        if not admission.changed(new, before):
            return _Written(held.data)
        if _is_released(context, new, old):
            await self._remove(context, key, copy.deepcopy(old), held)
            return _Written(msgspec.json.encode(new))
        stored = self._stored_form(context.resource, new)
        return await self._commit(context, "MODIFIED", key, stored, held)

    # -- apply ---------------------------------------------------------------------------------

    async def _apply(self, resource: Resource, target: Target, request: Request) -> Response:
        renderer = Renderer(resource, request)
        context = Context(resource, request, datetime.now(UTC), target.subresource)
        if not request.text("fieldManager"):
            cause = status.FieldErrors.required("fieldManager", "is required for apply patch")
            raise status.invalid("meta.k8s.io", "PatchOptions", "", [cause])
        body = decode_yaml(request.body) if request.body[:1] != b"{" else decode_json(request.body)
        config = self._check_config(context, copy.deepcopy(body), target)
        key = Key(resource.stored, target.namespace, target.name)
        async with self._store.locked(key) as held:
            if held is None:
                written = await self._apply_new(context, key, config, target)
            else:
                written = await self._apply_over(context, key, config, held, note=body)
        code = 201 if written.created else 200
        return Response(code, renderer.object(written.data), renderer.form.media)

    def _check_config(self, context: Context, config: JSON, target: Target) -> JSONObject:
        """What may be applied, without what this endpoint does not write."""
        resource = context.resource
        if not isinstance(config, dict):
            raise status.bad_request("error decoding YAML: a configuration is an object")
        version, kind = str(config.get("apiVersion") or ""), str(config.get("kind") or "")
        if (version, kind) != (resource.api_version, resource.names.kind):
            shown = version if "/" in version else f"/{version}"
            raise status.bad_request(f"invalid object type: {shown}, Kind={kind}")
        named = config.get("metadata")
        where = named if isinstance(named, dict) else {}
        if where.get("managedFields"):
            raise status.bad_request("metadata.managedFields must be nil")
        if error := fieldset.typed_error(resource.schema.node, config):
            place = f"{where.get('namespace', '')}/{where.get('name', '')}"
            kind = f"{shown_version(resource)}, Kind={kind}"
            text = f"failed to create typed patch object ({place}; {kind}): {error}"
            raise status.StatusError(500, "", text)
        metadata(config).setdefault("name", target.name)
        admission.check_update_place(context, config, target.namespace, target.name)
        if not resource.status:
            return config
        if context.subresource == "status":
            kept = ("apiVersion", "kind", "metadata", "status")
            return {name: value for name, value in config.items() if name in kept}
        return {name: value for name, value in config.items() if name != "status"}

    async def _apply_new(
        self, context: Context, key: Key, config: JSONObject, target: Target
    ) -> _Written:
        if context.subresource:
            raise status.not_found(context.resource.subject(target.name))
        if uid := metadata(config).get("uid"):
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object"
            why += " was found"
            raise status.conflict(context.resource.subject(key.name), why)
        metadata(config).pop("resourceVersion", None)
        applied = self._merged(context, None, config)
        owners = metadata(applied).get("managedFields")
        obj = admission.prepare_create(
            context, applied, namespace=target.namespace, name=target.name
        )
        if owners is not None:
            metadata(obj)["managedFields"] = owners
        obj = self._finished(context, obj)
        self._check_open(context, key)
        return await self._commit(context, "ADDED", key, obj, None)

    async def _apply_over(
        self, context: Context, key: Key, config: JSONObject, held: Stored, *, note: JSON
    ) -> _Written:
        stored: JSONObject = msgspec.json.decode(held.data)
        old = to_version(context.resource, stored)
        self._check_revision(context, config, held)
        new = self._merged(context, old, config)
        if context.request.manager == "kubectl" and not context.subresource:
            managed.note_last_applied(new, note)
        new = admission.prepare_update(context, copy.deepcopy(new), old)
        new = admission.finish_update(context, new, old)
        return await self._replace(context, key, new, old, held)

    def _merged(self, context: Context, live: JSONObject | None, config: JSONObject) -> JSONObject:
        return managed.apply(
            context.resource.schema.node,
            live,
            config,
            context.manager("Apply"),
            context.stamp,
            force=context.request.flag("force"),
        )

    # -- delete --------------------------------------------------------------------------------

    async def delete(self, resource: Resource, target: Target, request: Request) -> Response:
        renderer = Renderer(resource, request)
        options = delete_options(request)
        context = Context(resource, request, datetime.now(UTC))
        key = Key(resource.stored, target.namespace, target.name)
        written = await self.delete_key(context, key, options)
        obj: JSONObject = msgspec.json.decode(written.data)
        if not written.deleted:
            return Response(200, renderer.object(written.data), renderer.form.media)
        if not resource.custom and resource.names.kind in builtin.RETURNS_DELETED:
            return Response(200, renderer.object(written.data), renderer.form.media)
        uid = str(metadata(obj).get("uid") or "")
        body: JSONObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": resource.subject(target.name).details(uid=uid),
        }
        return Response(200, msgspec.json.encode(body))

    async def delete_key(self, context: Context, key: Key, options: DeleteOptions) -> _Written:
        """Delete one object, or begin to where something still holds it.

        Raises:
            StatusError: 404; 409 when a precondition does not hold.
        """
        subject = context.resource.subject(key.name)
        async with self._store.locked(key) as held:
            if held is None:
                raise status.not_found(subject)
            stored: JSONObject = msgspec.json.decode(held.data)
            old = to_version(context.resource, stored)
            _check_preconditions(context, options, metadata(old), held.revision)
            if key.resource == "namespaces" and key.name in builtin.SYSTEM_NAMESPACES:
                raise status.forbidden(subject, "this namespace may not be deleted")
            new = self._begin_delete(context, old, options)
            dry = "All" in options.dryRun
            if new is None:
                gone = _ended(context, old)
                if dry:
                    return _Written(msgspec.json.encode(gone), deleted=True)
                return await self._remove(context, key, gone, held)
            if new == old or dry:
                return _Written(msgspec.json.encode(new))
            return await self._commit(
                context, "MODIFIED", key, self._stored_form(context.resource, new), held
            )

    def _begin_delete(
        self, context: Context, old: JSONObject, options: DeleteOptions
    ) -> JSONObject | None:
        """The object marked for deletion; None when it can go at once."""
        meta = metadata(old)
        found = meta.get("finalizers")
        held = [str(name) for name in found] if isinstance(found, list) else []
        finalizers = [name for name in held if name not in (FOREGROUND, ORPHAN)]
        policy = options.propagationPolicy
        if options.orphanDependents is not None and not policy:
            policy = "Orphan" if options.orphanDependents else "Background"
        if policy == "Foreground":
            finalizers.append(FOREGROUND)
        elif policy == "Orphan":
            finalizers.append(ORPHAN)
        elif not policy:
            finalizers = held
        if context.resource.qualified == CRD_RESOURCE and CRD_CLEANUP not in finalizers:
            finalizers.append(CRD_CLEANUP)
        grace = _grace_seconds(context, old, options)
        if not finalizers and not grace and not _keeps_namespace(context, old):
            return None
        if not meta.get("deletionTimestamp"):
            marked = admission.mark_deleted(context, old, grace)
        else:
            marked = _sooner(old, grace)
        if finalizers:
            metadata(marked)["finalizers"] = list(finalizers)
        else:
            metadata(marked).pop("finalizers", None)
        return marked

    async def delete_collection(
        self, context: Context, keys: list[Key], options: DeleteOptions
    ) -> list[Stored]:
        """Delete each; what is already gone is passed over. Gives them as they were."""
        done: list[Stored] = []
        for key in keys:
            stored = self._store.get(key)
            try:
                await self.delete_key(context, key, options)
            except status.StatusError as error:
                if error.reason != "NotFound":
                    raise
                continue
            if stored is not None:
                done.append(stored)
        return done

    async def _remove(self, context: Context, key: Key, last: JSONObject, held: Stored) -> _Written:
        if context.request.dry_run:
            return _Written(msgspec.json.encode(last), deleted=True)
        self._mark_unsettled(key)
        stored = self._stored_form(context.resource, last)
        done = await self._store.write("DELETED", key, _encoder(stored), held.data)
        return _Written(done.data, deleted=True)

    # -- commit --------------------------------------------------------------------------------

    async def _commit(
        self, context: Context, kind: EventType, key: Key, obj: JSONObject, held: Stored | None
    ) -> _Written:
        created = held is None
        if context.request.dry_run:
            meta = metadata(obj)
            if held is not None:
                meta["resourceVersion"] = str(held.revision)
            return _Written(msgspec.json.encode(obj), created)
        self._mark_unsettled(key)
        previous = held.data if held is not None else None
        done = await self._store.write(kind, key, _encoder(obj), previous)
        return _Written(done.data, created)

    def _mark_unsettled(self, key: Key) -> None:
        if key.resource == CRD_RESOURCE:
            self._unsettled.add(_group_of(key.name))

    def _key(self, resource: Resource, obj: JSONObject) -> Key:
        meta = metadata(obj)
        namespace = str(meta.get("namespace") or "") if resource.namespaced else ""
        return Key(resource.stored, namespace, str(meta.get("name")))


def shown_version(resource: Resource) -> str:
    """`group/version` as Go prints a GroupVersion: the core group is empty."""
    return f"{resource.group}/{resource.version}"


def _unversioned(resource: Resource, name: str) -> status.StatusError:
    detail = "must be specified for an update"
    cause = status.FieldErrors.invalid("metadata.resourceVersion", 0, detail)
    return status.invalid(resource.group, resource.names.plural, name, [cause])


def _check_identity(resource: Resource, new: JSONObject, old: JSONObject) -> None:
    """Refuse a patch that makes a custom object one of another kind."""
    causes = [
        status.FieldErrors.invalid(name, new.get(name), f"must be {old[name]}")
        for name in ("apiVersion", "kind")
        if new.get(name) != old[name]
    ]
    if causes:
        name = str(metadata(old).get("name"))
        raise status.invalid(resource.group, str(new.get("kind") or ""), name, causes)


def _is_ending(stored: Stored) -> bool:
    if b'"deletionTimestamp"' not in stored.data:
        return False
    return bool(metadata(msgspec.json.decode(stored.data)).get("deletionTimestamp"))


def _group_of(definition: str) -> str:
    return definition.partition(".")[2]


def _encoder(obj: JSONObject) -> Callable[[int], bytes]:
    def encode(revision: int) -> bytes:
        metadata(obj)["resourceVersion"] = str(revision)
        data = msgspec.json.encode(obj)
        if len(data) > MAX_BODY:
            raise status.too_large(MAX_BODY)
        return data

    return encode


def _check_preconditions(
    context: Context, options: DeleteOptions, meta: JSONObject, revision: int
) -> None:
    wanted = options.preconditions
    if wanted is None:
        return
    subject = status.Subject(context.resource.group, context.kind, str(meta.get("name")))
    if wanted.uid is not None and wanted.uid != meta.get("uid"):
        why = (
            f"the UID in the precondition ({wanted.uid}) does not match the UID in record "
            f"({meta.get('uid')}). The object might have been deleted and then recreated"
        )
        raise status.conflict(subject, why)
    if wanted.resourceVersion is not None and wanted.resourceVersion != str(revision):
        why = (
            f"the ResourceVersion in the precondition ({wanted.resourceVersion}) does not match "
            f"the ResourceVersion in record ({revision}). The object might have been modified"
        )
        raise status.conflict(subject, why)


def _grace_seconds(context: Context, obj: JSONObject, options: DeleteOptions) -> int:
    """Only a pod that runs somewhere is given time; its kubelet ends it. Asked again: less time."""
    if context.resource.qualified != "pods":
        return 0
    spec, now = obj.get("spec"), obj.get("status")
    phase = now.get("phase") if isinstance(now, dict) else ""
    if not isinstance(spec, dict) or not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
        return 0
    given = metadata(obj).get("deletionGracePeriodSeconds")
    own = spec.get("terminationGracePeriodSeconds") if given is None else given
    wanted = own if options.gracePeriodSeconds is None else options.gracePeriodSeconds
    seconds = wanted if isinstance(wanted, int) else POD_GRACE_SECONDS
    seconds = 1 if seconds < 0 else seconds
    return min(seconds, given) if isinstance(given, int) else seconds


def _ended(context: Context, old: JSONObject) -> JSONObject:
    """What is shown of a deleted object: as it was; of a pod, with its time run out."""
    if context.resource.qualified == "pods" and not metadata(old).get("deletionTimestamp"):
        return admission.mark_deleted(context, old, 0)
    return _sooner(old, 0)


def _sooner(old: JSONObject, grace_seconds: int) -> JSONObject:
    """An object that is being deleted, perhaps with less time left."""
    marked = copy.deepcopy(old)
    meta = metadata(marked)
    given = meta.get("deletionGracePeriodSeconds")
    if isinstance(given, int) and grace_seconds < given:
        spared = max(min(given, admission.MAX_GRACE_SECONDS) - grace_seconds, 0)
        due = datetime.fromisoformat(str(meta["deletionTimestamp"])) - timedelta(seconds=spared)
        meta["deletionTimestamp"] = due.strftime("%Y-%m-%dT%H:%M:%SZ")
        meta["deletionGracePeriodSeconds"] = grace_seconds
    return marked


def _keeps_namespace(context: Context, obj: JSONObject) -> bool:
    """A namespace stays, Terminating, until its content is gone and spec.finalizers is empty."""
    if context.resource.qualified != "namespaces":
        return False
    spec = obj.get("spec")
    return isinstance(spec, dict) and bool(spec.get("finalizers"))


def _is_released(context: Context, new: JSONObject, old: JSONObject) -> bool:
    """Whether this update took away the last thing that held a deleted object."""
    meta = metadata(new)
    if not metadata(old).get("deletionTimestamp") or meta.get("finalizers"):
        return False
    if meta.get("deletionGracePeriodSeconds") not in (None, 0):
        return False
    return not _keeps_namespace(context, new)
