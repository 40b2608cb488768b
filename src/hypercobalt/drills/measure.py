"""Measures a node agent during a drill: its writes, its counters, its memory."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.incident import IncidentType
from hypercobalt.drills.stage import Stage
from hypercobalt.lab import agents
from hypercobalt.lab.host import Host
from hypercobalt.runtime import Kube
from hypercobalt.runtime.tasks import beside


@asynccontextmanager
async def writes(stage: Stage, host: str) -> AsyncGenerator[Writes]:
    """Count all writes of a host's Hypervisor until the block is left.

    Raises:
        DrillError: there is none.
    """
    version = (await stage.hypervisor(host)).metadata.resourceVersion
    counted = Writes()
    async with beside(counted.watch(stage.kube, host, version), name="writes"):
        yield counted


class Writes:
    """Writes of one Hypervisor.

    Attributes:
        count: so far.
        errors: that its I/O errors were seen, at most in one incident.
        errors_seconds: from the first to the last of them.
    """

    def __init__(self) -> None:
        self.count = self.errors = 0
        self.errors_seconds = 0.0
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._began

    async def watch(self, kube: Kube, host: str, version: str) -> None:
        """Count what is written after that version, until cancelled."""
        fields = f"metadata.name={host}"
        async with kube.watch(Hypervisor, fields=fields, resource_version=version) as events:
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
