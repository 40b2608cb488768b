"""The steps of the operator, over a compute service in memory and a cluster without objects."""

from __future__ import annotations

import asyncio
from typing import cast

from tests.unit.operator.lifecycle.pods import launcher_pods
from tests.unit.operator.samples import NOW

from hypercobalt.api.core import Node
from hypercobalt.api.eviction import Eviction
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import Object
from hypercobalt.compute.fake import FakeCompute
from hypercobalt.operator.lifecycle.assembly import steps_after_registration
from hypercobalt.operator.lifecycle.evictions import Evictions
from hypercobalt.operator.lifecycle.ha_enabled import FencingReadiness
from hypercobalt.operator.lifecycle.registration import Registration
from hypercobalt.operator.lifecycle.settings import LifecycleSettings
from hypercobalt.operator.lifecycle.step import LifecycleStep
from hypercobalt.runtime import Cache, Kube, NotFoundError, Recorder
from hypercobalt.runtime.client.errors import Status
from hypercobalt.runtime.write_cache import WriteCache

COPIED = ("topology.kubernetes.io/region",)


class Empty:
    """An API server that has nothing, and takes every write; also what controllers share of it."""

    def as_manager(self, _name: str) -> Empty:
        return self

    def turn(self, _name: str) -> asyncio.Lock:
        return asyncio.Lock()

    def get(self, *_about: object) -> None:
        return None

    async def list(self, *_about: object, **_more: object) -> None:
        raise NotFoundError("there is no such kind", Status(code=404))

    async def create(self, obj: Object) -> Object:
        return obj

    async def apply(self, obj: Object, **_how: object) -> Object:
        return obj

    def added(self, obj: Object) -> Object:
        return obj

    wrote = added

    def record(self, *_about: object, **_more: object) -> None:
        """Events are not looked at."""


def steps(compute: FakeCompute | None = None, *probes: str) -> tuple[LifecycleStep, ...]:
    """All steps, registration first."""
    none, service = Empty(), compute or FakeCompute(lambda: NOW)
    return (
        Registration(service, lambda _: (), cast("Recorder", none)),
        *steps_after_registration(
            cast("Kube", none),
            service,
            nodes=cast("Cache[Node]", none),
            hypervisors=cast("WriteCache[Hypervisor]", none),
            evictions=Evictions(cast("WriteCache[Eviction]", none), lambda _: ()),
            settings=LifecycleSettings(storage_probes=probes),
            labels=COPIED,
            launchers=launcher_pods(),
            fencing=FencingReadiness(lambda _: "", ()),
        ),
    )
