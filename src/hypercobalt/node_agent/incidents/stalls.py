"""Detects storage that hangs without an error, for which libvirt sends no event.

libvirt counts completed requests of disks, not outstanding ones, so an instance whose disk hangs
looks idle. So the agent reads a block of its disk, past the cache: if that read hangs too, the
storage hangs. A storage that hangs has one read, however many instances are on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from hypercobalt.adapters.libvirt.model import Disk
from hypercobalt.ha.incidents.cases import InstanceRecord
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.pools import pool_of
from hypercobalt.ha.incidents.shared_storage import STALLED, stalled
from hypercobalt.ha.incidents.signals import EventType
from hypercobalt.node_agent.incidents.storage import Storage
from hypercobalt.node_agent.incidents.store import Store
from hypercobalt.runtime import Clock


class Stalls:
    """Reads for instances whose disks are quiet.

    Args:
        storage: tries disks.
        store: has the host's incidents.
        config: returns the configuration, with whether I/O errors are monitored.
    """

    def __init__(
        self, storage: Storage, store: Store, *, clock: Clock, config: Callable[[], HaConfig]
    ) -> None:
        self._storage, self._store = storage, store
        self._clock, self._config = clock, config
        self._silent: dict[str, str] = {}
        """The disk whose read hangs, by storage that does not answer."""

    async def look(self, instance: InstanceRecord, disks: Sequence[Disk], quiet: timedelta) -> None:
        """Report the storage of an instance without recent I/O, if the storage hangs.

        Args:
            instance: a running one.
            disks: of the instance, as listed last.
            quiet: how long the disks have neither read nor written.
        """
        if quiet < STALLED or not self._config().event(EventType.IO_ERROR).monitored:
            return
        for path in dict.fromkeys(disk.path for disk in disks if disk.path.startswith("/")):
            if await self._is_silent(path):
                name, now = instance.name or instance.uuid, self._clock.now()
                self._store.put(stalled(self._store.host, path, name, now))
                return

    async def _is_silent(self, path: str) -> bool:
        pool = pool_of(path)
        tried = self._silent.get(pool, path)
        seconds = await self._storage.silent(tried)
        if not seconds:
            self._silent.pop(pool, None)
            return False
        self._silent[pool] = tried
        return seconds >= STALLED.total_seconds()
