"""An API server in memory, as far as the recoveries of a host ask it."""

from __future__ import annotations

from collections.abc import Callable

from tests.unit.ha.signs import NODE

from hypercobalt.api.eviction import Eviction
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.migration import Migration
from hypercobalt.runtime import Kube, ListResult


class Server(Kube):
    """Has the Hypervisor of the host and its Evictions; `meanwhile` happens before each answer.

    Attributes:
        reads: of the Hypervisor.
        evictions: by name.
    """

    def __init__(self) -> None:
        self.reads = 0
        self.evictions: dict[str, Eviction] = {}
        self.meanwhile: Callable[[], None] = lambda: None

    async def list(  # type: ignore[override]
        self, type_: type[Hypervisor | Migration], namespace: str | None = None, **options: object
    ) -> ListResult[Hypervisor]:
        if type_ is Migration:
            return ListResult([], "9", {})
        self.reads += 1
        self.meanwhile()
        found = Hypervisor(metadata=ObjectMeta(name=NODE, uid="u"), spec=HypervisorSpec())
        return ListResult([found], "9", {})

    async def get(  # type: ignore[override]
        self, type_: type[Eviction], name: str, namespace: str | None = None
    ) -> Eviction | None:
        return self.evictions.get(name)

    async def create(self, obj: Eviction) -> Eviction:  # type: ignore[override]
        self.meanwhile()
        self.evictions[obj.metadata.name] = obj
        return obj

    async def delete(  # type: ignore[override]
        self, type_: type[Eviction], name: str, **options: object
    ) -> None:
        del self.evictions[name]
