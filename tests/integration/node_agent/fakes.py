"""A libvirt whose domains and faults a test orders."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime

from hypercobalt.adapters.libvirt.model import (
    Connected,
    Disconnected,
    Domain,
    DomainCapabilities,
    DomainEvent,
    DomainState,
    DomainStats,
    EventKind,
    HostCapabilities,
    HostCell,
    JobStats,
    Lifecycle,
    Notice,
    Versions,
)
from hypercobalt.adapters.libvirt.port import LibvirtError

GIB = 1024**3
VERSIONS = Versions("9.0.0", "7.2.22")
HOST = HostCapabilities("x86_64", (HostCell(0, 32 * GIB, frozenset(range(8)), 8),))


class ScriptedLibvirt:
    """Port `Libvirt`; starts connected, with no domain."""

    def __init__(self, *, connected: bool = True) -> None:
        self.by_uuid: dict[str, Domain] = {}
        self.jobs: dict[str, JobStats] = {}
        self.completed: dict[str, JobStats] = {}
        self.failing: str | None = None
        self.calls: list[str] = []
        self.counters: tuple[DomainStats, ...] = ()
        self._link: Connected | Disconnected = (
            Connected(VERSIONS) if connected else Disconnected("connection refused")
        )
        self._notices: asyncio.Queue[Notice] = asyncio.Queue()

    async def notices(self) -> AsyncGenerator[Notice]:
        yield self._link
        while True:
            yield await self._notices.get()

    async def capabilities(self) -> HostCapabilities:
        self._answer("capabilities")
        return HOST

    async def domain_capabilities(self) -> DomainCapabilities:
        self._answer("domain_capabilities")
        return DomainCapabilities("x86_64", "kvm", ("video",), ("mode/host-model",), ())

    async def domains(self) -> tuple[Domain, ...]:
        self._answer("domains")
        return tuple(sorted(self.by_uuid.values(), key=lambda d: (not d.active, d.name)))

    async def job_stats(self, uuid: str, *, completed: bool = False) -> JobStats | None:
        self._answer("job_stats")
        if uuid not in self.by_uuid:
            return None
        return (self.completed if completed else self.jobs).get(uuid)

    async def stats(self) -> tuple[DomainStats, ...]:
        self._answer("stats")
        return self.counters

    def _answer(self, call: str) -> None:
        self.calls.append(call)
        if isinstance(self._link, Disconnected):
            raise LibvirtError(f"{call}: {self._link.reason}")
        if self.failing:
            raise LibvirtError(f"{call}: {self.failing}")

    def lose(self, reason: str = "connection reset") -> None:
        self._link = Disconnected(reason)
        self._notices.put_nowait(self._link)

    def come_back(self, *missing: str) -> None:
        self._link = Connected(VERSIONS, missing)
        self._notices.put_nowait(self._link)

    def start(
        self, uuid: str, name: str = "", *, detail: int = 0, memory_bytes: int = 0, vcpus: int = 1
    ) -> None:
        self.by_uuid[uuid] = Domain(
            uuid, name or uuid, True, DomainState.RUNNING, memory_bytes, vcpus
        )
        self.lifecycle(uuid, Lifecycle.STARTED, detail)

    def stop(self, uuid: str, *, detail: int = 0) -> None:
        """A transient domain stops, and is gone."""
        name = self.by_uuid.pop(uuid).name
        self.jobs.pop(uuid, None)
        self.lifecycle(uuid, Lifecycle.STOPPED, detail, name=name)

    def lifecycle(self, uuid: str, type_: Lifecycle, detail: int = 0, *, name: str = "") -> None:
        self.tell(uuid, EventKind.LIFECYCLE, type_=type_, detail=detail, name=name)

    def tell(
        self,
        uuid: str,
        kind: EventKind,
        *,
        type_: int = 0,
        detail: int = 0,
        name: str = "",
        stats: JobStats | None = None,
    ) -> None:
        at = datetime.now(UTC)
        event = DomainEvent(kind, uuid, name or uuid, at, type_, detail, stats=stats)
        self._notices.put_nowait(event)
