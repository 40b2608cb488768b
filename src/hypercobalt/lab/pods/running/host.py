"""What this host has of its pods, and what is done to that: units, networks, directories.

Everything is read from the host at each pass, so a process that has just started goes on where the
last one was. A unit is kept until its end has been reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress
from datetime import timedelta
from typing import Final

from hypercobalt.adapters.host.port import HostError, TransientUnits
from hypercobalt.adapters.host.transient_model import UnitExistsError, UnitRun
from hypercobalt.adapters.network.model import NetworkError
from hypercobalt.adapters.network.port import PodNetworks
from hypercobalt.errors import TransientError
from hypercobalt.lab.pods.running.directories import PodDirectories
from hypercobalt.lab.pods.running.launch import Launch
from hypercobalt.lab.pods.running.settings import RunningSettings
from hypercobalt.lab.pods.running.unit import PREFIX, pod_unit, uid_of, unit_name
from hypercobalt.logs import get_logger
from hypercobalt.runtime.tasks import beside, first

log = get_logger(__name__)

_SHOWN: Final = timedelta(seconds=10)
_AGAIN_SECONDS: Final = 1.0


class PodHost:
    """The pods of this host.

    Args:
        units: systemd's.
        networks: of the pods.
        directories: of pods and images.
        settings: of this host.
        changed: called with the UID of a pod that may have changed here.
    """

    def __init__(
        self,
        units: TransientUnits,
        networks: PodNetworks,
        directories: PodDirectories,
        settings: RunningSettings,
        changed: Callable[[str], None],
    ) -> None:
        self._units, self._networks = units, networks
        self.directories, self._settings, self._changed = directories, settings, changed
        self._runs: dict[str, UnitRun] = {}
        self._stopped: set[str] = set()
        self._seen, self._news = asyncio.Event(), asyncio.Condition()

    async def follow(self, stop: asyncio.Event) -> None:
        """Keep the state of the units, and report each change; until `stop`.

        What ends it otherwise is raised: who follows no unit sees no pod end.
        """
        async with beside(self._report_all(), name="pods"):
            await first(stop.wait(), self._follow())

    async def _follow(self) -> None:
        async for found in self._units.watch(PREFIX):
            if isinstance(found, HostError):
                log.warning("units_not_read", error=str(found))
                continue
            runs = {uid_of(one.name): one for one in found}
            known = self._runs
            async with self._news:
                self._runs = runs
                self._news.notify_all()
            self._seen.set()
            for uid in {*known, *runs}:
                if known.get(uid) != runs.get(uid):
                    self._changed(uid)

    async def _report_all(self) -> None:
        """Report all pods once, also those that are gone for API server and systemd."""
        await self._seen.wait()
        while True:
            try:
                for uid in await self.uids():
                    self._changed(uid)
            except (NetworkError, OSError) as error:
                log.warning("pods_not_listed", error=str(error))
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                return

    async def uids(self) -> frozenset[str]:
        """UIDs of all pods of which there is anything."""
        return self.directories.uids() | self._runs.keys() | await self._networks.uids()

    async def run_of(self, uid: str) -> UnitRun | None:
        """The unit of a pod, or how it has ended; None if there is none.

        Raises:
            TransientError: the pod was begun, and systemd does not answer whether it still is.
        """
        await self._seen.wait()
        known = self._runs.get(uid)
        if known is not None or not self.directories.begun(uid):
            return known
        return await self._unit(uid)

    async def _unit(self, uid: str) -> UnitRun | None:
        """The unit of a pod, past the watch: one that it shows late would count as lost."""
        name = unit_name(uid)
        async with aclosing(self._units.watch(name.removesuffix(".service"))) as shown:
            async for found in shown:
                if isinstance(found, HostError):
                    raise found
                return next((one for one in found if one.name == name), None)
        return None

    def stopping(self, uid: str) -> bool:
        """Whether this process has sent a pod SIGTERM."""
        return uid in self._stopped

    async def ip(self, uid: str) -> str:
        """Address of a pod; "" without one."""
        network = await self._networks.find(uid)
        return network.ip if network is not None else ""

    async def has(self, uid: str) -> bool:
        """Whether there is anything of a pod."""
        return uid in await self.uids()

    async def start(self, launch: Launch) -> None:
        """Start a pod.

        Raises:
            TransientError: something of it cannot be made now.
        """
        network = await self._networks.attach(launch.uid)
        try:
            await asyncio.to_thread(self.directories.make, launch)
        except OSError as error:
            raise TransientError(f"directories of pod {launch.uid}: {error}") from error
        unit = pod_unit(launch, self.directories, self._settings, network.namespace)
        with suppress(UnitExistsError):  # by the process before this one
            await self._units.start(unit)
        await self._shown(launch.uid)

    async def _shown(self, uid: str) -> None:
        """Wait until the unit of a pod is known: without it the pod would count as lost."""
        try:
            async with asyncio.timeout(_SHOWN.total_seconds()), self._news:
                await self._news.wait_for(lambda: uid in self._runs)
        except TimeoutError:
            raise TransientError(f"systemd does not report unit {unit_name(uid)}") from None

    async def kill(self, uid: str) -> None:
        """Kill everything of a pod.

        Raises:
            TransientError: systemd does not answer.
        """
        await self._units.kill(unit_name(uid))

    async def stop(self, uid: str) -> None:
        """End a pod: send SIGTERM to its first process.

        Raises:
            TransientError: systemd does not answer.
        """
        await self._units.reload(unit_name(uid))
        self._stopped.add(uid)

    async def clear(self, uid: str) -> None:
        """Remove unit, network and directories of a pod that has ended.

        Raises:
            TransientError: something does not go now.
        """
        await self._units.remove(unit_name(uid))
        await self._networks.detach(uid)
        try:
            await asyncio.to_thread(self.directories.remove, uid)
        except OSError as error:
            raise TransientError(f"directories of pod {uid}: {error}") from error
        self._stopped.discard(uid)
