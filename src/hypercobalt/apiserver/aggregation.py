"""Aggregated ClusterRoles: keep their rules those of the ClusterRoles that they select.

A client's write settles them before it is answered; a task does it after the server's own writes,
after a crash and when a write failed.

Source: kubernetes pkg/controller/clusterroleaggregation.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping

import msgspec

from hypercobalt.apiserver.access.rbac import CLUSTER_ROLES, GROUP
from hypercobalt.apiserver.errors import JSON, JSONObject, StatusError
from hypercobalt.apiserver.kinds.resources import Registry
from hypercobalt.apiserver.requests.request import Call
from hypercobalt.apiserver.requests.selectors import selector_of
from hypercobalt.apiserver.storage.objects import Event, Key
from hypercobalt.apiserver.storage.store import Store
from hypercobalt.apiserver.values import list_at, object_at, objects_at, text_at
from hypercobalt.apiserver.worklist import Worklist
from hypercobalt.apiserver.writing import Writer

MANAGER = "clusterrole-aggregation-controller"


def aggregated(role: JSONObject, roles: Iterable[JSONObject]) -> list[JSON]:
    """The rules that an aggregated ClusterRole has, of all `roles`, which are sorted by name."""
    found: list[JSON] = []
    others = [other for other in roles if _name(other) != _name(role)]
    for selector in objects_at(role, "aggregationRule", "clusterRoleSelectors"):
        for other in others:
            if _selects(selector, object_at(other, "metadata", "labels")):
                found += [rule for rule in list_at(other, "rules") if rule not in found]
    return found


def _name(role: JSONObject) -> str:
    return text_at(role, "metadata", "name")


def _selects(selector: JSONObject, labels: Mapping[str, JSON]) -> bool:
    plain = {key: str(value) for key, value in labels.items()}
    return selector_of(selector).matches(plain)


class Aggregation:
    """Writes the rules of aggregated ClusterRoles."""

    def __init__(self, store: Store, registry: Registry, writer: Writer) -> None:
        self._store, self._registry, self._writer = store, registry, writer
        self._stale = True  # at the start: a crash may have come between two writes
        self._settling = asyncio.Lock()
        self._work = Worklist[str]("aggregation", lambda _: self.settle(), lambda _: None)
        store.listen(self._on_event)

    def _on_event(self, event: Event) -> None:
        if event.key.resource == CLUSTER_ROLES:
            self._stale = True
            self._work.add(CLUSTER_ROLES)

    def start(self) -> None:
        self._work.add(CLUSTER_ROLES)
        self._work.start()

    async def stop(self) -> None:
        await self._work.stop()

    async def settle(self) -> None:
        """Write every aggregated role that has not the rules it should have.

        Raises:
            StoreError: it could not be written; the next call goes on.
        """
        resource = self._registry.find(GROUP, "v1", "clusterroles")
        async with self._settling:
            while self._stale and resource is not None:
                self._stale = False
                try:
                    for key, rules in self._due():
                        await self._write(Call.internal(resource, key, MANAGER), rules)
                except BaseException:
                    self._stale = True
                    raise

    async def _write(self, call: Call, rules: list[JSON]) -> None:
        with contextlib.suppress(StatusError):  # it went in the meantime
            await self._writer.change(call, lambda obj: {**obj, "rules": rules})

    def _due(self) -> list[tuple[Key, list[JSON]]]:
        held: dict[Key, JSONObject] = {
            key: msgspec.json.decode(stored.data) for key, stored in self._store.scan(CLUSTER_ROLES)
        }
        wanted = {
            key: aggregated(role, held.values())
            for key, role in held.items()
            if list_at(role, "aggregationRule", "clusterRoleSelectors")
        }
        return [(k, rules) for k, rules in wanted.items() if rules != list_at(held[k], "rules")]
