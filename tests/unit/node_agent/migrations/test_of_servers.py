"""Migrations that others have made of a server, in any number and size."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import TypeVar

from msgspec.structs import replace

from hypercobalt.api.meta import Object, ObjectMeta, OwnerReference
from hypercobalt.api.migration import SERVER, Migration, MigrationSpec, MigrationStatus
from hypercobalt.node_agent.migrations.of_servers import of_servers
from hypercobalt.runtime import Kube
from hypercobalt.runtime.client.collection import Page

T = TypeVar("T", bound=Object)

A, B = "11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"
STARTED = datetime(2026, 1, 1, tzinfo=UTC)
SHORT = MigrationStatus(origin="kvm-x", type="unbounded", started=STARTED, timeElapsed="1s")


class Stored(Kube):
    """An API server that has many Migrations of some servers."""

    def __init__(self, **count: int) -> None:
        self._all = [migration(server, n) for server, most in count.items() for n in range(most)]
        self.largest = self.read = 0

    async def pages(  # type: ignore[override]
        self, type_: type[T], namespace: str | None = None, *, labels: str = "", limit: int
    ) -> AsyncGenerator[Page[Migration]]:
        assert (type_, namespace) == (Migration, "monsoon3")
        found = [one for one in self._all if one.metadata.labels[SERVER] in labels]
        for first in range(0, len(found), limit) or (0,):
            page = found[first : first + limit]
            self.largest, self.read = max(self.largest, len(page)), self.read + len(page)
            yield Page(page, "9", "more" if first + limit < len(found) else "", {})


def migration(server: str, number: int) -> Migration:
    meta = ObjectMeta(
        name=f"{server}-{number}",
        namespace="monsoon3",
        labels={SERVER: server},
        creationTimestamp=STARTED,
        ownerReferences=tuple(OwnerReference("v1", "Hypervisor", "x", str(n)) for n in range(9)),
    )
    return Migration(metadata=meta, spec=MigrationSpec(), status=replace(SHORT, errMsg="x" * 999))


async def test_no_large_part_of_an_object_is_kept() -> None:
    kube = Stored(**{A: 9})
    (one, *_), none = (found := await of_servers(kube, "monsoon3", [A, B]))[A], found[B]
    meta = ObjectMeta(name=f"{A}-0", namespace="monsoon3", creationTimestamp=STARTED)
    assert one == Migration(metadata=meta, spec=MigrationSpec(), status=SHORT)
    assert (none, len(found[A]), kube.largest) == ([], 9, 4)


async def test_of_very_many_objects_some_are_read_and_those_of_other_servers_all() -> None:
    kube = Stored(**{A: 5000, B: 9})
    found = await of_servers(kube, "monsoon3", [A, B])
    assert (len(found[A]), len(found[B]), kube.read) == (256, 9, 2 * 256 + 9)


async def test_as_many_as_may_be_read_are_read_together() -> None:
    kube = Stored(**{A: 247, B: 9})
    found = await of_servers(kube, "monsoon3", [A, B])
    assert (len(found[A]), len(found[B]), kube.read) == (247, 9, 256)
