"""Writes the agent's part of its Hypervisor's status, in one apply, when there is a change.

The own object is watched by name, so what anybody else does to our fields is seen and put right;
conflicts are forced, because these fields are the agent's by contract. While the API is away the
board goes on; when it is back, what is on the board then is written once. A status that the API
server refuses is written again with backoff, because the definition, a policy or a role may be
mended at any time; a newer status does not wait for that.

Source: Kubernetes API concepts, "Server-Side Apply".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.errors import HypercobaltError, TerminalError, TransientError
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.status.board import Board, Parts
from hypercobalt.node_agent.status.compose import compose, holds, leftovers
from hypercobalt.runtime import Backoff, ForbiddenError, Informer, Kube
from hypercobalt.runtime.tasks import first

log = get_logger(__name__)

FIELD_MANAGER: Final = "kvm-node-agent"
"""As the existing agent's, so that its fields pass to us."""

_STUCK: Final = timedelta(seconds=1)
"""A write that takes longer is given up for a newer state; before, it is let finish."""

_STUCK_AGAIN: Final = timedelta(milliseconds=200)
"""The same while the API is in trouble: what comes first after an outage shall be the newest."""

_RETRY: Final = Backoff(base=timedelta(milliseconds=200), cap=timedelta(seconds=10))
_DISPUTE: Final = Backoff(base=timedelta(seconds=1), cap=timedelta(minutes=1), jitter=lambda s: s)

REFUSED: Final = Backoff(base=timedelta(seconds=1), cap=timedelta(minutes=1))
"""Until a refused status is written again; with jitter: a bad definition refuses every host."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A status that the API server does not take.

    Args:
        status: as it was sent.
        message: of the API server.
        count: how often it has refused, this status or another, without taking one in between.
        retry_at: when the same status is sent again, by the loop's clock.
    """

    status: HypervisorStatus
    message: str
    count: int
    retry_at: float


