"""The pages of virt-api: one for each webhook.

Whoever reaches the port may ask: an API server shows webhooks no identity, and a verdict holds
nothing that the sender has not sent. What a body costs is bounded: its length, how many are in
memory at once, and large ones are judged one at a time beside the loop.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from hypercobalt.errors import InvalidRequestError
from hypercobalt.logs import get_logger
from hypercobalt.runtime.listener import Bounds
from hypercobalt.runtime.routes import Answer, Request, Route, text
from hypercobalt.virt.api.answering import answer
from hypercobalt.virt.api.counts import ReviewCounts
from hypercobalt.virt.api.webhooks import WEBHOOKS, Admission, Webhook

log = get_logger(__name__)

MOST_BYTES: Final = 8 * 2**20
"""A body: an object of the 3 MiB that an API server takes, that of before, and the request."""
SECONDS: Final = 9.0
"""Until an answer: an API server waits for 10 s."""
BOUNDS: Final = Bounds(places=24)
"""Connections: bodies of 192 MiB in memory at most; half of them of one address."""

_LARGE: Final = 64 * 1024  # bytes; what is done with less takes a few milliseconds
_JSON: Final = "application/json"


class WebhookPages:
    """Answers the requests of API servers.

    Args:
        admission: the verdicts.
        counts: of the process's metrics.
    """

    def __init__(self, admission: Admission, counts: ReviewCounts) -> None:
        self._admission, self._counts = admission, counts
        self._alone = asyncio.Lock()  # several threads would crowd out the loop

    @property
    def routes(self) -> tuple[Route, ...]:
        """Return one route for each webhook."""
        return tuple(
            Route(one.path, partial(self._handle, one), "POST", MOST_BYTES, SECONDS)
            for one in WEBHOOKS
        )

    async def _handle(self, webhook: Webhook, request: Request) -> Answer:
        with self._counts.timed(webhook.name):
            made = await self._answer(webhook, request)
        self._counts.add(webhook.name, made.status)
        return made

    async def _answer(self, webhook: Webhook, request: Request) -> Answer:
        try:
            return Answer(200, await self._answered(webhook, request.body), _JSON)
        except InvalidRequestError as error:
            log.warning("review_refused", webhook=webhook.name, error=str(error))
            return text(400, str(error))
        except Exception:  # a bug must end one request; the API server refuses the write
            log.exception("review_failed", webhook=webhook.name)
            return text(500, f"{webhook.name} failed; see the log of virt-api")

    async def _answered(self, webhook: Webhook, body: bytes) -> bytes:
        if len(body) < _LARGE:
            return answer(webhook, self._admission, body)
        async with self._alone:
            return await asyncio.to_thread(answer, webhook, self._admission, body)
