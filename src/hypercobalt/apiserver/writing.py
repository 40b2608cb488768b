"""Create, update, patch, apply and delete: draft a write, await admission, commit.

A write that no admitter concerns holds its object from reading it to its commit. One that has to
be admitted holds nothing meanwhile, so a slow admitter blocks no other write; then it is committed
if its object is as it was, else drafted again. Writes of different objects go on side by side and
share commits.

Source: apiserver pkg/registry/generic/registry/store.go.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Concatenate, Protocol

import msgspec

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.decisions import binding, verbs
from hypercobalt.apiserver.decisions.verbs import Change, Decision, Prepared
from hypercobalt.apiserver.errors import JSONObject
from hypercobalt.apiserver.kinds.builtin import strategies
from hypercobalt.apiserver.kinds.resources import CRD_RESOURCE
from hypercobalt.apiserver.offload import Offload, P, T
from hypercobalt.apiserver.policies.following import POLICIES
from hypercobalt.apiserver.quota import OF_AN_OBJECT, Quota
from hypercobalt.apiserver.requests.bodies import APPLY_PATCH, MAX_OBJECT
from hypercobalt.apiserver.requests.request import SYSTEM_USER, Call, DeleteOptions
from hypercobalt.apiserver.requests.selection import select
from hypercobalt.apiserver.storage.objects import Key, Stored, StoreError
from hypercobalt.apiserver.storage.store import Store
from hypercobalt.apiserver.values import clone, metadata, text_at

NAME_RETRIES = 8  # as its create with generateName
CHANGE_RETRIES = 5  # as its patch, of an object that changes while admission is awaited
# How much longer than others an object may take that has a rule for each small item, and a
# definition or a policy, whose expressions are checked with types: 5 ms for each object with rules.
RULES_FACTOR, DEFINITION_FACTOR = 4, 40


@dataclass(frozen=True, slots=True)
class Written:
    """Result of a write: the object as it is stored now, or its last state."""

    data: bytes
    created: bool = False
    deleted: bool = False


class Admitter(Protocol):
    """Admits or refuses writes: policies and hooks."""

    def concerns(self, call: Call) -> bool:
        """Whether this write has to be admitted."""
        ...

    async def mutate(self, call: Call, write: Prepared) -> JSONObject | None:
        """The object to write in place of the drafted one; None leaves it. No lock is held.

        Raises:
            StatusError: it is refused.
        """
        ...

    async def admit(self, call: Call, write: Prepared) -> None:
        """Let a write pass. No lock is held meanwhile.

        Raises:
            StatusError: it is refused.
        """
        ...


class Writer:
    """The write verbs."""

    def __init__(self, store: Store, offload: Offload, *admitters: Admitter) -> None:
        self._store, self._offload, self._admitters = store, offload, admitters
        self._quota = Quota()
        store.listen(self._quota.follow)

    async def create(self, call: Call) -> Written:
        """Create an object; where the server names it, with another name when one is taken."""
        tries = 1 if text_at(call.body.value, "metadata", "name") else NAME_RETRIES
        while True:
            draft = await self._decide(None, verbs.create, call)
            prepared = await self._admit(call, draft, None)
            key = call.key._replace(name=text_at(prepared.new, "metadata", "name"))
            await self._replace_damaged(call, key)
            tries -= 1
            async with self._store.locked(key) as held:
                if held is None:
                    return await self._commit(call, key, prepared, held)
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
        return await self._replace(call, lambda _: clone(body))

    async def change(self, call: Call, to: Change) -> Written:
        """Write what `to` makes of a copy of the object.

        Raises:
            StatusError: 404; 409 when the result names another resourceVersion; 422.
        """
        return await self._replace(call, lambda old: to(clone(old)))

    async def _replace(self, call: Call, to: Change) -> Written:
        return await self._write(call, lambda call, held: verbs.change(call, held, to))

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
        return await self._write(call, verbs.apply if applies else verbs.patch)

    async def delete(self, call: Call, options: DeleteOptions) -> Written:
        """Delete one object, or begin to where something still holds it.

        Raises:
            StatusError: 404; 409 when a precondition does not hold.
        """
        if call.key in self._store.damaged:
            return await self._delete_damaged(call, options)
        return await self._write(call, lambda call, held: verbs.delete(call, held, options))

    async def bind(self, call: Call) -> None:
        """Assign a pod to a node; admission sees the Binding, as a create, and not the pod.

        Raises:
            StatusError: 400; 404; 409 for a pod that is bound or ends; 422.
        """
        sent = binding.read(call)
        write = binding.shown(sent)
        call.guard(write.new, None)
        for admitter in self._admitters:
            if admitter.concerns(call):
                await admitter.admit(call, write)
        async with self._store.locked(call.key) as held:
            prepared = await self._decide(held, binding.bind, call, held, sent)
            await self._commit(call, call.key, prepared, held)

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
        """Delete the objects that the call's selectors match, and return them as they were."""
        selection = select(call)
        scanned = self._store.scan(selection.resource, selection.namespace)
        done: list[Stored] = []
        listed = [(k, s) for k, s in scanned if selection.wants(k) and selection.matches(k, s.data)]
        for key, stored in listed:
            of_object = replace(call, namespace=key.namespace, name=key.name)
            with contextlib.suppress(errors.NotFoundError):  # it went in the meantime
                await self.delete(of_object, options)
                done.append(stored)
        return done

    async def _write(self, call: Call, draft: Callable[[Call, Stored | None], Prepared]) -> Written:
        """Write what `draft` makes of the object, as it is when admission has let it pass.

        Raises:
            StatusError: what `draft` and admission raise; 409 for an object that keeps changing.
        """
        for _ in range(CHANGE_RETRIES):
            async with self._store.locked(call.key) as held:
                drafted = await self._decide(held, draft, call, held)
                if not any(admitter.concerns(call) for admitter in self._admitters):
                    prepared = await self._decide(held, verbs.check, call, drafted)
                    return await self._commit(call, call.key, prepared, held)
            prepared = await self._admit(call, drafted, held)
            async with self._store.locked(call.key) as now:
                if now == held:
                    return await self._commit(call, call.key, prepared, held)
        raise errors.conflict(call.subject)

    async def _admit(self, call: Call, draft: Prepared, held: Stored | None) -> Prepared:
        """Have a draft mutated, check it and have it admitted."""
        concerned = [admitter for admitter in self._admitters if admitter.concerns(call)]
        for admitter in concerned:
            if (new := await admitter.mutate(call, draft)) is not None:
                draft = await self._decide(held, verbs.mutated, call, draft, new)
        prepared = await self._decide(held, verbs.check, call, draft)
        for admitter in concerned:
            await admitter.admit(call, prepared)
        return prepared

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
        return await self._offload.run(size, decide, call, *args, **kwargs)

    async def _commit(
        self, call: Call, key: Key, prepared: Prepared, held: Stored | None
    ) -> Written:
        """Decide an admitted write and carry it out, while `key` is held."""
        decision = await self._decide(held, verbs.finish, call, prepared, held)
        if decision is None:
            return Written(held.data if held else b"")
        if held is None:
            self._check_open(call, key)
        shown, options = decision.shown, prepared.options
        created, deleted = held is None, options is not None and decision.event == "DELETED"
        if call.dry_run if options is None else "All" in options.dryRun:
            shown = shown or decision.stored
            if held is not None:
                metadata(shown)["resourceVersion"] = str(held.revision)
        else:
            done = await self._store_write(call, key, decision, held.data if held else None)
            if shown is None:
                return Written(done.data, created, deleted)
        return Written(msgspec.json.encode(shown), created, deleted)

    async def _store_write(
        self, call: Call, key: Key, decision: Decision, previous: bytes | None
    ) -> Stored:
        user, subject, added = call.request.user, call.resource.subject(key.name), 0

        def encode(revision: int) -> bytes:
            nonlocal added
            metadata(decision.stored)["resourceVersion"] = str(revision)
            data = msgspec.json.encode(decision.stored)
            if decision.event != "DELETED":
                if len(data) > MAX_OBJECT:
                    raise errors.too_large(MAX_OBJECT)
                old = OF_AN_OBJECT + len(previous) if previous is not None else 0
                added = OF_AN_OBJECT + len(data) - old
                self._quota.charge(user, subject, key, added)
            return data

        try:
            return await self._store.write(decision.event, key, encode, previous)
        except StoreError:  # not when the client left: the write may be stored
            self._quota.take_back(user, key, added)
            raise

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