class Applier:
    """The one writer of the status.

    Args:
        informer: of the own Hypervisor alone.
        own: condition types that are the agent's.
        on_written: is called after each write, with what was written; for benchmarks and tests.
        refused: waits until a refused status is sent again.
    """

    def __init__(
        self,
        kube: Kube,
        node: str,
        board: Board,
        informer: Informer[Hypervisor],
        *,
        own: Collection[str],
        on_written: Callable[[HypervisorStatus], None] | None = None,
        refused: Backoff = REFUSED,
    ) -> None:
        self._kube, self._node, self._board = kube.as_manager(FIELD_MANAGER), node, board
        self._informer, self._own, self._on_written = informer, own, on_written
        self._backoff = refused
        self._seen: Hypervisor | None = None  # the newest that we know of
        self._written: HypervisorStatus | None = None  # to the object of that uid
        self._moved = asyncio.Event()
        self._kept: HypervisorStatus | None = None  # as first seen: what the board does not know
        self._refusal: Refusal | None = None
        self._failures = self._disputes = 0
        self._restore_at = float("-inf")  # by the loop's clock

    @property
    def hypervisor(self) -> Hypervisor | None:
        """The own object, None while there is none."""
        return self._seen

    @property
    def refusal(self) -> str | None:
        """Why the API server refuses the status, None while it takes it; for `/readyz`."""
        return self._refusal.message if self._refusal else None

    async def run(self) -> None:
        """Write until cancelled; the API being away, or having no such object, is no error here."""
        self._informer.add_handler(self)
        await self._informer.wait_synced()
        if self._seen is None:
            log.warning("waiting_for_hypervisor", hypervisor=self._node)
        while True:
            self._moved.clear()
            parts = self._board.parts
            try:
                wait = await self._pass(parts)
            except HypercobaltError as error:
                await asyncio.sleep(self._wait_after(error))
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await first(self._moved.wait(), self._board.changed(parts))

    async def _pass(self, parts: Parts) -> float | None:
        """Write if need be; gives the seconds until the next look, None to wait for a change."""
        stored, kept = self._seen, self._kept
        if stored is None or kept is None:
            return None
        wanted = compose(parts, stored, kept, self._own)
        if wanted == self._written:
            if holds(stored.status, wanted):
                return None
            if (wait := self._restore_at - asyncio.get_running_loop().time()) > 0:
                return wait
            self._restoring()
        if (wait := self._refused_for(wanted)) > 0:
            return wait
        await self._write(stored, wanted, parts)
        return None if self._refusal is None else self._refused_for(wanted)

    def _restoring(self) -> None:
        """Somebody changed our fields. Whoever keeps doing so is answered less and less often."""
        now = asyncio.get_running_loop().time()
        quiet = now - self._restore_at > _DISPUTE.cap.total_seconds()
        self._disputes = 0 if quiet else self._disputes + 1
        self._restore_at = now + _DISPUTE.wait(self._disputes)
        log.warning("restoring_status", hypervisor=self._node, disputes=self._disputes)

    def _wait_after(self, error: HypercobaltError) -> float:
        wait = _RETRY.wait(self._failures)
        if isinstance(error, TransientError) and error.retry_after is not None:
            wait = max(wait, error.retry_after.total_seconds())
        self._failures += 1
        log.warning("writing_status_failed", hypervisor=self._node, error=str(error))
        return wait

    async def _write(self, stored: Hypervisor, wanted: HypervisorStatus, parts: Parts) -> None:
        apply = asyncio.create_task(self._apply(wanted), name="apply-status")
        try:
            patience = _STUCK_AGAIN if self._failures else _STUCK
            done, _ = await asyncio.wait({apply}, timeout=patience.total_seconds())
            if not done:
                # The API is slow or away. Once there is news, this state need not be written.
                newer = asyncio.create_task(self._board.changed(parts))
                await asyncio.wait({apply, newer}, return_when=asyncio.FIRST_COMPLETED)
                newer.cancel()
        finally:
            if not apply.done():
                apply.cancel()
                await asyncio.wait({apply})
        if apply.cancelled():
            self._failures += 1
            return
        try:
            result = apply.result()
        except (TerminalError, ForbiddenError) as error:
            self._refuse(wanted, error)
            return
        self._failures, self._refusal = 0, None
        if result.metadata.uid == stored.metadata.uid:
            self._see(result)
            self._written = wanted
            if self._on_written is not None:
                self._on_written(wanted)

    def _refused_for(self, status: HypervisorStatus) -> float:
        """Seconds until a refused status may be sent again; 0 for one that was not refused."""
        if self._refusal is None or self._refusal.status != status:
            return 0.0
        return max(0.0, self._refusal.retry_at - asyncio.get_running_loop().time())

    def _refuse(self, status: HypervisorStatus, error: HypercobaltError) -> None:
        self._failures = 0
        count = self._refusal.count + 1 if self._refusal else 1
        wait = self._backoff.wait(count - 1)
        log.warning(
            "status_write_refused", hypervisor=self._node, error=str(error), retry_in_s=round(wait)
        )
        retry_at = asyncio.get_running_loop().time() + wait
        self._refusal = Refusal(status, str(error), count, retry_at)

    async def _apply(self, wanted: HypervisorStatus) -> Hypervisor:
        mine = Hypervisor(metadata=ObjectMeta(name=self._node), status=wanted)
        result = await self._kube.apply(mine, force=True, subresource="status")
        if left := leftovers(result.status, wanted):
            log.info("removing_leftovers", hypervisor=self._node, fields=",".join(left))
            patch = {"status": dict.fromkeys(left)}
            result = await self._kube.merge_patch(
                Hypervisor, self._node, patch, subresource="status"
            )
        return result

    def on_add(self, obj: Hypervisor) -> None:
        self._see(obj)

    def on_update(self, old: Hypervisor, new: Hypervisor) -> None:
        self._see(new)

    def on_delete(self, obj: Hypervisor) -> None:
        if self._seen is not None and self._seen.metadata.uid == obj.metadata.uid:
            log.warning("waiting_for_hypervisor", hypervisor=self._node)
            self._seen = self._written = self._kept = self._refusal = None
            self._moved.set()

    def _see(self, obj: Hypervisor) -> None:
        """Take note of the object, unless a newer version of it is known.

        The answer to our own write comes before the watch tells of the versions before it.
        """
        if self._seen is None or self._seen.metadata.uid != obj.metadata.uid:
            self._written = self._refusal = None
            self._kept = obj.status
        elif _version(obj) < _version(self._seen):
            return
        self._seen = obj
        self._moved.set()


def _version(obj: Hypervisor) -> int:
    """The resourceVersion as a number; Kubernetes says that versions of one kind compare so."""
    version = obj.metadata.resourceVersion
    return int(version) if version.isascii() and version.isdigit() else 0
