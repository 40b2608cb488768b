"""An API server in memory, as far as the recoveries of a host call it."""

from __future__ import annotations

from collections.abc import Callable

from tests.unit.ha.signs import NODE

from hypercobalt.api.eviction import Eviction
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.migration import Migration
from hypercobalt.runtime import AlreadyExistsError, Kube, ListResult
from hypercobalt.runtime.client.errors import Status


class Server(Kube):
    """Has the Hypervisor of the host and its Evictions; `meanwhile` happens before each answer.

    Attributes:
        reads: of the Hypervisor.
        spec: of the Hypervisor.
        status: of the Hypervisor.
        evictions: by name.
        refusals: of creations, by name.
        migrations: of any instance, and those that cannot be read.
    """

    def __init__(self) -> None:
        self.reads, self.spec, self.status = 0, HypervisorSpec(), HypervisorStatus()
        self.evictions: dict[str, Eviction] = {}
        self.refusals: dict[str, Exception] = {}
        self.migrations: ListResult[Migration] = ListResult([], "9", {})
        self.meanwhile: Callable[[], None] = lambda: None

    async def list(  # type: ignore[override]
        self, type_: type[Hypervisor | Migration], namespace: str | None = None, **options: object
    ) -> ListResult[Hypervisor] | ListResult[Migration]:
        if type_ is Migration:
            return self.migrations
        self.reads += 1
        self.meanwhile()
        meta = ObjectMeta(name=NODE, uid="u")
        found = Hypervisor(metadata=meta, spec=self.spec, status=self.status)
        return ListResult([found], "9", {})

    async def get(  # type: ignore[override]
        self, type_: type[Eviction], name: str, namespace: str | None = None
    ) -> Eviction | None:
        return self.evictions.get(name)

    async def create(self, obj: Eviction) -> Eviction:  # type: ignore[override]
        self.meanwhile()
        if refusal := self.refusals.get(obj.metadata.name):
            raise refusal
        if obj.metadata.name in self.evictions:
            raise AlreadyExistsError(f"create {obj.metadata.name}", Status(code=409))
        self.evictions[obj.metadata.name] = obj
        return obj

    async def delete(  # type: ignore[override]
        self, type_: type[Eviction], name: str, **options: object
    ) -> None:
        del self.evictions[name]
