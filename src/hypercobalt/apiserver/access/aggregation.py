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
from hypercobalt.apiserver.kinds.resources import Registry
from hypercobalt.apiserver.requests.request import Call
from hypercobalt.apiserver.requests.selectors import selector_of
from hypercobalt.apiserver.status import JSON, JSONObject, StatusError
from hypercobalt.apiserver.storage.objects import Event, Key, StoreError
from hypercobalt.apiserver.storage.store import Store
from hypercobalt.apiserver.values import list_at, object_at, objects_at, text_at
from hypercobalt.apiserver.writing import Writer
from hypercobalt.logs import get_logger

log = get_logger(__name__)

RETRY_SECONDS = 1.0  # after a full disk
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
        self._wake = asyncio.Event()
        self._wake.set()
        self._task: asyncio.Task[None] | None = None
        store.listen(self._on_event)

    def _on_event(self, event: Event) -> None:
        if event.key.resource == CLUSTER_ROLES:
            self._stale = True
            self._wake.set()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="aggregation")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self.settle()
            except StoreError as error:
                log.warning("aggregated_roles_not_written", reason=str(error))
                asyncio.get_running_loop().call_later(RETRY_SECONDS, self._wake.set)

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
