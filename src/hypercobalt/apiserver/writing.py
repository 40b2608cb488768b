"""Create, update, patch, apply and delete: read the object, decide what it becomes, commit.

Each write holds its object from reading it to its commit, so no two writes of one object cross.
Writes of different objects go on side by side and share commits.

Source: apiserver pkg/registry/generic/registry/store.go.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Concatenate

import msgspec

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.decisions import verbs
from hypercobalt.apiserver.decisions.verbs import Change, Decision
from hypercobalt.apiserver.errors import JSONObject
from hypercobalt.apiserver.kinds.builtin import strategies
from hypercobalt.apiserver.kinds.resources import CRD_RESOURCE
from hypercobalt.apiserver.offload import Aside, P, T
from hypercobalt.apiserver.policies.following import POLICIES, Policies
from hypercobalt.apiserver.requests.bodies import APPLY_PATCH, MAX_BODY
from hypercobalt.apiserver.requests.request import SYSTEM_USER, Call, DeleteOptions
from hypercobalt.apiserver.requests.selection import select
from hypercobalt.apiserver.storage.objects import Key, Stored
from hypercobalt.apiserver.storage.store import Store
from hypercobalt.apiserver.values import metadata, text_at

NAME_RETRIES = 8  # as its create with generateName
# How much longer than others an object may take that has a rule for each small item, and a
# definition or a policy, whose expressions are checked with types: 5 ms for each object with rules.
RULES_FACTOR, DEFINITION_FACTOR = 4, 40


@dataclass(frozen=True, slots=True)
class Written:
    """What a write left: the object as it is stored now, or as it last was."""

    data: bytes
    created: bool = False
    deleted: bool = False


class Writer:
    """The write verbs."""

    def __init__(self, store: Store, aside: Aside, policies: Policies) -> None:
        self._store, self._aside, self._policies = store, aside, policies

    async def create(self, call: Call) -> Written:
        """Create an object; where the server names it, with another name when one is taken."""
        tries = 1 if text_at(call.body.value, "metadata", "name") else NAME_RETRIES
        while True:
            decision = await self._decide(None, verbs.create, call)
            key = call.key._replace(name=text_at(decision.stored, "metadata", "name"))
            await self._replace_damaged(call, key)
            tries -= 1
            async with self._store.locked(key) as held:
                if held is None:
                    return await self._commit(call, key, decision, held)
            if not tries:
                error = errors.already_exists(call.resource.subject(key.name))
                if _is_ending(held):
                    error.message = f"object is being deleted: {error.message}"
                raise error

    async def update(self, call: Call) -> Written:
        """Replace an object; of some kinds, create one that is not there."""
        body = await self._decide(None, verbs.check_update, call)
        by_put = not call.resource.custom and call.kind in strategies.CREATED_BY_PUT
        if self._store.get(call.key) is None and by_put and not call.subresource:
            if metadata(body).get("resourceVersion"):
                raise verbs.unversioned(call)
            return await self.create(call)
        return await self.change(call, lambda _: body)

    async def change(self, call: Call, to: Change) -> Written:
        """Write what `to` makes of the object.

        Raises:
            StatusError: 404; 409 when the result names another resourceVersion; 422.
        """
        async with self._store.locked(call.key) as held:
            if held is None:
                raise errors.not_found(call.subject)
            decision = await self._decide(held, verbs.change, call, held, to)
            return await self._commit(call, call.key, decision, held)

    async def patch(self, call: Call) -> Written:
        applies = call.request.content_type == APPLY_PATCH
        if applies and not call.request.text("fieldManager"):
            cause = errors.FieldErrors.required("fieldManager", "is required for apply patch")
            raise errors.invalid_options("PatchOptions", cause)
        if not applies and call.request.flag("force"):
            text = "may not be specified for non-apply patch"
            cause = errors.FieldErrors.forbidden("force", text)
            raise errors.invalid_options("PatchOptions", cause)
        await self._replace_damaged(call, call.key)
        async with self._store.locked(call.key) as held:
            if applies:
                decision = await self._decide(held, verbs.apply, call, held)
            elif held is None:
                raise errors.not_found(call.subject)
            else:
                decision = await self._decide(held, verbs.patch, call, held)
            return await self._commit(call, call.key, decision, held)

    async def delete(self, call: Call, options: DeleteOptions) -> Written:
        """Delete one object, or begin to where something still holds it.

        Raises:
            StatusError: 404; 409 when a precondition does not hold.
        """
        if call.key in self._store.damaged:
            return await self._delete_damaged(call, options)
        async with self._store.locked(call.key) as held:
            if held is None:
                raise errors.not_found(call.subject)
            decision = await self._decide(held, verbs.delete, call, held, options)
            dry_run = "All" in options.dryRun
            written = await self._commit(call, call.key, decision, held, dry_run=dry_run)
        return replace(written, deleted=decision is not None and decision.event == "DELETED")

    async def _delete_damaged(self, call: Call, options: DeleteOptions) -> Written:
        """Delete what cannot be read: whether finalizers hold it is not known."""
        if options.preconditions is not None:
            raise errors.conflict(call.subject, "it is damaged, so no precondition can be checked")
        if "All" not in options.dryRun:
            await self._store.discard(call.key)
        return Written(b'{"metadata":{}}', deleted=True)

    async def _replace_damaged(self, call: Call, key: Key) -> None:
        """Make way for what the server itself writes whole at its start."""
        if key in self._store.damaged and call.request.user == SYSTEM_USER:
            await self._store.discard(key)

    async def delete_all(self, call: Call, options: DeleteOptions) -> list[Stored]:
        """Delete what the call's selectors say; gives the objects as they were."""
        selection = select(call)
        found = self._store.scan(selection.resource, selection.namespace)
        done: list[Stored] = []
        listed = [(k, s) for k, s in found if selection.wants(k) and selection.matches(k, s.data)]
        for key, stored in listed:
            one = replace(call, namespace=key.namespace, name=key.name)
            with contextlib.suppress(errors.NotFoundError):  # it went in the meantime
                await self.delete(one, options)
                done.append(stored)
        return done

    async def _decide(
        self,
        held: Stored | None,
        decide: Callable[Concatenate[Call, P], T],
        call: Call,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        schema = call.resource.schema.body  # compiled here, never in two threads at once
        size = len(call.request.body) + (len(held.data) if held else 0)
        if call.resource.qualified in (CRD_RESOURCE, POLICIES):
            size *= DEFINITION_FACTOR
        elif schema.has_rules():
            size *= RULES_FACTOR
        call = self._policies.applied_to(call)
        return await self._aside.run(size, decide, call, *args, **kwargs)

    async def _commit(
        self,
        call: Call,
        key: Key,
        decision: Decision | None,
        held: Stored | None,
        *,
        dry_run: bool | None = None,
    ) -> Written:
        """Carry out a decision, while `key` is held; a delete's options say whether it is dry."""
        if decision is None:
            return Written(held.data if held else b"")
        if held is None:
            self._check_open(call, key)
        shown = decision.shown
        if call.dry_run if dry_run is None else dry_run:
            shown = shown or decision.stored
            if held is not None:
                metadata(shown)["resourceVersion"] = str(held.revision)
        else:
            previous = held.data if held else None
            encode = _encoder(decision.stored)
            done = await self._store.write(decision.event, key, encode, previous)
            if shown is None:
                return Written(done.data, created=held is None)
        return Written(msgspec.json.encode(shown), created=held is None)

    def _check_open(self, call: Call, key: Key) -> None:
        """Refuse new content where its namespace or definition is missing or on its way out."""
        subject = call.resource.subject(key.name)
        if call.resource.custom:
            definition = self._store.get(Key(CRD_RESOURCE, "", key.resource))
            if definition is None or _is_ending(definition):
                why = "create not allowed while custom resource definition is terminating"
                raise errors.forbidden(subject, why)
        if not key.namespace:
            return
        space = self._store.get(Key("namespaces", "", key.namespace))
        if space is None:
            raise errors.not_found(errors.Subject("", "namespaces", key.namespace))
        if _is_ending(space):
            ending = f"namespace {key.namespace} because it is being terminated"
            error = errors.forbidden(subject, f"unable to create new content in {ending}")
            text = f"namespace {key.namespace} is being terminated"
            cause = errors.Cause("metadata.namespace", "NamespaceTerminating", text)
            error.details = subject.details([cause])
            raise error


def _is_ending(stored: Stored) -> bool:
    if b'"deletionTimestamp"' not in stored.data:
        return False
    return bool(text_at(msgspec.json.decode(stored.data), "metadata", "deletionTimestamp"))


def _encoder(obj: JSONObject) -> Callable[[int], bytes]:
    def encode(revision: int) -> bytes:
        metadata(obj)["resourceVersion"] = str(revision)
        data = msgspec.json.encode(obj)
        if len(data) > MAX_BODY:
            raise errors.too_large(MAX_BODY)
        return data

    return encode
