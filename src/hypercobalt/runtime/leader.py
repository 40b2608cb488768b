"""Leader election with a Lease: at most one process leads.

Times are measured on our own monotonic clock only. A candidate counts the lease's duration from
when it *saw* the lease change; the holder counts its right to act from *before* it sent the last
renewal that succeeded. So the holder stops at least `duration - renew_deadline` before any other
may start, whatever the wall clocks show. When it stops, work is cancelled; work that does not obey
in that margin is ended with the process.

Source: k8s.io/client-go, tools/leaderelection.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import uuid4

from msgspec.structs import replace

from hypercobalt.api.coordination import Lease, LeaseSpec
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.times import micro_time
from hypercobalt.errors import ConfigurationError, HypercobaltError, TransientError
from hypercobalt.logs import get_logger
from hypercobalt.runtime.client.errors import ConflictError, NotLeadingError
from hypercobalt.runtime.client.kube import Kube
from hypercobalt.runtime.client.retry import full_jitter
from hypercobalt.runtime.clock import Clock
from hypercobalt.runtime.metrics import Metrics
from hypercobalt.runtime.tasks import sleep_unless

log = get_logger(__name__)

_EX_SOFTWARE = 70  # sysexits.h
_MOMENT = 0.001  # seconds; less is too short for a renewal
_JITTER = 0.2  # of the retry period, so that candidates do not retry in step


class LeadershipLostError(TransientError):
    """The lease was not renewed in time, or another process holds it: start again as candidate."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a lease lasts.

    Args:
        duration: others wait this long after the last renewal that they saw; whole seconds.
        renew_deadline: the holder stops this long after its last renewal.
        retry_period: time between renewals, and between a candidate's looks.

    Raises:
        ConfigurationError: they do not leave room for each other.
    """

    duration: timedelta = timedelta(seconds=15)
    renew_deadline: timedelta = timedelta(seconds=10)
    retry_period: timedelta = timedelta(seconds=2)

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > self.retry_period * (1 + _JITTER):
            raise ConfigurationError(
                f"leader election: duration {self.duration} must be longer than renew deadline "
                f"{self.renew_deadline}, and that longer than 1.2 x retry period "
                f"{self.retry_period}"
            )


@dataclass(frozen=True, slots=True)
class Election:
    """The Lease of an election, and our identity in it.

    Args:
        name: of the Lease.
        namespace: of the Lease.
        identity: of this process; unique among the candidates.
        labels: that the holder of the Lease puts on it, beside those that are there.
        annotations: the same.
    """

    name: str
    namespace: str
    identity: str
    timing: Timing = Timing()
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])


def process_identity() -> str:
    """A fresh identity: host name and random text, as two processes may share a host."""
    return f"{socket.gethostname()}_{uuid4()}"


def renewed(old: LeaseSpec, identity: str, duration: timedelta, now: datetime) -> LeaseSpec:
    """The spec of a Lease that `identity` takes or renews now, for `duration`."""
    mine = old.holderIdentity == identity
    return replace(
        old,
        holderIdentity=identity,
        leaseDurationSeconds=round(duration.total_seconds()),
        acquireTime=old.acquireTime if mine else micro_time(now),
        renewTime=micro_time(now),
        leaseTransitions=(old.leaseTransitions or 0) + (0 if mine else 1),
    )


def end_process() -> None:
    """End at once, without cleaning up: what must not run any longer does not."""
    os._exit(_EX_SOFTWARE)


class LeaderElector:
    """One candidate.

    Args:
        abort: ends the process; called when cancelled work goes on past its time.
    """

    def __init__(
        self,
        kube: Kube,
        election: Election,
        *,
        clock: Clock,
        metrics: Metrics,
        abort: Callable[[], None] = end_process,
    ) -> None:
        self._kube, self._election, self._timing = kube, election, election.timing
        self._clock, self._abort = clock, abort
        self._gauge = metrics.leader.labels(election.name)
        self._gauge.set(0)
        self._seen: Lease | None = None
        self._seen_at = float("-inf")  # when the lease was last seen to change
        self._until = float("-inf")  # we may act before this moment

    @property
    def is_leader(self) -> bool:
        """Whether this process may act now."""
        return self._clock.monotonic() < self._until

    def check(self) -> None:
        """A guard for writes.

        Raises:
            NotLeadingError: this process does not lead, or cannot be sure that it still does.
        """
        if not self.is_leader:
            raise NotLeadingError(f"lease {self._about}: not held by {self._election.identity}")

    async def run(self, lead: Callable[[], Awaitable[None]], stop: asyncio.Event) -> None:
        """Wait for the lease, run `lead` under it, release it.

        Returns when `lead` does, or when `stop` is set before this process holds the lease.

        Raises:
            LeadershipLostError: the lease went while `lead` ran; `lead` has been cancelled.
        """
        if not await self._acquire(stop):
            return
        log.info("leadership_acquired", lease=self._about, identity=self._election.identity)
        try:
            await self._lead(lead)
        finally:
            await self._release()

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> None:
        work = asyncio.ensure_future(lead())
        keeper = asyncio.create_task(self._keep(), name="lease-keeper")
        try:
            await asyncio.wait({work, keeper}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            keeper.cancel()
            await self._end(work)
            await asyncio.wait({keeper})
        if not keeper.cancelled() and (lost := keeper.exception()) is not None:
            raise lost
        await work

    async def _end(self, work: asyncio.Future[None]) -> None:
        """Cancel the work, and see that it has ended before another may lead."""
        if work.done():
            return
        margin = self._timing.duration - self._timing.renew_deadline
        ends = max(self._until, self._clock.monotonic()) + margin.total_seconds()
        self._until = min(self._until, self._clock.monotonic())
        self._gauge.set(0)
        work.cancel()
        done, _ = await asyncio.wait({work}, timeout=ends - self._clock.monotonic())
        if not done:
            log.critical("process_aborted", reason="cancelled work goes on", lease=self._about)
            self._abort()
        elif not work.cancelled() and (error := work.exception()) is not None:
            log.error("cancelled_work_failed", lease=self._about, error=repr(error))

    async def _acquire(self, stop: asyncio.Event) -> bool:
        while not stop.is_set():
            try:
                if await self._try(self._timing.renew_deadline.total_seconds()):
                    return True
            except HypercobaltError as error:
                log.warning("lease_not_read", lease=self._about, error=str(error))
            await sleep_unless(stop, self._pause())
        return False

    async def _keep(self) -> None:
        """Renew until that fails for too long; then raises."""
        problem, tried_at = "not renewed in time", self._clock.monotonic()
        while (left := self._until - self._clock.monotonic()) > _MOMENT:
            due = tried_at + self._pause() - self._clock.monotonic()
            await asyncio.sleep(max(0.0, min(due, left)))
            tried_at = self._clock.monotonic()
            left = self._until - tried_at
            if left <= _MOMENT:
                break
            try:
                # A third of the deadline: one dead connection must not use it up.
                third = self._timing.renew_deadline.total_seconds() / 3
                if not await self._try(min(left, third)):
                    problem = "taken by another"
                    break
            except HypercobaltError as error:
                problem = str(error)
                log.warning("lease_not_renewed", lease=self._about, error=problem)
        self._until = float("-inf")
        raise LeadershipLostError(f"lease {self._about}: {problem}")

    async def _try(self, seconds: float) -> bool:
        """Take or renew the lease if that is allowed; False if another holds it.

        Raises:
            HypercobaltError: we could not find out.
        """
        try:
            async with asyncio.timeout(seconds):
                return await self._take_or_renew()
        except TimeoutError as exc:
            raise TransientError(f"lease {self._about}: no answer in {seconds:.1f} s") from exc

    async def _take_or_renew(self) -> bool:
        who, where = self._election, self._election.namespace
        lease = await self._kube.get(Lease, who.name, where)
        before = self._clock.monotonic()
        if lease is None:
            meta = self._marked(ObjectMeta(name=who.name, namespace=where))
            written = await self._kube.create(Lease(metadata=meta, spec=self._spec(LeaseSpec())))
        else:
            self._observe(lease, before)
            if not self._may_take(lease.spec, before):
                return False
            mine = replace(
                lease, metadata=self._marked(lease.metadata), spec=self._spec(lease.spec)
            )
            written = await self._kube.patch(lease, mine)
        self._seen, self._seen_at = written, before
        self._until = before + self._timing.renew_deadline.total_seconds()
        self._gauge.set(1)
        return True

    def _marked(self, meta: ObjectMeta) -> ObjectMeta:
        labels = {**meta.labels, **self._election.labels}
        annotations = {**meta.annotations, **self._election.annotations}
        return replace(meta, labels=labels, annotations=annotations)

    def _observe(self, lease: Lease, now: float) -> None:
        if self._seen is None or self._seen.spec != lease.spec:
            self._seen, self._seen_at = lease, now

    def _may_take(self, spec: LeaseSpec, now: float) -> bool:
        if not spec.holderIdentity or spec.holderIdentity == self._election.identity:
            return True
        duration = spec.leaseDurationSeconds or self._timing.duration.total_seconds()
        return now >= self._seen_at + duration

    def _spec(self, old: LeaseSpec) -> LeaseSpec:
        return renewed(old, self._election.identity, self._timing.duration, self._clock.now())

    async def _release(self) -> None:
        """Release the lease: the next leader starts at once, not only when it has run out."""
        self._gauge.set(0)
        lease = self._seen
        if lease is None or lease.spec.holderIdentity != self._election.identity:
            return
        self._until = float("-inf")
        try:
            async with asyncio.timeout(self._timing.retry_period.total_seconds()):
                try:
                    await self._hand_on(lease)
                except ConflictError:  # such as by our last renewal, whose answer never came
                    held = await self._kube.get(
                        Lease, self._election.name, lease.metadata.namespace
                    )
                    if held is not None and held.spec.holderIdentity == self._election.identity:
                        await self._hand_on(held)
        except (HypercobaltError, TimeoutError) as error:
            log.warning("lease_not_released", lease=self._about, error=str(error))

    async def _hand_on(self, lease: Lease) -> None:
        """Write a lease without a holder.

        Raises:
            ConflictError: it is not as it was read.
            HypercobaltError: it could not be written.
        """
        now = micro_time(self._clock.now())
        free = replace(
            lease.spec, holderIdentity="", leaseDurationSeconds=1, renewTime=now, acquireTime=now
        )
        await self._kube.patch(lease, replace(lease, spec=free))

    def _pause(self) -> float:
        period = self._timing.retry_period.total_seconds()
        return period + full_jitter(period * _JITTER)

    @property
    def _about(self) -> str:
        return f"{self._election.namespace}/{self._election.name}"
