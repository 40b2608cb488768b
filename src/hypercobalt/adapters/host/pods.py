"""The processes of the host's pods, by the units that systemd has for them.

A kubelet with the cgroup driver `systemd` makes a slice for each pod, a lab's stand-in for one a
service; both have the pod's UID in their names. systemd answers which processes are in a unit, so
neither /proc nor the control groups of the host are read. With the cgroup driver `cgroupfs` pods
have no unit: their processes are among those of the root slice, by the path of the pod's group, and
as nothing announces them, they are read again and again. Which pods are of interest, whatever
runs in them, is in `pod_model.py`.

Source: org.freedesktop.systemd1(5), GetUnitProcesses; kubernetes, pkg/kubelet/cm
(cgroup_manager_linux.go, ToCgroupfs and ToSystemd) for the names.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence, Set
from contextlib import suppress
from datetime import timedelta
from typing import Final

from hypercobalt.adapters.host.bus import PING, Handler, RefusedError, Service
from hypercobalt.adapters.host.jobs import (
    CHANGED,
    MANAGER,
    PATH,
    absent_is_fine,
    is_absent,
    kill_unit,
    list_units,
    subscribe,
)
from hypercobalt.adapters.host.pod_model import Commands, KnownPods, PodInterest, PodProcesses
from hypercobalt.adapters.host.port import HostError
from hypercobalt.adapters.host.systemd import GRACE, RESYNC, SystemdClient

LAB_PREFIX: Final = "hypercobalt-pod-"
"""What the names of a lab's services begin with; the pod's UID follows."""
LOOK: Final = timedelta(seconds=1)
"""How soon a pod without what is looked for is read again: nothing reports that a process starts
in one."""

GROUPS: Final = timedelta(seconds=10)
"""How often the root slice is read on a host whose kubelet has the cgroup driver `cgroupfs`."""

_ROOT: Final = "-.slice"
_KUBEPODS: Final = "kubepods"
_QOS: Final = ("burstable", "besteffort")  # pods of class Guaranteed have no group between
_PATTERNS: Final = (f"{LAB_PREFIX}*.service", "kubepods*-pod*.slice")
_UID: Final = r"[0-9a-f]{8}([-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}"
_NAMES: Final = re.compile(
    rf"(?:{LAB_PREFIX}(?P<service>{_UID})\.service|kubepods(?:-[a-z]+)?-pod(?P<slice>{_UID})\.slice)"
)
_GROUP: Final = re.compile(r"pod([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
_PROCESSES: Final = "a(sus)"
_OVER: Final = frozenset({"inactive", "failed"})


class SystemdPods(SystemdClient):
    """The pods of the systemd behind a bus."""

    def __init__(
        self, address: str | None = None, *, grace: timedelta = GRACE, ping: timedelta = PING
    ) -> None:
        super().__init__(address, grace=grace, ping=ping)
        self._known: dict[PodInterest, KnownPods] = {}

    def _known_of(self, interest: PodInterest) -> KnownPods:
        return self._known.setdefault(interest, KnownPods(interest))

    def remember(self, interest: PodInterest, pods: Mapping[str, Commands]) -> None:
        self._known_of(interest).remember(pods)

    def watch(self, interest: PodInterest) -> AsyncGenerator[tuple[PodProcesses, ...] | HostError]:
        watched: _WatchedPods | None = None

        def made(systemd: Service) -> _WatchedPods:
            nonlocal watched
            watched = _WatchedPods(systemd, self._known_of(interest))
            return watched

        def resync(found: tuple[PodProcesses, ...]) -> timedelta:
            if not all(interest.is_whole(pod.commands) for pod in found):
                return LOOK
            return watched.pace if watched is not None else RESYNC

        return self._follow(made, resync=resync)

    async def running(self, interest: PodInterest) -> tuple[PodProcesses, ...]:
        async with self._reach() as systemd:
            return await _WatchedPods(systemd, self._known_of(interest)).read_once()
        return ()

    async def kill(self, uid: str) -> None:
        async with self._reach() as systemd:
            units = await _pod_units(systemd)
            for name in sorted(name for name, known in units.values() if known == uid):
                await kill_unit(systemd, name)
            if uid in await _groups(systemd):
                raise HostError(f"pod {uid}: systemd has no unit of it; end it by its kubelet")


class _WatchedPods:
    """The pods of interest, for as long as one connection lasts.

    A whole one is read again only when systemd has announced a change of its unit, or the end of a
    container, which is a scope in the slice of its pod: the slice stays for some time.
    """

    def __init__(self, systemd: Service, known: KnownPods) -> None:
        self._systemd, self._known = systemd, known
        self._listened = set[str]()
        self._whole: dict[str, PodProcesses] = {}  # by path
        self._grouped: tuple[PodProcesses, ...] = ()
        self.pace, self._due = RESYNC, 0.0

    async def begin(self) -> None:
        for signal in ("UnitNew", "JobRemoved", "Reloading"):
            await self._systemd.listen(f"{MANAGER}.{signal}", path=PATH)
        removed = f"{MANAGER}.UnitRemoved"
        await self._systemd.listen(removed, path=PATH, handler=self._removed)
        await subscribe(self._systemd)

    def _removed(self, about: Sequence[object]) -> None:
        if about and str(about[0]).endswith(".scope"):
            self._whole.clear()

    async def read_once(self) -> tuple[PodProcesses, ...]:
        """Read the pods without listening.

        One whose processes are refused to us runs if it is known, and is an error otherwise.
        """
        units = await _pod_units(self._systemd)
        found = list[PodProcesses]()
        for path in sorted(units):
            with absent_is_fine():
                try:
                    pod = await self._processes(*units[path])
                except RefusedError as error:
                    if is_absent(error) or (pod := self._known.unread(units[path][1])) is None:
                        raise
                found += [pod] if pod is not None else []
        await self._read_groups()
        return tuple(sorted((*found, *self._grouped), key=lambda pod: pod.uid))

    async def read(self) -> tuple[PodProcesses, ...]:
        known = set(self._known.uids)
        units = await _pod_units(self._systemd)
        while fresh := units.keys() - self._listened:
            for path in sorted(fresh):
                self._listened.add(path)
                await self._systemd.listen(CHANGED, path=path, handler=self._forgetting(path))
            units = await _pod_units(self._systemd)  # one may have changed before we listened
        for path in self._listened - units.keys():
            self._listened.remove(path)
            self._forget(path)
            await self._systemd.ignore(CHANGED, path)
        found = [await self._pod(path, *units[path]) for path in sorted(units)]
        if (now := asyncio.get_running_loop().time()) >= self._due:
            with suppress(RefusedError):  # refused to us
                groups = await self._read_groups()
                self._known.forget(known - {uid for _, uid in units.values()} - groups)
            self._due = now + self.pace.total_seconds()
        pods = (*(pod for pod in found if pod), *self._grouped)
        return tuple(sorted(pods, key=lambda pod: pod.uid))

    async def _read_groups(self) -> Set[str]:
        """Read the pods without a unit; return the UIDs of all there are."""
        groups = await _groups(self._systemd)
        self.pace = GROUPS if groups else RESYNC
        pods = [self._known.read(uid, lines) for uid, lines in sorted(groups.items())]
        self._grouped = tuple(pod for pod in pods if pod is not None)
        return groups.keys()

    def _forgetting(self, path: str) -> Handler:
        return lambda _: self._forget(path)

    def _forget(self, path: str) -> None:
        self._whole.pop(path, None)

    async def _pod(self, path: str, unit: str, uid: str) -> PodProcesses | None:
        if (known := self._whole.get(path)) is not None:
            return known
        try:
            pod = await self._processes(unit, uid)
        except RefusedError as error:  # it has ended meanwhile, or is refused to us
            return None if is_absent(error) else self._known.unread(uid)
        if pod is not None and self._known.interest.is_whole(pod.commands):
            self._whole[path] = pod
        return pod

    async def _processes(self, unit: str, uid: str) -> PodProcesses | None:
        rows = await _rows(self._systemd, unit)
        return self._known.read(uid, [text for _, _, text in rows])


async def _rows(systemd: Service, unit: str) -> list[tuple[str, int, str]]:
    """Return the group, the process ID and the command line of each process of a unit."""
    reply = await systemd.call(PATH, f"{MANAGER}.GetUnitProcesses", "s", [unit])
    if reply.signature != _PROCESSES:
        raise HostError(f"GetUnitProcesses {unit}: the answer is no list of processes")
    rows: list[tuple[str, int, str]] = reply.body[0]
    return rows


async def _groups(systemd: Service) -> dict[str, list[str]]:
    """Return the command lines of the pods that have no unit, by their UIDs."""
    found: dict[str, list[str]] = {}
    with absent_is_fine():
        for path, _, text in await _rows(systemd, _ROOT):
            if uid := group_uid(path):
                found.setdefault(uid, []).append(text)
    return found


async def _pod_units(systemd: Service) -> dict[str, tuple[str, str]]:
    """Return the names of the pods' units that live, and the UIDs of their pods, by path."""
    alive = (unit for unit in await list_units(systemd, *_PATTERNS) if unit.active not in _OVER)
    return {unit.path: (unit.name, uid) for unit in alive if (uid := pod_uid(unit.name))}


def pod_uid(unit: str) -> str:
    """UID of the pod that a unit is of; "" if it is of none."""
    found = _NAMES.fullmatch(unit)
    return (found["service"] or found["slice"]).replace("_", "-") if found else ""


def group_uid(path: str) -> str:
    """UID of the pod, without a unit, that a control group is of; "" if it is of none.

    The outermost group that looks like a pod's counts, and none below a unit: what runs in a pod,
    or in a service, may make groups of any name below its own.
    """
    names = path.strip("/").split("/")
    if _KUBEPODS not in names:
        return ""
    at = names.index(_KUBEPODS)
    if any("." in name for name in names[:at]):  # a unit has its type at the end
        return ""
    below = [*names[at + 1 :], "", ""]
    pod = _GROUP.fullmatch(below[1] if below[0] in _QOS else below[0])
    return pod[1] if pod else ""
