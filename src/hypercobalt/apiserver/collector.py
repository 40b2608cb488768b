"""Cleans up after deletes: dependents, contents of namespaces and definitions, old Events.

Every event only names objects to look at. At start everything is looked at once.

Source: kubernetes pkg/controller/garbagecollector and pkg/controller/namespace;
apiextensions-apiserver pkg/controller/finalizer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Set
from datetime import UTC, datetime, timedelta

import msgspec

from hypercobalt.apiserver.decisions.deletion import CRD_CLEANUP, FOREGROUND, ORPHAN
from hypercobalt.apiserver.decisions.verbs import Change
from hypercobalt.apiserver.definitions import Definitions
from hypercobalt.apiserver.errors import JSONObject, NotFoundError, StatusError
from hypercobalt.apiserver.kinds.resources import CRD_RESOURCE, Registry, Resource
from hypercobalt.apiserver.requests.request import Call, DeleteOptions
from hypercobalt.apiserver.storage.objects import Event, Key
from hypercobalt.apiserver.storage.store import Store
from hypercobalt.apiserver.values import list_at, metadata, object_at, stamp_of, text_at
from hypercobalt.apiserver.worklist import Worklist
from hypercobalt.apiserver.writing import Writer
from hypercobalt.logs import get_logger

log = get_logger(__name__)

MANAGER = "apiserver-collector"
EVENT_HOURS = 1.0  # how long Events are kept, as kube-apiserver's --event-ttl
SWEEP = timedelta(minutes=1)  # Events have no event of their own when they grow old


class _Owner(msgspec.Struct, frozen=True):
    apiVersion: str  # noqa: N815  # wire name
    kind: str
    name: str
    uid: str
    blockOwnerDeletion: bool = False  # noqa: N815  # wire name


class _Write(msgspec.Struct):
    time: str = ""


class _Meta(msgspec.Struct):
    uid: str = ""
    ownerReferences: tuple[_Owner, ...] = ()  # noqa: N815  # wire name
    finalizers: tuple[str, ...] = ()
    deletionTimestamp: str | None = None  # noqa: N815  # wire name
    creationTimestamp: str = ""  # noqa: N815  # wire name
    managedFields: tuple[_Write, ...] = ()  # noqa: N815  # wire name


class _Object(msgspec.Struct):
    metadata: _Meta


class _PodSpec(msgspec.Struct):
    nodeName: str | None = None  # noqa: N815  # wire name


class _Pod(msgspec.Struct):
    spec: _PodSpec


_decoder, _pods = msgspec.json.Decoder(_Object), msgspec.json.Decoder(_Pod)


def _is_older(meta: _Meta, limit: datetime) -> bool:
    """Whether an object was last written before `limit`."""
    newest = max([meta.creationTimestamp, *(entry.time for entry in meta.managedFields)])
    return newest < stamp_of(limit)


class Collector:
    """Runs beside the server, from `start` to `stop`."""

    def __init__(
        self, store: Store, registry: Registry, writer: Writer, definitions: Definitions
    ) -> None:
        self._store, self._registry = store, registry
        self._writer, self._definitions = writer, definitions
        self._owners: dict[Key, tuple[_Owner, ...]] = {}
        self._dependents: dict[str, set[Key]] = {}  # by owner's uid
        self._work = Worklist("collector", self._handle, self._sweep)
        self._next_sweep = 0.0
        self._unlisten: Callable[[], None] = store.listen(self._on_event)

    def start(self) -> None:
        for resource in self._store.resources():
            for key, stored in self._store.scan(resource):
                self._note(key, stored.data)
        self._work.add(Key(CRD_RESOURCE, "", ""))
        self._work.start()

    async def stop(self) -> None:
        self._unlisten()
        await self._work.stop()

    # -- what to look at -----------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        if event.key.resource == CRD_RESOURCE:
            self._work.add(event.key)
        if event.type != "DELETED":
            self._note(event.key, event.data)
            return
        owners = self._owners.pop(event.key, ())
        for owner in owners:
            self._dependents.get(owner.uid, set()).discard(event.key)
            if owner_key := self._owner_key(owner, event.key.namespace):
                self._work.add(owner_key)
        uid = _decoder.decode(event.data).metadata.uid
        for dependent in self._dependents.pop(uid, set()):
            self._work.add(dependent)
        if event.key.namespace:
            self._work.add(Key("namespaces", "", event.key.namespace))
        self._work.add(Key(CRD_RESOURCE, "", event.key.resource))

    def _note(self, key: Key, data: bytes) -> None:
        if b'"ownerReferences"' in data or key in self._owners:
            owners = _decoder.decode(data).metadata.ownerReferences
            for owner in self._owners.pop(key, ()):
                self._dependents.get(owner.uid, set()).discard(key)
            if owners:
                self._owners[key] = owners
                for owner in owners:
                    self._dependents.setdefault(owner.uid, set()).add(key)
                self._work.add(key)
        if b'"deletionTimestamp"' in data:
            self._work.add(key)

    def _sweep(self, now: float) -> float:
        """Queue the Events that have grown old, and return when to do so again."""
        if now >= self._next_sweep:
            self._next_sweep = now + SWEEP.total_seconds()
            for key in self._old_events():
                self._work.add(key)
        return self._next_sweep

    # -- what to do ----------------------------------------------------------------------------

    async def _handle(self, key: Key) -> None:
        if key.resource == CRD_RESOURCE:
            await self._definitions.settle()  # steps that a full disk has prevented after a write
        stored = self._store.get(key)
        resource = self._registry.by_stored(key.resource)
        if stored is None or resource is None:
            return
        meta = _decoder.decode(stored.data).metadata
        if meta.deletionTimestamp is None:
            limit = datetime.now(UTC) - timedelta(hours=EVENT_HOURS)
            if key.resource == "events" and _is_older(meta, limit):
                await self._delete(resource, key, "Background")
            elif meta.ownerReferences:
                await self._judge_dependent(resource, key, meta)
            return
        if key.resource == "namespaces":
            await self._empty_namespace(resource, key)
        if key.resource == CRD_RESOURCE and CRD_CLEANUP in meta.finalizers:
            await self._empty_definition(resource, key)
        if ORPHAN in meta.finalizers:
            await self._orphan(resource, key, meta)
        elif FOREGROUND in meta.finalizers:
            await self._delete_dependents(resource, key, meta)

    async def _judge_dependent(self, resource: Resource, key: Key, meta: _Meta) -> None:
        """Delete an object when none of its owners is left; else drop the dead references."""
        gone = {o.uid for o in meta.ownerReferences if not self._exists(o, key.namespace)}
        if gone == {owner.uid for owner in meta.ownerReferences}:
            await self._delete(resource, key, "Background")
        elif gone:
            await self._disown(resource, key, gone)

    def _exists(self, owner: _Owner, namespace: str) -> bool:
        """Whether an owner exists; where that is unknown, it counts as existing.

        Nothing is known of kinds that are not served and of damaged objects, and a cluster-scoped
        object does not name its owner's namespace.
        """
        kind = self._registry.by_kind(owner.apiVersion, owner.kind)
        if kind is None or (kind.namespaced and not namespace):
            return True
        key = self._owner_key(owner, namespace)
        if key in self._store.damaged:
            return True
        stored = self._store.get(key) if key else None
        return stored is not None and _decoder.decode(stored.data).metadata.uid == owner.uid

    def _owner_key(self, owner: _Owner, namespace: str) -> Key | None:
        resource = self._registry.by_kind(owner.apiVersion, owner.kind)
        if resource is None:
            return None
        return Key(resource.stored, namespace if resource.namespaced else "", owner.name)

    async def _delete_dependents(self, resource: Resource, key: Key, meta: _Meta) -> None:
        """Foreground: the owner goes when the dependents that block it are gone."""
        for dependent in tuple(self._dependents.get(meta.uid, ())):
            others = [o for o in self._owners.get(dependent, ()) if o.uid != meta.uid]
            below = self._registry.by_stored(dependent.resource)
            if below is None:
                continue
            if any(self._exists(o, dependent.namespace) for o in others):
                await self._disown(below, dependent, {meta.uid})
            else:
                await self._delete(below, dependent, "Foreground")
        if not any(self._blocks(d, meta.uid) for d in self._dependents.get(meta.uid, ())):
            await self._release(resource, key, FOREGROUND)

    def _blocks(self, dependent: Key, uid: str) -> bool:
        return any(o.uid == uid and o.blockOwnerDeletion for o in self._owners.get(dependent, ()))

    async def _orphan(self, resource: Resource, key: Key, meta: _Meta) -> None:
        """Take the owner out of its dependents' references, then let it go."""
        for dependent in tuple(self._dependents.get(meta.uid, ())):
            below = self._registry.by_stored(dependent.resource)
            if below is not None:
                await self._disown(below, dependent, {meta.uid})
        await self._release(resource, key, ORPHAN)

    async def _disown(self, resource: Resource, key: Key, owners: Set[str]) -> None:
        """Take owners, by their uids, out of an object's references."""

        def forget(obj: JSONObject) -> JSONObject:
            held = list_at(obj, "metadata", "ownerReferences")
            left = [owner for owner in held if text_at(owner, "uid") not in owners]
            metadata(obj)["ownerReferences"] = left
            return obj

        await self._change(resource, key, forget)

    async def _empty_namespace(self, resource: Resource, key: Key) -> None:
        """Delete what is in a terminating namespace; when nothing is left, let it go."""
        left = False
        for below, held in tuple(self._contents(key.name)):
            left = True
            await self._delete(below, held, "Background")
        if left and any(self._contents(key.name)):
            return  # objects with finalizers come back here when they are removed
        if any(writing.namespace == key.name for writing in self._store.in_flight):
            asyncio.get_running_loop().call_soon(self._work.add, key)
            return

        def finalize(obj: JSONObject) -> JSONObject:
            object_at(obj, "spec").pop("finalizers", None)
            return obj

        await self._change(resource, key, finalize, "finalize")

    def _contents(self, namespace: str) -> Iterator[tuple[Resource, Key]]:
        for stored in self._store.resources():
            resource = self._registry.by_stored(stored)
            if resource is not None and resource.namespaced:
                for key, _ in self._store.scan(stored, namespace):
                    yield resource, key
        for key in tuple(self._store.damaged):
            resource = self._registry.by_stored(key.resource)
            if key.namespace == namespace and resource is not None:
                yield resource, key

    async def _empty_definition(self, resource: Resource, key: Key) -> None:
        """Delete the objects of a terminating definition, then let it go."""
        below = self._registry.by_stored(key.name)
        if below is not None:
            damaged = [held for held in self._store.damaged if held.resource == key.name]
            for held in (*damaged, *(held for held, _ in tuple(self._store.scan(key.name)))):
                await self._delete(below, held, "Background")
            if self._store.count(key.name):
                return
        if any(writing.resource == key.name for writing in self._store.in_flight):
            asyncio.get_running_loop().call_soon(self._work.add, key)
            return
        if below is not None:
            await self._judge_all_of(below)
        await self._release(resource, key, CRD_CLEANUP)
        await self._definitions.settle()  # its names are free

    async def _judge_all_of(self, owners: Resource) -> None:
        """Judge what objects of a kind own, before it is known no more and they count as there.

        Of those that went before it, too: this outlives a server that ends in between.
        """
        for dependent, references in tuple(self._owners.items()):
            kinds = {(owner.apiVersion.rpartition("/")[0], owner.kind) for owner in references}
            if (owners.group, owners.names.kind) not in kinds:
                continue
            stored, below = self._store.get(dependent), self._registry.by_stored(dependent.resource)
            if stored is None or below is None:
                continue
            meta = _decoder.decode(stored.data).metadata
            if meta.deletionTimestamp is None:  # else deleted already; it may own its namespace
                with contextlib.suppress(StatusError):  # reported when its turn comes
                    await self._judge_dependent(below, dependent, meta)

    def _old_events(self) -> Iterator[Key]:
        limit = datetime.now(UTC) - timedelta(hours=EVENT_HOURS)
        for key, stored in self._store.scan("events"):
            if _is_older(_decoder.decode(stored.data).metadata, limit):
                yield key

    # -- how -----------------------------------------------------------------------------------

    async def _delete(self, resource: Resource, key: Key, policy: str) -> None:
        grace = None if self._has_kubelet(key) else 0
        options = DeleteOptions(propagationPolicy=policy, gracePeriodSeconds=grace)
        with contextlib.suppress(NotFoundError):
            await self._writer.delete(Call.internal(resource, key, MANAGER), options)

    def _has_kubelet(self, key: Key) -> bool:
        """Whether an object is a pod that a kubelet ends; without its Node it has none.

        Source: kubernetes, pkg/controller/podgc (gcOrphaned).
        """
        stored = self._store.get(key) if key.resource == "pods" else None
        node = _pods.decode(stored.data).spec.nodeName if stored is not None else None
        return node is not None and self._store.get(Key("nodes", "", node)) is not None

    async def _release(self, resource: Resource, key: Key, finalizer: str) -> None:
        def release(obj: JSONObject) -> JSONObject:
            held = list_at(obj, "metadata", "finalizers")
            metadata(obj)["finalizers"] = [name for name in held if name != finalizer]
            return obj

        await self._change(resource, key, release)

    async def _change(
        self, resource: Resource, key: Key, change: Change, subresource: str = ""
    ) -> None:
        call = Call.internal(resource, key, MANAGER, subresource)
        with contextlib.suppress(NotFoundError):
            await self._writer.change(call, change)
