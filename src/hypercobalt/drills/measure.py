"""What a node agent does while a drill goes on: its writes, what it has counted, its memory."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.incident import IncidentType
from hypercobalt.drills.record import DrillError
from hypercobalt.lab import agents
from hypercobalt.lab.host import Host
from hypercobalt.runtime import Kube


class Writes:
    """Counts the writes of one Hypervisor, by whoever, while its context is open.

    Attributes:
        count: so far.
        errors: that its I/O errors were seen, at most in one incident.
        errors_seconds: from the first to the last of them.
    """

    def __init__(self, kube: Kube, name: str) -> None:
        self._kube, self._name = kube, name
        self.count = self.errors = 0
        self.errors_seconds = 0.0
        self._began = time.monotonic()
        self._task: asyncio.Task[None] | None = None

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._began

    async def __aenter__(self) -> Writes:
        stored = await self._kube.get(Hypervisor, self._name)
        if stored is None:
            raise DrillError(f"Hypervisor {self._name} is gone")
        self._began = time.monotonic()
        version = stored.metadata.resourceVersion or ""
        self._task = asyncio.create_task(self._watch(version), name="writes")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _watch(self, version: str) -> None:
        fields = f"metadata.name={self._name}"
        watching = self._kube.watch(Hypervisor, fields=fields, resource_version=version)
        async with watching as events:
            async for event in events:
                self.count += bool(event.key)
                self._look(event.object)

    def _look(self, stored: Hypervisor | None) -> None:
        for one in (stored.status.incidents or ()) if stored else ():
            count = one.count or 0
            if one.type == IncidentType.IO_ERROR and count > self.errors:
                self.errors = count
                if one.firstSeen and one.lastSeen:
                    self.errors_seconds = (one.lastSeen - one.firstSeen).total_seconds()


async def memory_kib(host: Host) -> int:
    """What the node agent of a host holds, shared pages counted in shares (PSS).

    Raises:
        LabError: the host is off.
    """
    shown = await host.run("systemctl", "show", "--value", "-p", "MainPID", agents.NODE_AGENT)
    text = await host.run("grep", "^Pss:", f"/proc/{shown.strip()}/smaps_rollup")
    return int(text.split()[1])
