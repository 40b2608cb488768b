"""The typed verbs: those that write, on top of those that read.

Writes are server-side apply under a field manager, or a patch of what changed, so that fields which
our types lack survive; a PUT is made of an object that was read with them (`whole`). A patch made
from an object that was read carries that object's resourceVersion, so it fails with `ConflictError`
instead of overwriting what another writer wrote meanwhile.

Source: Kubernetes API concepts; `docs/decisions/0002-client.md`.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from hypercobalt.api.codec import decode, to_builtins
from hypercobalt.api.meta import Object, Struct
from hypercobalt.errors import ConfigurationError
from hypercobalt.kubeconfig import Connection
from hypercobalt.runtime.client.deletion import (
    Deletion,
    Propagation,
    delete_options,
    read_deletion,
)
from hypercobalt.runtime.client.errors import (
    ConflictError,
    NotFoundError,
    TerminalApiError,
    as_conflict,
)
from hypercobalt.runtime.client.patch import JsonObject, Operation, diff, locked
from hypercobalt.runtime.client.reader import Reader
from hypercobalt.runtime.client.requests import make_call
from hypercobalt.runtime.client.session import TransportFactory
from hypercobalt.runtime.client.transport import Call, Limits, Transport
from hypercobalt.runtime.client.watch import key_of
from hypercobalt.runtime.client.whole import Whole, changed, checked_patch
from hypercobalt.runtime.clock import Clock, SystemClock
from hypercobalt.runtime.metrics import Metrics

T = TypeVar("T", bound=Object)

_MERGE, _JSON = "application/merge-patch+json", "application/json-patch+json"
_APPLY = "application/apply-patch+yaml"  # JSON is YAML
_CONFLICTS = 5  # in a row, until `modify` gives up


class Kube(Reader):
    """A client for one API server; one serves a whole process.

    Args:
        connection: from `kubeconfig.load`.
        field_manager: owner of the fields that are written; one per controller, see `as_manager`.
        limits: deadlines, retries and connections.
        factory: makes the connection pools; tests put a scripted one here.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        field_manager: str = "hypercobalt",
        limits: Limits | None = None,
        metrics: Metrics | None = None,
        clock: Clock | None = None,
        factory: TransportFactory | None = None,
    ) -> None:
        transport = Transport(
            connection,
            clock=clock or SystemClock(),
            metrics=metrics or Metrics(),
            limits=limits or Limits(),
            user_agent=field_manager,
            factory=factory,
        )
        super().__init__(transport)
        self.namespace, self.server = connection.namespace, connection.server
        self._manager = field_manager
        self._guard: Callable[[], None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every connection; of the views made by `as_manager` and `guarded` too."""
        await self._transport.aclose()

    def as_manager(self, field_manager: str) -> Kube:
        """The same client writing as another field manager."""
        return self._view(field_manager, self._guard)

    def guarded(self, guard: Callable[[], None]) -> Kube:
        """The same client, calling `guard` before each attempt to write; what it raises ends it."""
        return self._view(self._manager, guard)

    def _view(self, field_manager: str, guard: Callable[[], None] | None) -> Kube:
        view = copy.copy(self)
        view._manager, view._guard = field_manager, guard  # noqa: SLF001 - a copy of ourselves
        return view

    async def create(self, obj: T) -> T:
        """Create an object; with `generateName` the server completes the name.

        Raises:
            AlreadyExistsError: there is one of that name, after a lost answer perhaps this call's.
        """
        meta = obj.metadata
        call = make_call(
            "create",
            "POST",
            type(obj),
            (meta.namespace or None, None),
            about=meta.name or f"{meta.generateName}*",
            params={"fieldManager": self._manager},
            body=to_builtins(obj),
            idempotent=False,
        )
        return decode(await self._write(call), type(obj))

    async def create_in(
        self, type_: type[Object], name: str, subresource: str, obj: T, namespace: str | None = None
    ) -> T:
        """Create what a subresource of an object makes, such as a ServiceAccount's token."""
        call = make_call(
            "create",
            "POST",
            type_,
            (namespace, name),
            body=to_builtins(obj),
            subresource=subresource,
            idempotent=False,
        )
        return decode(await self._write(call), type(obj))

    async def apply(self, obj: T, *, force: bool = False, subresource: str | None = None) -> T:
        """Server-side apply: `obj` has the fields to own, and no others.

        `force` takes over fields that other managers own.

        Raises:
            ConflictError: another manager owns a field and force is off; `causes` names the fields.
        """
        params = {"fieldManager": self._manager, "force": "true" if force else "false"}
        return await self._patch(
            type(obj),
            (obj.metadata.namespace or None, obj.metadata.name),
            to_builtins(obj),
            verb="apply",
            content_type=_APPLY,
            params=params,
            subresource=subresource,
        )

    async def merge_patch(
        self,
        type_: type[T],
        name: str,
        patch: JsonObject,
        namespace: str | None = None,
        *,
        resource_version: str | None = None,
        subresource: str | None = None,
    ) -> T:
        """Merge `patch` into an object (RFC 7386), if it has `resource_version` where one is given.

        Raises:
            ConflictError: the object has another version by now.
            NotFoundError: there is no such object.
        """
        body = locked(patch, resource_version)
        return await self._patch(type_, (namespace, name), body, subresource=subresource)

    async def json_patch(
        self,
        type_: type[T],
        name: str,
        operations: Sequence[Operation],
        namespace: str | None = None,
        *,
        resource_version: str | None = None,
        subresource: str | None = None,
    ) -> T:
        """Apply a JSON patch (RFC 6902); arguments and errors as for `merge_patch`.

        Without a resource_version it is not sent a second time when the answer is lost, because
        adding to a list twice is not adding once.
        """
        body: list[Operation] = list(operations)
        if resource_version:
            path = "/metadata/resourceVersion"
            body.append({"op": "replace", "path": path, "value": resource_version})
        return await self._patch(
            type_,
            (namespace, name),
            body,
            content_type=_JSON,
            subresource=subresource,
            idempotent=bool(resource_version),
        )

    async def replace(self, obj: T) -> T:
        """Write all of an object that has no other writer, whatever its present version.

        For objects that the client may write and not read: the answer to a patch has what the
        object has, refusals included; that to a replacement only what was sent.
        """
        meta = obj.metadata
        call = make_call(
            "update",
            "PUT",
            type(obj),
            (meta.namespace or None, meta.name),
            params={"fieldManager": self._manager},
            body=to_builtins(obj),
        )
        return decode(await self._write(call), type(obj))

    async def patch(self, old: T, new: T, *, subresource: str | None = None) -> T:
        """Write what differs between an object as it was read and as it should be.

        Nothing is sent when nothing differs. Unknown fields survive, those of list items too.

        Raises:
            ConfigurationError: `old` was not read: it has no resourceVersion.
            ConflictError: the object has changed since `old` was read.
        """
        changes = diff(old, new)
        if not changes:
            return old
        meta = old.metadata
        version, type_, where = meta.resourceVersion, type(old), meta.namespace or None
        if not version:
            raise ConfigurationError(f"patch {key_of(old)}: it has no resourceVersion; read it")
        try:
            return await self.json_patch(
                type_, meta.name, changes, where, resource_version=version, subresource=subresource
            )
        except TerminalApiError as error:
            # A path that the object no longer has is called wrong, not late.
            raise await self._or_conflict(error, old) from error

    async def put(self, whole: Whole[T], new: T) -> T:
        """Write an object as it should be, as a whole; fields that its type lacks stay.

        Raises:
            ConflictError: the object has changed since it was read.
        """
        meta = whole.obj.metadata
        call = make_call(
            "update",
            "PUT",
            type(new),
            (meta.namespace or None, meta.name),
            params={"fieldManager": self._manager},
            body=changed(whole, new),
        )
        return decode(await self._write(call), type(new))

    async def patch_tested(self, whole: Whole[T], new: T) -> T:
        """Write what differs, with tests of what it replaces; nothing where nothing differs.

        Raises:
            ConflictError: one of the fields has changed since it was read.
        """
        operations = checked_patch(whole, new)
        if not operations:
            return whole.obj
        meta = whole.obj.metadata
        key = (meta.namespace or None, meta.name)
        try:
            return await self._patch(type(new), key, operations, content_type=_JSON)
        except TerminalApiError as error:
            raise await self._or_conflict(error, whole.obj) from error

    async def _or_conflict(
        self, error: TerminalApiError, old: Object
    ) -> TerminalApiError | ConflictError:
        """The refusal of a patch; a conflict if the object has changed since it was read."""
        meta = old.metadata
        now = await self.get(type(old), meta.name, meta.namespace or None)
        same = now is not None and now.metadata.resourceVersion == meta.resourceVersion
        return error if same else as_conflict(error)

    async def patch_status(self, obj: T, status: Struct) -> T:
        """Write what differs between the status of an object as it was read and `status`.

        Raises:
            ConflictError: the object has changed since it was read.
        """
        return await self.patch(
            obj, msgspec.structs.replace(obj, status=status), subresource="status"
        )

    async def modify(
        self,
        type_: type[T],
        name: str,
        decide: Callable[[T], T],
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> T | None:
        """Read an object, decide what it should be, patch it; from the start after a conflict.

        `decide` is pure: it is called again with what a conflicting writer left.

        Returns:
            The object as written, None if there is none.

        Raises:
            ConflictError: five conflicts in a row.
        """
        conflicts = 0
        while (current := await self.get(type_, name, namespace)) is not None:
            try:
                return await self.patch(current, decide(current), subresource=subresource)
            except ConflictError:
                conflicts += 1
                if conflicts == _CONFLICTS:
                    raise
            except NotFoundError:  # it went in the meantime
                break
        return None

    async def delete(
        self,
        type_: type[T],
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace: timedelta | None = None,
    ) -> Deletion:
        """Delete an object: only the one with that uid and resource_version, where they are given.

        `propagation` is what happens to dependents (None: the kind's default) and `grace` how long
        the object may take to stop (None: its own).

        Raises:
            ConflictError: the object has another uid or version.
        """
        options = delete_options(
            uid=uid, resource_version=resource_version, propagation=propagation, grace=grace
        )
        call = make_call("delete", "DELETE", type_, (namespace, name), body=options)
        try:
            return read_deletion(await self._write(call))
        except NotFoundError:
            return Deletion.ABSENT

    async def _patch(
        self,
        type_: type[T],
        key: tuple[str | None, str],
        body: object,
        *,
        verb: str = "patch",
        content_type: str = _MERGE,
        params: dict[str, str] | None = None,
        subresource: str | None = None,
        idempotent: bool = True,
    ) -> T:
        call = make_call(
            verb,
            "PATCH",
            type_,
            key,
            params=params or {"fieldManager": self._manager},
            body=body,
            content_type=content_type,
            subresource=subresource,
            idempotent=idempotent,
        )
        return decode(await self._write(call), type_)

    async def _write(self, call: Call) -> bytes:
        return await self._transport.send(dataclasses.replace(call, guard=self._guard))
