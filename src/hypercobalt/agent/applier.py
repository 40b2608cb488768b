"""Writes an agent's part of its object's status, in one apply, when there is a change.

The object is watched by name, so a change that another manager makes to the agent's fields is seen
and restored; conflicts are forced, because these fields are the agent's by contract. While the API
is away the board goes on; when it is back, what is on the board then is written once. A status that
the API server refuses is written again with backoff, because the definition, a policy or a role may
be repaired at any time; a newer status does not wait for that.

Source: Kubernetes API concepts, "Server-Side Apply".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Generic, TypeVar

from hypercobalt.agent.board import Board, Parts
from hypercobalt.agent.status import holds, leftovers
from hypercobalt.api.bounds import within
from hypercobalt.api.meta import Object, Struct
from hypercobalt.errors import HypercobaltError, TerminalError, TransientError
from hypercobalt.logs import get_logger
from hypercobalt.runtime import Backoff, ForbiddenError, Informer, Kube
from hypercobalt.runtime.tasks import first
from hypercobalt.runtime.write_cache import Latest

log = get_logger(__name__)

T = TypeVar("T", bound=Object)
P = TypeVar("P", bound=Parts)
S = TypeVar("S", bound=Struct)

_STUCK: Final = timedelta(seconds=1)
"""A write that takes longer is given up for a newer state; before, it is let finish."""

_STUCK_AGAIN: Final = timedelta(milliseconds=200)
"""The same while the API is in trouble: what comes first after an outage shall be the newest."""

_RETRY: Final = Backoff(base=timedelta(milliseconds=200), cap=timedelta(seconds=10))
_DISPUTE: Final = Backoff(base=timedelta(seconds=1), cap=timedelta(minutes=1), jitter=lambda s: s)

REFUSED: Final = Backoff(base=timedelta(seconds=1), cap=timedelta(minutes=1))
"""Until a refused status is written again; with jitter: a bad definition refuses every host."""


@dataclass(frozen=True, slots=True)
class Report(Generic[T, P, S]):
    """How an agent computes and writes the status of its object.

    Args:
        manager: field manager of the status.
        fields: of the status; one that is composed empty is removed, also if another manager has
            written it.
        status_of: the status of an object.
        carrying: an object with its name, its namespace and this status, for the apply.
        compose: the status to write, out of the board, the object as the API has it, and the
            status as it was when this process first saw the object.
    """

    manager: str
    fields: Collection[str]
    status_of: Callable[[T], S]
    carrying: Callable[[S], T]
    compose: Callable[[P, T, S], S]


@dataclass(frozen=True, slots=True)
class Refusal(Generic[S]):
    """A status that the API server does not take.

    Args:
        status: as it was sent.
        message: of the API server.
        count: refusals in a row, of this status or another.
        retry_at: when the same status is sent again, by the loop's clock.
    """

    status: S
    message: str
    count: int
    retry_at: float


class Applier(Generic[T, P, S]):
    """The one writer of the status.

    Args:
        informer: of the own object alone.
        on_written: is called after each write, with what was written; for benchmarks and tests.
        refused: waits until a refused status is sent again.
    """

    def __init__(
        self,
        kube: Kube,
        report: Report[T, P, S],
        board: Board[P],
        informer: Informer[T],
        *,
        on_written: Callable[[S], None] | None = None,
        refused: Backoff = REFUSED,
    ) -> None:
        self._kube, self._report, self._board = kube.as_manager(report.manager), report, board
        self._informer, self._own = informer, Latest(informer)
        self._about, self._on_written, self._backoff = informer.selection.about, on_written, refused
        self._uid: str | None = ""  # of the object that the fields below belong to; None: no object
        self._kept: S | None = None  # as first read: parts that the board does not have
        self._written: S | None = None
        self._refusal: Refusal[S] | None = None
        self._failures = self._disputes = 0
        self._restore_at = float("-inf")  # by the loop's clock

    @property
    def refusal(self) -> str | None:
        """Why the API server refuses the status, None while it takes it; for `/readyz`."""
        return self._refusal.message if self._refusal else None

    async def run(self) -> None:
        """Write until cancelled; the API being away, or having no such object, is no error here."""
        await self._informer.wait_synced()
        while True:
            own, parts = self._own.value, self._board.parts
            try:
                wait = await self._pass(own, parts)
            except HypercobaltError as error:
                await asyncio.sleep(self._wait_after(error))
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await first(self._own.changed(own), self._board.changed(parts))

    async def _pass(self, stored: T | None, parts: P) -> float | None:
        """Write if need be, and return the seconds until the next look; None waits for a change."""
        self._meet(stored)
        if stored is None or self._kept is None:
            return None
        report = self._report
        wanted = within(report.compose(parts, stored, self._kept))
        if wanted == self._written:
            if holds(report.status_of(stored), wanted, report.fields):
                return None
            if (wait := self._restore_at - asyncio.get_running_loop().time()) > 0:
                return wait
            self._restoring()
        if (wait := self._refused_for(wanted)) > 0:
            return wait
        await self._write(wanted, parts)
        return None if self._refusal is None else self._refused_for(wanted)

    def _meet(self, stored: T | None) -> None:
        """Forget the last pass if there is another object now, or none."""
        uid = stored.metadata.uid if stored else None
        if uid == self._uid:
            return
        self._uid, self._written, self._refusal = uid, None, None
        self._kept = self._report.status_of(stored) if stored else None
        if stored is None:
            log.warning("object_missing", object=self._about)

    def _restoring(self) -> None:
        """Another manager changed our fields; the more often, the later they are restored."""
        now = asyncio.get_running_loop().time()
        quiet = now - self._restore_at > _DISPUTE.cap.total_seconds()
        self._disputes = 0 if quiet else self._disputes + 1
        self._restore_at = now + _DISPUTE.wait(self._disputes)
        log.warning("status_restored", object=self._about, disputes=self._disputes)

    def _wait_after(self, error: HypercobaltError) -> float:
        wait = _RETRY.wait(self._failures)
        if isinstance(error, TransientError) and error.retry_after is not None:
            wait = max(wait, error.retry_after.total_seconds())
        self._failures += 1
        log.warning("status_not_written", object=self._about, error=str(error))
        return wait

    async def _write(self, wanted: S, parts: P) -> None:
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
        if result.metadata.uid == self._uid:
            self._own.wrote(result)
            self._written = wanted
            if self._on_written is not None:
                self._on_written(wanted)

    def _refused_for(self, status: S) -> float:
        """Seconds until a refused status may be sent again; 0 for one that was not refused."""
        if self._refusal is None or self._refusal.status != status:
            return 0.0
        return max(0.0, self._refusal.retry_at - asyncio.get_running_loop().time())

    def _refuse(self, status: S, error: HypercobaltError) -> None:
        self._failures = 0
        count = self._refusal.count + 1 if self._refusal else 1
        wait = self._backoff.wait(count - 1)
        log.warning(
            "status_write_refused", object=self._about, error=str(error), retry_in_s=round(wait)
        )
        retry_at = asyncio.get_running_loop().time() + wait
        self._refusal = Refusal(status, str(error), count, retry_at)

    async def _apply(self, wanted: S) -> T:
        report, mine = self._report, self._report.carrying(wanted)
        result = await self._kube.apply(mine, force=True, subresource="status")
        if left := leftovers(report.status_of(result), wanted, report.fields):
            log.info("status_leftovers_removed", object=self._about, fields=",".join(left))
            meta, patch = mine.metadata, {"status": dict.fromkeys(left)}
            result = await self._kube.merge_patch(
                type(mine), meta.name, patch, meta.namespace or None, subresource="status"
            )
        return result
