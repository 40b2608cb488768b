"""What a node agent costs while a drill goes on: writes, events, memory."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress
from typing import Final

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.drills.record import DrillError
from hypercobalt.lab import agents
from hypercobalt.lab.host import Host
from hypercobalt.runtime import Kube

_METRIC: Final = "ha_events_total{"
_READ: Final = (
    "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9177/metrics').read().decode())"
)


class Writes:
    """Counts the writes of one Hypervisor, by whoever, while its context is open.

    Attributes:
        count: so far.
    """

    def __init__(self, kube: Kube, name: str) -> None:
        self._kube, self._name = kube, name
        self.count = 0
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


async def events(host: Host) -> int:
    """How many events of libvirt the node agent of a host has judged.

    Raises:
        LabError: the host is off, or the agent does not answer.
    """
    text = await host.run(sys.executable, "-c", _READ)
    lines = (line for line in text.splitlines() if _METRIC in line)
    return int(sum(float(line.rsplit(" ", 1)[1]) for line in lines))


async def memory_kib(host: Host) -> int:
    """What the node agent of a host holds, shared pages counted in shares (PSS).

    Raises:
        LabError: the host is off.
    """
    shown = await host.run("systemctl", "show", "--value", "-p", "MainPID", agents.NODE_AGENT)
    text = await host.run("grep", "^Pss:", f"/proc/{shown.strip()}/smaps_rollup")
    return int(text.split()[1])
