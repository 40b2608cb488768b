"""An API server that has one Hypervisor, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

from tests.unit.ha.signs import NODE

from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.runtime import Kube, ListResult


class Server(Kube):
    """Has the Hypervisor; `meanwhile` happens before its answer is read."""

    def __init__(self) -> None:
        self.reads = 0
        self.meanwhile: Callable[[], None] = lambda: None

    async def list(  # type: ignore[override]
        self, type_: type[Hypervisor], namespace: str | None = None, **options: object
    ) -> ListResult[Hypervisor]:
        self.reads += 1
        self.meanwhile()
        found = Hypervisor(metadata=ObjectMeta(name=NODE), spec=HypervisorSpec())
        return ListResult([found], "9", {})
