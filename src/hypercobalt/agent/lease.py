"""The agent's Lease: shows that the agent lives, and keeps a second agent of a host from writing.

The holder of the Lease works; another agent waits until the Lease is released, has run out, or its
holder is known to have died. It is renewed four times in its duration. An API that is
away changes nothing: only another holder, seen, ends the work. If the API refuses Leases
altogether, the agent works without: one missing right must not cost the whole host's status.

Source: the kubelet's node Leases (renewed each 10 s, for 40 s); client-go, tools/leaderelection,
for measuring another's Lease on our own clock alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from hypercobalt.api.coordination import Lease, LeaseSpec
from hypercobalt.api.meta import Object, ObjectMeta, owner_reference
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.runtime import Clock, ConflictError, ForbiddenError, Kube, NotFoundError
from hypercobalt.runtime.leader import renewed

log = get_logger(__name__)

LOOK: Final = timedelta(seconds=2)
"""Time between looks at another agent's Lease, and between attempts after an error."""

_RELEASE: Final = timedelta(seconds=2)


def renewal(duration: timedelta) -> timedelta:
    """Time between two renewals of a Lease: three may be lost before it runs out."""
    return duration / 4


class AnotherAgentError(HypercobaltError):
    """Another agent has taken the Lease: end, and wait for the Lease at the next start."""


class AgentLease:
    """One agent's hold on its host.

    Args:
        name: of the Lease.
        namespace: of the Lease.
        me: unique among processes.
        is_over: whether it is certain that the holder of that name does not run any more.
        owner: gives the object that the Lease goes with; None while there is none.
        duration: how long the Lease lasts without a renewal.

    Attributes:
        held: set once the agent may work.
        holder: another agent that holds the Lease; "" for none.
        renewals: how often it was taken or renewed, of which the API server has confirmed each.
    """

    def __init__(
        self,
        kube: Kube,
        name: str,
        namespace: str,
        me: str,
        *,
        is_over: Callable[[str], bool],
        owner: Callable[[], Object | None],
        duration: timedelta,
        clock: Clock,
    ) -> None:
        self._kube, self._name, self._namespace, self._me = kube, name, namespace, me
        self._is_over, self._owner, self._clock = is_over, owner, clock
        self._duration = duration
        self._lease: Lease | None = None  # as last seen
        self._seen_at = 0.0  # when it was last seen to change
        self._complaint = ""
        self.held, self.holder, self.renewals = asyncio.Event(), "", 0

    def waiting(self) -> str | None:
        """Why the agent may not act yet, None once it may; for `/readyz`."""
        if self.held.is_set():
            return None
        return f"Lease held by {self.holder}" if self.holder else "Lease not acquired yet"

    async def run(self) -> None:
        """Take the Lease and renew it until cancelled, then release it.

        Raises:
            AnotherAgentError: this agent held it, and another holds it now.
        """
        try:
            while True:
                wait = renewal(self._duration) if await self._attempt() else LOOK
                await asyncio.sleep(wait.total_seconds())
        finally:
            await self._release()

    async def _attempt(self) -> bool:
        """Take or renew the Lease, and return whether nothing is left to do for a while."""
        try:
            done = await self._take_or_renew()
        except (ForbiddenError, NotFoundError) as error:
            self._complain("lease_refused", error)
            self.held.set()
            return True
        except AnotherAgentError:
            raise
        except HypercobaltError as error:
            self._complain("lease_not_renewed", error)
            return False
        if done:
            self._complaint = ""
        return done

    async def _take_or_renew(self) -> bool:
        if self._lease is not None and self._lease.spec.holderIdentity == self._me:
            with suppress(ConflictError, NotFoundError):  # then read the present Lease
                return await self._write(self._lease)
        found = await self._kube.get(Lease, self._name, self._namespace)
        if found is not None:
            if self._lease is None or self._lease.spec != found.spec:
                self._lease, self._seen_at = found, self._clock.monotonic()
            if not self._may_take(found):
                self._wait_for(found.spec.holderIdentity or "")
                return False
        return await self._write(found)

    def _may_take(self, found: Lease) -> bool:
        holder = found.spec.holderIdentity
        if not holder or holder == self._me:
            return True
        lasts = found.spec.leaseDurationSeconds or self._duration.total_seconds()
        return self._clock.monotonic() - self._seen_at >= lasts or self._is_over(holder)

    def _wait_for(self, holder: str) -> None:
        if self.held.is_set():
            raise AnotherAgentError(
                f"Lease {self._namespace}/{self._name}: taken by another agent, {holder}"
            )
        if holder != self.holder:
            log.warning("lease_held_by_another_agent", lease=self._name, holder=holder)
        self.holder = holder

    async def _write(self, old: Lease | None) -> bool:
        if old is None:
            meta = ObjectMeta(name=self._name, namespace=self._namespace)
            made = Lease(metadata=self._owned(meta), spec=self._renewed(LeaseSpec()))
            written = await self._kube.create(made)
        else:
            new = replace(old, metadata=self._owned(old.metadata), spec=self._renewed(old.spec))
            written = await self._kube.patch(old, new)
        if not self.held.is_set():
            log.info("lease_acquired", lease=self._name, holder=self._me)
        self._lease, self._seen_at, self.holder = written, self._clock.monotonic(), ""
        self.renewals += 1
        self.held.set()
        return True

    def _owned(self, meta: ObjectMeta) -> ObjectMeta:
        owner = self._owner()
        return replace(meta, ownerReferences=(owner_reference(owner),)) if owner else meta

    def _renewed(self, old: LeaseSpec) -> LeaseSpec:
        return renewed(old, self._me, self._duration, self._clock.now())

    async def _release(self) -> None:
        """Let the next agent begin at once."""
        lease = self._lease
        if lease is None or lease.spec.holderIdentity != self._me:
            return
        with suppress(HypercobaltError, TimeoutError):
            async with asyncio.timeout(_RELEASE.total_seconds()):
                free = replace(lease.spec, holderIdentity="")
                await self._kube.patch(lease, replace(lease, spec=free))

    def _complain(self, event: str, error: HypercobaltError) -> None:
        if event != self._complaint:
            self._complaint = event
            log.warning(event, lease=f"{self._namespace}/{self._name}", error=str(error))
