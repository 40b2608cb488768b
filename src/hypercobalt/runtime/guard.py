"""Restricts pages to those who may use them, as the API server decides.

A page is served over TLS with a certificate made at start, so that a token is never sent in the
clear; scrapers in a cluster do not verify it, as with any controller's. The token is reviewed, and
its user must be allowed the verb on the path: `get` for `/metrics`. Both answers are kept for a
while, and few are requested at once: ten thousand agents that are scraped twice a minute must not
load the API server.

Source: sigs.k8s.io/controller-runtime, pkg/metrics/filters, WithAuthenticationAndAuthorization,
which keeps them for a minute (tokens) and 30 s (refused users).
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import ssl
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from hypercobalt.api.access import (
    NonResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
    TokenReview,
    TokenReviewSpec,
)
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.runtime.client.kube import Kube
from hypercobalt.runtime.clock import Clock, SystemClock
from hypercobalt.runtime.endpoints import Guard

log = get_logger(__name__)

KEPT: Final = {200: timedelta(minutes=1), 403: timedelta(seconds=30)}
"""How long a verdict on a valid token counts. Tokens that are not valid are many, and not kept."""

_MOST_KEPT: Final = 64
_AT_ONCE: Final = 4


def guard(kube: Kube, certificate: int | None = None, *, clock: Clock | None = None) -> Guard:
    """A guard that has tokens reviewed by the API server.

    Args:
        kube: may create TokenReviews and SubjectAccessReviews; writes whether this process leads or
            not.
        certificate: descriptor of a certificate and its key in PEM form, which is closed; None
            makes one.
        clock: for how long a verdict counts.
    """
    return Guard(_context(certificate), _Verdicts(kube, clock or SystemClock()).of)


@dataclass(slots=True)
class _Verdicts:
    """HTTP statuses by token, path and verb; tokens are kept as digests only."""

    kube: Kube
    clock: Clock
    kept: dict[bytes, tuple[float, int]] = field(default_factory=dict[bytes, tuple[float, int]])
    turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def of(self, token: str, path: str, verb: str) -> int:
        """The HTTP status for this verb with this token on this path; 200 admits it."""
        if not token:
            return 401
        key = hashlib.sha256(f"{verb} {path} {token}".encode()).digest()
        if (known := self._known(key)) is not None:
            return known
        async with self.turn:
            if (known := self._known(key)) is not None:
                return known
            verdict = await self._reviewed(token, path, verb)
        if verdict in KEPT:
            self._keep(key, verdict)
        return verdict

    def _known(self, key: bytes) -> int | None:
        until, verdict = self.kept.get(key, (0.0, 0))
        return verdict if self.clock.monotonic() < until else None

    def _keep(self, key: bytes, verdict: int) -> None:
        self.kept.pop(key, None)
        if len(self.kept) >= _MOST_KEPT:
            del self.kept[next(iter(self.kept))]  # the oldest
        self.kept[key] = self.clock.monotonic() + KEPT[verdict].total_seconds(), verdict

    async def _reviewed(self, token: str, path: str, verb: str) -> int:
        try:
            return await _review(self.kube, token, path, verb)
        except HypercobaltError as error:
            log.warning("access_not_reviewed", path=path, error=str(error))
            return 500


async def _review(kube: Kube, token: str, path: str, verb: str) -> int:
    review = await kube.create(TokenReview(spec=TokenReviewSpec(token=token)))
    if not review.status.authenticated:
        return 401
    user = review.status.user
    spec = SubjectAccessReviewSpec(
        user=user.username,
        uid=user.uid,
        groups=user.groups,
        nonResourceAttributes=NonResourceAttributes(path=path, verb=verb),
    )
    answer = await kube.create(SubjectAccessReview(spec=spec))
    return 200 if answer.status.allowed else 403


def _context(certificate: int | None) -> ssl.SSLContext:
    """A server's context; the key is on no disk."""
    if certificate is None:
        # Imported here: a node agent is given one, and does not carry the library.
        from hypercobalt.runtime.self_signed import self_signed  # noqa: PLC0415

        certificate = self_signed()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(f"/proc/self/fd/{certificate}")
    finally:
        os.close(certificate)
    return context
