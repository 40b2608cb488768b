"""Finds out whether two hosts see the same directory: a file made on one shows on the other or not.

So no copy is ever written over the file it is made from. Nova's libvirt driver does the same.

Paths come from definitions, which are hostile input: a host is queried only about directories below
the site's roots. libvirt opens every file of a directory that it is queried about, with all effects
of that in `/dev`. The mark counts only under the name from the host's Hypervisor: another host's
mark, which every host sees on shared storage, proves nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import posixpath
import uuid
from collections.abc import Iterable
from datetime import timedelta
from typing import Final, TypeAlias

from hypercobalt.adapters.libvirt.documents.portable.paths import is_below
from hypercobalt.adapters.libvirt.model import Disk, Domain
from hypercobalt.adapters.libvirt.port import Daemon, Daemons, LibvirtError, LibvirtRefusedError
from hypercobalt.compute.direct.definitions import Stored
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.identity import daemon_of
from hypercobalt.compute.direct.obstacles import layers
from hypercobalt.errors import TransientError
from hypercobalt.runtime import Clock

_KEPT: Final = timedelta(minutes=10)
_JUST_NOW: Final = timedelta(seconds=10)
"""Time for which a directory that a dead host shared is not read again for its next disk."""


_LEARNT_WITHIN: Final = 10.0
"""Seconds that a host may take for all directories of a dead one, as for any call: each pass of a
recovery waits for all hosts. What it has not read then is open."""
_DENIED_BY: Final = 2
"""Hosts that deny that they see a disk, before it counts as local: one of them may be captured."""

_Key: TypeAlias = tuple[str, frozenset[str]]
"""A directory or medium, and the names of the two hosts."""


class Sharing:
    """Knowledge of the shared directories, read when a move needs it.

    Args:
        stored: the marks that the hosts' agents have left in the directories of their disks.
        roots: directories below which a host may be queried about files.
    """

    def __init__(
        self, daemons: Daemons, clock: Clock, stored: Stored, roots: tuple[str, ...]
    ) -> None:
        self._daemons, self._clock, self._stored = daemons, clock, stored
        self._roots = roots
        self._known: dict[_Key, tuple[float, bool]] = {}

    async def learn(self, domains: Iterable[Domain], here: Place, others: Iterable[Place]) -> None:
        """Read all disks of some domains, with the first other hosts that answer.

        That a host sees no file is its own word; a disk is local by that of two.
        """
        disks, targets = [disk for domain in domains for disk in files(domain)], tuple(others)
        for disk in {_subject(disk): disk for disk in disks}.values():
            denied = 0
            for other in targets:
                try:
                    is_shared = await self.shares(disk, here, other)
                except LibvirtError:
                    continue
                denied += not is_shared
                if is_shared or denied == _DENIED_BY:
                    break

    async def learn_dead(
        self, domains: Iterable[Domain], mark: str, dead: Place, others: Iterable[Place]
    ) -> None:
        """Read all disks of domains of a dead host, with the hosts that answer.

        A directory is read once with each host, as libvirt then reads every file in it. Whether the
        file of each disk is there as well is checked right before the domain is started.

        Args:
            domains: domains of the dead host.
            mark: name of the file that the host has left in the directories of their disks.
            dead: the dead host.
            others: hosts that are read.
        """
        disks = {_subject(disk): disk for domain in domains for disk in files(domain)}
        async with asyncio.TaskGroup() as tasks:
            for other in others:
                tasks.create_task(self._learn_dead_in_time(disks.values(), mark, dead, other))

    async def _learn_dead_in_time(
        self, disks: Iterable[Disk], mark: str, dead: Place, there: Place
    ) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEARNT_WITHIN):
                await self._learn_dead(disks, mark, dead, there)

    async def _learn_dead(
        self, disks: Iterable[Disk], mark: str, dead: Place, there: Place
    ) -> None:
        for disk in disks:
            key = _key(disk, dead, there)
            checked_at, shared = self._known.get(key, (0.0, False))
            if shared and self._clock.monotonic() - checked_at < _KEPT.total_seconds():
                continue
            try:
                found = await self._sees(disk, _proven(mark, dead), there)
            except LibvirtError:
                return  # it does not answer
            self._known[key] = (self._clock.monotonic(), found)

    async def _sees(self, disk: Disk, mark: str, there: Place) -> bool:
        """Whether a host sees a medium, or the directory of a disk by the mark in it."""
        if not is_below(disk.path, self._roots):
            return False
        directory, name = posixpath.split(disk.path)
        if not _is_medium(disk):
            name = mark
        return bool(name) and await daemon_of(self._daemons, there).has_file(directory, name)

    async def shared_with_dead(self, disk: Disk, mark: str, dead: Place, there: Place) -> bool:
        """Whether a host sees the file of a disk of a dead host, in the same directory.

        Raises:
            LibvirtError: the host does not answer.
        """
        if not is_below(disk.path, self._roots):
            return False
        daemon, mark = daemon_of(self._daemons, there), _proven(mark, dead)
        directory, name = posixpath.split(disk.path)
        found = await daemon.has_file(directory, name)
        key = _key(disk, dead, there)
        if found and not _is_medium(disk):
            checked_at, shared = self._known.get(key, (0.0, False))
            if shared and self._clock.monotonic() - checked_at < _JUST_NOW.total_seconds():
                return True
            found = bool(mark) and await daemon.has_file(directory, mark)
        self._known[key] = (self._clock.monotonic(), found)
        return found

    def is_open(self, disk: Disk, dead: Place, others: Iterable[Place]) -> bool:
        """Whether one of some hosts has never answered whether it shares a disk of a dead host."""
        return any(_key(disk, dead, other) not in self._known for other in others)

    def is_shared(self, disk: Disk, here: str) -> bool:
        """Whether the host is known to share a disk with any other."""
        return any(
            shared and subject == _subject(disk) and here in hosts
            for (subject, hosts), (_, shared) in self._known.items()
        )

    async def shares(self, disk: Disk, here: Place, there: Place, *, fresh: bool = False) -> bool:
        """Whether another host sees the file of a disk: for a medium, a file of that name.

        Args:
            disk: of a domain on `here`.
            here: a host.
            there: another one.
            fresh: use no answer from some minutes ago.

        Raises:
            LibvirtError: one of them does not answer, or `here` cannot write to the directory and
                has left no mark in it that the other sees: a copy could be written over its source.
                Or the directory lies outside the site's roots.
        """
        if not is_below(disk.path, self._roots):
            raise LibvirtRefusedError(f"{disk.path[:200]!r} lies below no root of the site's disks")
        key = _key(disk, here, there)
        checked_at, known = self._known.get(key, (0.0, False))
        now = self._clock.monotonic()
        if not fresh and key in self._known and now - checked_at < _KEPT.total_seconds():
            return known
        found = await self._check(disk, here, there)
        self._known[key] = (now, found)
        return found

    async def _check(self, disk: Disk, here: Place, there: Place) -> bool:
        source, target = (daemon_of(self._daemons, one) for one in (here, there))
        directory, name = posixpath.split(disk.path)
        if _is_medium(disk):
            return await target.has_file(directory, name)
        try:
            return await _mark_is_seen(directory, source, target)
        except LibvirtRefusedError:
            # Its storage has failed, perhaps: then the mark of its agent is still there.
            if not await self._has_mark_of(here, directory, target):
                raise
            return True

    async def _has_mark_of(self, here: Place, directory: str, target: Daemon) -> bool:
        try:
            mark = _proven((await self._stored.of(here.name)).mark, here)
        except TransientError:
            return False
        return bool(mark) and await target.has_file(directory, mark)


def files(domain: Domain) -> tuple[Disk, ...]:
    """Return the domain's disks that are files or devices, their backing images, its variables."""
    found = (*(disk for disk in domain.devices.disks if disk.path), *layers(domain))
    nvram = domain.devices.nvram
    return (*found, Disk("nvram", path=nvram)) if nvram else found


def mark_of(place: Place) -> str:
    """Return the name of the mark that a host's agent leaves, from its Hypervisor's UID."""
    return f".hypercobalt-{place.id}"


def _proven(mark: str, place: Place) -> str:
    return mark if mark == mark_of(place) else ""


def _is_medium(disk: Disk) -> bool:
    return disk.readonly or disk.device in {"cdrom", "floppy"}


def _key(disk: Disk, one: Place, other: Place) -> _Key:
    return _subject(disk), frozenset((one.name, other.name))


def _subject(disk: Disk) -> str:
    """Return the subject of one read: a medium's file, else the directory."""
    return disk.path if _is_medium(disk) else posixpath.dirname(disk.path)


async def _mark_is_seen(directory: str, marker: Daemon, observer: Daemon) -> bool:
    name = f".hypercobalt-{uuid.uuid4()}"
    await marker.mark(directory, name)
    try:
        return await observer.has_file(directory, name)
    finally:
        await marker.delete_file(directory, name)
