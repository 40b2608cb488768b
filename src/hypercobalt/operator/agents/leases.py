"""The agents' Leases, as this process has seen them change.

A Lease has run out when no renewal was seen for its duration, by this process's clock alone: an
agent's own clock may be wrong, so `renewTime` is only shown. Time in which this process could not
have seen a renewal does not count: after the watch broke, or the API server did not answer a read,
every count begins again, and before a Lease counts as run out it is read once more. What a Lease
holds, or when it is renewed, prolongs no count but its own.

Each renewal costs a comparison and an assignment. A Lease has one timer, which checks for a renewal
since it was set; only a change of the state leads to a pass.

Source: client-go, tools/leaderelection, for counting on the own clock; `agent/lease.py` for the
Lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum, auto
from functools import partial
from typing import Final, Protocol

from hypercobalt.api.coordination import LeaseGlance
from hypercobalt.errors import HypercobaltError, TransientError
from hypercobalt.logs import get_logger
from hypercobalt.runtime import Informer, Kube, Metrics, Source
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.queue import Timer
from hypercobalt.runtime.tasks import first

log = get_logger(__name__)

NODE_AGENT: Final = "node-agent-"
"""Prefix of the name of a node agent's Lease; the rest is the Node's."""

OVS_AGENT: Final = "ovs-agent-"
"""Prefix of the name of an OVS agent's Lease; the rest is the Node's."""

DURATION: Final = timedelta(seconds=40)
"""Duration of a Lease that does not state its own, and time for which one may be missing."""

GATHERED: Final = timedelta(milliseconds=500)
"""How long renewals may wait to be read together: a thousand hosts send a hundred
each second, and a wake-up for each would cost ten times as much as reading it.
"""

LONGEST: Final = timedelta(minutes=10)
"""Longest duration that counts: a Lease of a year would never run out."""


class LeaseState(IntEnum):
    """State of a Lease; of several Leases of one agent the least counts."""

    RENEWED = auto()
    """This process has seen it made or renewed within its duration."""
    UNRENEWED = auto()
    """The Lease existed when this process began to watch, and its duration is not over yet."""
    RELEASED = auto()
    """The agent has stopped in good order."""
    EXPIRED = auto()
    """Its duration is over; of a Lease that was released, too."""
    ABSENT = auto()
    """The agent has no Lease."""


@dataclass(frozen=True, slots=True)
class LeaseSighting:
    """Knowledge about an agent's Lease.

    Args:
        state: see `LeaseState`.
        lease: as `namespace/name`; "" when absent.
        version: resourceVersion of the Lease; "" when absent.
        released: it has no holder.
        renewed_at: the last renewal by the agent's clock, as the Lease has it.
        duration: duration of the Lease.
        left: for an absent Lease, time until its absence counts as silence.
    """

    state: LeaseState
    lease: str = ""
    version: str = ""
    released: bool = False
    renewed_at: str = ""
    duration: timedelta = DURATION
    left: timedelta = timedelta(0)


class Timekeeper(Protocol):
    """The part of the event loop that is used."""

    def time(self) -> float: ...
    def call_later(self, delay: float, callback: Callable[[], object], /) -> Timer: ...


class AgentLeases:
    """Follows the Leases of some namespaces; a service of the manager.

    Args:
        kube: reads; it never writes.
        namespaces: where agents may keep their Leases.
        names: returns all hosts, which are checked once the Leases are known.
        listed: waits until `names` returns all of them; None if a later host is checked in any
            case.
        prefix: of the Leases' names.
        loop: for tests; None takes the running one.

    Attributes:
        source: for the controller: a change of an agent's state leads to its host's name.
    """

    def __init__(
        self,
        kube: Kube,
        namespaces: Sequence[str],
        names: Callable[[], Iterable[str]],
        metrics: Metrics,
        *,
        listed: Callable[[], Awaitable[None]] | None = None,
        prefix: str = NODE_AGENT,
        loop: Timekeeper | None = None,
    ) -> None:
        self.source, self._names, self._loop = Source(), names, loop
        self._kube, self._listed = kube, listed
        self._synced_at: float | None = None
        self.followers = tuple(
            LeaseFollower(kube, namespace, self.source.enqueue, metrics, self._time, prefix=prefix)
            for namespace in dict.fromkeys(namespaces)
        )

    def _time(self) -> Timekeeper:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    async def run(self, stop: asyncio.Event) -> None:
        """Follow until `stop`."""
        await first(stop.wait(), self._run())

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for follower in self.followers:
                group.create_task(follower.informer.run())
            for follower in self.followers:
                await follower.informer.wait_synced()
            if self._listed is not None:
                await self._listed()
            self.synced()

    def synced(self) -> None:
        """Record that the Leases of every namespace are known now."""
        self._synced_at = self._time().time()
        for name in self._names():
            self.source.enqueue(name)

    def unread(self) -> str | None:
        """A check: return the namespaces whose Leases have not been read yet."""
        left = [f.namespace for f in self.followers if not f.informer.has_synced]
        return f"Leases not read yet in {', '.join(left)}; check the RBAC rules" if left else None

    async def of(self, node: str) -> LeaseSighting | None:
        """Return the state of a host's agent; None while not enough is known.

        A Lease that seems to have run out is read first.
        """
        for follower in self.followers:
            await follower.settle(node)
        return self.glance(node)

    async def renewed_at(self, seen: LeaseSighting) -> str:
        """Return when the agent last renewed its Lease, from the server; "" without a Lease.

        The watch shows a renewal up to `GATHERED` later, and later than other kinds' changes.
        """
        namespace, _, name = seen.lease.partition("/")
        if not name:
            return seen.renewed_at
        found = await self._kube.list(LeaseGlance, namespace, fields=f"metadata.name={name}")
        return found.items[0].spec.renewTime if found.items else ""

    def glance(self, node: str) -> LeaseSighting | None:
        """Return the sighting without a read; None also while a Lease seems to have run out."""
        found = [f.glance(node) for f in self.followers if node in f]
        if found:
            known = [one for one in found if one is not None]
            return min(known, key=lambda one: one.state) if len(known) == len(found) else None
        if self._synced_at is None:
            return None
        waited = timedelta(seconds=self._time().time() - self._synced_at)
        return LeaseSighting(LeaseState.ABSENT, left=max(DURATION - waited, timedelta(0)))


class LeaseFollower:
    """Follower of the Leases of one namespace; a handler of their informer."""

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        enqueue: Callable[[str], None],
        metrics: Metrics,
        time: Callable[[], Timekeeper],
        *,
        prefix: str,
    ) -> None:
        self.namespace, self._prefix, self._kube = namespace, prefix, kube
        self._enqueue, self._time = enqueue, time
        selection = Selection(LeaseGlance, namespace)
        self.informer = Informer(kube, selection, metrics=metrics, share=False, gather=GATHERED)
        self._entries: dict[str, _Entry] = {}
        self._since = float("-inf")  # no count has begun before
        self._breaks = 0
        self.informer.add_handler(self)

    def __contains__(self, node: str) -> bool:
        return node in self._entries

    def on_add(self, obj: LeaseGlance) -> None:
        if not obj.metadata.name.startswith(self._prefix):
            return
        node = obj.metadata.name[len(self._prefix) :]
        known = self._entries.get(node)
        if known is not None:  # deleted, and made again
            self._changed(node, known, obj)
            return
        state = LeaseState.RENEWED if self.informer.has_synced else LeaseState.UNRENEWED
        entry = self._entries[node] = _Entry(obj, state, self._time().time())
        if not obj.spec.holderIdentity:
            entry.state = LeaseState.RELEASED
        self._arm(node, entry, _lasts(obj))
        self._enqueue(node)

    def on_update(self, old: LeaseGlance, new: LeaseGlance) -> None:
        # Up to a thousand a second: nothing but comparisons for one that is renewed in time.
        if old.spec == new.spec or not new.metadata.name.startswith(self._prefix):
            return
        node = new.metadata.name[len(self._prefix) :]
        entry = self._entries.get(node)
        if entry is None:
            self.on_add(new)
        elif entry.is_renewed_by(new):
            entry.lease, entry.seen = new, self._time().time()
        else:
            self._changed(node, entry, new)

    def on_delete(self, obj: LeaseGlance) -> None:
        if obj.metadata.name.startswith(self._prefix):
            node = obj.metadata.name[len(self._prefix) :]
            entry = self._entries.get(node)
            if entry is not None and entry.state is LeaseState.EXPIRED:
                del self._entries[node]
            # Else the agent may make it again before its timer runs out.

    async def settle(self, node: str) -> None:
        """Read a Lease that seems to have run out, and record its present state."""
        entry = self._entries.get(node)
        if entry is not None and entry.is_due():
            await self._read_again(node, entry)

    def glance(self, node: str) -> LeaseSighting | None:
        """Return the state of a Lease that is there; None while it seems to have run out."""
        entry = self._entries[node]
        if entry.is_due():
            return None
        lease = entry.lease
        return LeaseSighting(
            entry.state,
            f"{self.namespace}/{self._prefix}{node}",
            lease.metadata.resourceVersion,
            not lease.spec.holderIdentity,
            lease.spec.renewTime,
            timedelta(seconds=_lasts(lease)),
        )

    def _changed(self, node: str, entry: _Entry, lease: LeaseGlance) -> None:
        """Record more than a renewal: a Lease taken again, released, or of another duration."""
        entry.lease, entry.seen = lease, self._time().time()
        held = bool(lease.spec.holderIdentity)
        entry.state = LeaseState.RENEWED if held else LeaseState.RELEASED
        if entry.timer is not None:
            entry.timer.cancel()
        self._arm(node, entry, _lasts(lease))
        self._enqueue(node)

    def _arm(self, node: str, entry: _Entry, seconds: float) -> None:
        entry.timer = self._time().call_later(seconds, partial(self._due, node, entry))

    def _due(self, node: str, entry: _Entry) -> None:
        """Check whether the Lease was renewed since its timer was set."""
        entry.timer = None
        if self._entries.get(node) is not entry:
            return
        if self.informer.cache.get(f"{self._prefix}{node}", self.namespace) is None:
            del self._entries[node]
            self._enqueue(node)
            return
        if self.informer.breaks != self._breaks:
            self._breaks, self._since = self.informer.breaks, self._time().time()
        now = self._time().time()
        left = max(entry.seen, self._since) + _lasts(entry.lease) - now
        if left > 0:
            self._arm(node, entry, left)
        else:
            self._enqueue(node)  # `of` reads it again

    async def _read_again(self, node: str, entry: _Entry) -> None:
        """Compare a Lease that seems to have run out with the server's."""
        name = f"{self._prefix}{node}"
        try:
            answer = await self._kube.list(
                LeaseGlance, self.namespace, fields=f"metadata.name={name}"
            )
        except HypercobaltError as error:
            log.warning("lease_not_read", lease=f"{self.namespace}/{name}", error=str(error))
            entry.seen = self._time().time()
            if isinstance(error, TransientError):
                # Where this process cannot read, no agent may have been able to renew either.
                # Any other error is about what this Lease holds, which its host has written.
                self._since = entry.seen
            self._arm(node, entry, _lasts(entry.lease))
            return
        if entry.timer is not None or self._entries.get(node) is not entry:
            return  # the watch was quicker
        found = answer.items[0] if answer.items else None
        if found is None:
            del self._entries[node]
        elif found.spec == entry.lease.spec:
            entry.state = LeaseState.EXPIRED
        else:
            # The watch may lag behind for the others as well, but each is read before it counts
            # as run out; a host can renew so that every read of its Lease is ahead of the watch.
            self._changed(node, entry, found)


class _Entry:
    """A Lease: as last seen, since when, and the timer that looks at it; None once that is over."""

    __slots__ = ("lease", "seen", "state", "timer")

    def __init__(self, lease: LeaseGlance, state: LeaseState, seen: float) -> None:
        self.lease, self.state, self.seen = lease, state, seen
        self.timer: Timer | None = None

    def is_due(self) -> bool:
        """Whether the Lease seems to have run out, and has not been read since."""
        return self.timer is None and self.state is not LeaseState.EXPIRED

    def is_renewed_by(self, new: LeaseGlance) -> bool:
        """Whether only the time of the last renewal changes."""
        spec, before = new.spec, self.lease.spec
        return (
            self.timer is not None
            and self.state is LeaseState.RENEWED
            and bool(spec.holderIdentity)
            and spec.leaseDurationSeconds == before.leaseDurationSeconds
        )


def _lasts(lease: LeaseGlance) -> float:
    """Seconds that a Lease lasts without renewal."""
    given = lease.spec.leaseDurationSeconds
    lasts = DURATION.total_seconds() if given is None or given <= 0 else float(given)
    return min(lasts, LONGEST.total_seconds())
