"""Finalizers: which objects get one, and the cached object afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import pytest
from msgspec.structs import replace
from tests.unit.operator.samples import NOW, hypervisor

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.runtime import Kube
from hypercobalt.runtime.finalizer import Finalizer
from hypercobalt.runtime.write_cache import WriteCache

OURS, OTHERS = "example.com/ours", "example.com/others"


@dataclass
class Server:
    """The API server, and the controllers' cache of it."""

    stored: Hypervisor | None
    known: list[Hypervisor | None] = field(default_factory=list[Hypervisor | None])

    async def modify(
        self, _type: type, _name: str, decide: Callable[[Hypervisor], Hypervisor], _where: None
    ) -> Hypervisor | None:
        self.stored = decide(self.stored) if self.stored else None
        return self.stored

    def turn(self, _name: str, _namespace: str) -> asyncio.Lock:
        return asyncio.Lock()

    def wrote(self, obj: Hypervisor) -> Hypervisor:
        self.known.append(obj)
        return obj

    def missing(self, _obj: Hypervisor) -> None:
        self.known.append(None)


def host(*finalizers: str, uid: str = "1", deleted: bool = False) -> Hypervisor:
    found = hypervisor()
    gone = NOW if deleted else None
    meta = replace(found.metadata, uid=uid, finalizers=finalizers, deletionTimestamp=gone)
    return replace(found, metadata=meta)


def finalizer(server: Server) -> Finalizer[Hypervisor]:
    return Finalizer(OURS, cast("Kube", server), cast("WriteCache[Hypervisor]", server))


async def test_finalizer_is_added_beside_those_of_others() -> None:
    server = Server(host(OTHERS))
    written = await finalizer(server).add(host())
    assert written == server.stored == host(OTHERS, OURS)
    assert server.known == [written]


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(None, id="gone"),
        pytest.param(host(OTHERS, deleted=True), id="being deleted"),
        pytest.param(host(uid="2"), id="another of the same name"),
    ],
)
async def test_finalizer_is_not_added_to_a_deleted_or_replaced_object(
    stored: Hypervisor | None,
) -> None:
    server = Server(stored)
    assert await finalizer(server).add(host()) is None
    assert server.stored == stored
    assert server.known == []


@pytest.mark.parametrize(
    ("stored", "left", "known"),
    [
        pytest.param(host(OTHERS, OURS), host(OTHERS), host(OTHERS), id="in use"),
        pytest.param(
            host(OURS, deleted=True), host(deleted=True), None, id="the last of a deleted"
        ),
        pytest.param(
            host(OTHERS, OURS, deleted=True),
            host(OTHERS, deleted=True),
            host(OTHERS, deleted=True),
            id="a deleted one that others hold",
        ),
        pytest.param(None, None, None, id="gone"),
        pytest.param(host(OURS, uid="2"), host(OURS, uid="2"), None, id="another of its name"),
    ],
)
async def test_finalizer_is_removed_from_the_very_object(
    stored: Hypervisor | None, left: Hypervisor | None, known: Hypervisor | None
) -> None:
    server = Server(stored)
    await finalizer(server).remove(host(OURS))
    assert (server.stored, server.known) == (left, [known])
