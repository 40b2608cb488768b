"""One request for a use: its parameters, its bounds, its result, and the Event that it leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl

from hypercobalt.agent.diagnostics.counts import Counts, UseOutcome, outcome_of
from hypercobalt.agent.diagnostics.record import BEGUN, ENDED, USED, Records, described
from hypercobalt.agent.diagnostics.use import BusyError, RefusedUseError, Use, UseRequest
from hypercobalt.api.meta import Object
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.runtime import Clock
from hypercobalt.runtime.routes import Answer, Request, Requester, Stream, text
from hypercobalt.runtime.streaming import close

log = get_logger(__name__)

MOST_AT_ONCE: Final = 8
"""Uses under way at once, of one agent."""

_MOST_PARAMETERS: Final = 32


@dataclass(slots=True)
class UseServer:
    """Serves the uses of one agent.

    Args:
        about: the object that Events are about; None while there is none.
        records: writes the Events.
        counts: of the agent's metrics.
        clock: for how long a use takes.
    """

    about: Callable[[], Object | None]
    records: Records
    counts: Counts
    clock: Clock
    under_way: int = field(default=0, init=False)

    async def serve(self, use: Use, request: Request) -> Answer | Stream:
        """Answer a request that its requester has the right to."""
        try:
            answer = await self._serve(use, request)
        except asyncio.CancelledError:
            self.counts.add(use.name, UseOutcome.ABANDONED)
            raise
        if isinstance(answer, Answer):  # a stream is counted at its end
            self.counts.add(use.name, outcome_of(answer.status))
        return answer

    async def _serve(self, use: Use, request: Request) -> Answer | Stream:
        about, who = self.about(), request.requester
        if about is None or who is None:
            return text(503, "the agent has not seen its own object yet; try again")
        try:
            call = UseRequest(_parameters(request, use.parameters), request.body, who)
        except RefusedUseError as error:
            return self._refused(about, who, use.name, text(400, str(error)))
        what = described(use.name, call.parameters)
        if request.method == "HEAD":
            return Answer(405, f"only {use.method}\n".encode(), allow=use.method)
        if self.under_way >= MOST_AT_ONCE:
            busy = text(429, f"{MOST_AT_ONCE} uses are under way already; try again later")
            return self._refused(about, who, what, busy)
        self.under_way += 1
        goes_on = False
        try:
            answer = await self._used(use, call, about, what)
            goes_on = isinstance(answer, Stream)  # until it is closed
        finally:
            if not goes_on:
                self.under_way -= 1
        return answer

    async def _used(self, use: Use, call: UseRequest, about: Object, what: str) -> Answer | Stream:
        begun, who = self.clock.monotonic(), call.requester
        answer = await _handled(use, call)
        seconds = self.clock.monotonic() - begun
        try:
            if isinstance(answer, Stream):
                await self.records.store(about, BEGUN, f"user {who.user} uses {what}")
                note = f"user {who.user} used {what}"
                return self._recorded(use, answer, about, note, begun)
            size = f"{answer.status}, {len(answer.body)} bytes"
            note = f"user {who.user} used {what} for {seconds:.1f} s: {size}"
            await self.records.store(about, USED, note)
        except BaseException as error:
            if isinstance(answer, Stream):
                await close(answer)
            if not isinstance(error, HypercobaltError):
                raise
            log.warning("use_not_recorded", use=what, error=str(error))
            return text(503, f"the Event of this use cannot be stored: {error}")
        return answer

    def _recorded(self, use: Use, stream: Stream, about: Object, note: str, begun: float) -> Stream:
        """The stream, which is counted at its end, with its length in an Event."""
        size, outcome = 0, UseOutcome.ANSWERED

        async def chunks() -> AsyncGenerator[bytes, None]:
            nonlocal size, outcome
            try:
                async for chunk in stream.chunks:
                    size += len(chunk)
                    yield chunk
            except HypercobaltError:
                outcome = UseOutcome.UNAVAILABLE
                raise
            except Exception:  # counted here, handled where the stream is sent
                outcome = UseOutcome.FAILED
                raise

        async def ended() -> None:
            self.under_way -= 1
            self.counts.add(use.name, outcome)
            await close(stream)
            seconds = self.clock.monotonic() - begun
            try:
                await self.records.store(about, ENDED, f"{note} for {seconds:.1f} s: {size} bytes")
            except HypercobaltError as error:
                log.warning("use_not_recorded", use=note, error=str(error))

        return replace(stream, chunks=chunks(), close=ended)

    def _refused(self, about: Object, who: Requester, what: str, answer: Answer) -> Answer:
        why = answer.body.decode(errors="replace").strip()
        self.records.refused(about, f"user {who.user} was refused {what}: {why}")
        return answer


async def _handled(use: Use, call: UseRequest) -> Answer | Stream:
    """Call the use; turn its errors into answers."""
    try:
        async with asyncio.timeout(use.seconds):
            return await use.handle(call)
    except TimeoutError:
        return text(504, f"no answer within {use.seconds:g} s; try again")
    except RefusedUseError as error:
        return text(HTTPStatus.BAD_REQUEST, str(error))
    except BusyError as error:
        return text(HTTPStatus.TOO_MANY_REQUESTS, str(error))
    except HypercobaltError as error:
        return text(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
    except Exception:  # the outermost frame of a request: a bug there must not end the agent
        log.exception("use_failed", use=use.name)
        return text(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error; see the log of the agent")


def _parameters(request: Request, known: frozenset[str]) -> Mapping[str, str]:
    """The parameters of the query.

    Raises:
        RefusedUseError: one is unknown, there twice, or no text.
    """
    try:
        pairs = parse_qsl(
            request.query,
            keep_blank_values=True,
            strict_parsing=bool(request.query),
            errors="strict",
            max_num_fields=_MOST_PARAMETERS,
        )
    except ValueError as error:
        raise RefusedUseError(f"the query cannot be read: {error}") from error
    found: dict[str, str] = {}
    for name, value in pairs:
        if name not in known:
            there = ", ".join(sorted(known)) or "none"
            raise RefusedUseError(f"parameter {name[:64]!r} is unknown; there are: {there}")
        if name in found:
            raise RefusedUseError(f"parameter {name!r} is given twice")
        found[name] = value
    return found
