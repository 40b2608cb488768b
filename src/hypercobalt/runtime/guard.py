"""Restricts pages to authorized requesters, by reviews of the API server.

A page is served over TLS with a certificate made at start, so that a token is never sent in the
clear; scrapers in a cluster do not verify it, as with any controller's. Other callers can, where
the certificate is in files. Whoever answers in the
place of a page learns the token, so it has to be for the audience of such pages: it is good for
nothing else. The token is reviewed, and its user must be allowed the verb on the path: `get` for
`/metrics`. Both answers are kept for a while, and few are requested at once: ten thousand agents
that are scraped twice a minute must not load the API server.

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
from pathlib import Path
from typing import Final

from hypercobalt.api.access import (
    NonResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
    TokenReview,
    TokenReviewSpec,
    UserInfo,
)
from hypercobalt.errors import HypercobaltError
from hypercobalt.launch import own_certificate
from hypercobalt.logs import get_logger
from hypercobalt.runtime.certificate_files import CertificateFiles
from hypercobalt.runtime.client.kube import Kube
from hypercobalt.runtime.clock import Clock, SystemClock
from hypercobalt.runtime.endpoints import Guard
from hypercobalt.runtime.routes import Answer, Request, Requester, Route, text
from hypercobalt.tls.server import server_context

log = get_logger(__name__)

METRICS: Final = "hypercobalt-metrics"
"""Audience of tokens for the `/metrics` of the operator and of all agents."""

KEPT: Final = {200: timedelta(minutes=1), 403: timedelta(seconds=30)}
"""How long a verdict on a valid token counts. Tokens that are not valid are many, and not kept."""

_MOST_KEPT: Final = 64
_AT_ONCE: Final = 4


def guard(
    kube: Kube,
    audience: str,
    certificate: int | Path | None = None,
    *,
    accepts_api_server_tokens: bool = False,
    clock: Clock | None = None,
) -> Guard:
    """A guard that has tokens reviewed by the API server.

    Args:
        kube: may create TokenReviews and SubjectAccessReviews; writes whether this process leads or
            not.
        audience: the one that a token must be for.
        certificate: descriptor of a certificate and its key in PEM form, which is closed; or the
            directory of `CertificateFiles`; None makes one.
        accepts_api_server_tokens: those are accepted as well; whoever answers in the place of the
            pages can use them at the API server.
        clock: for how long a verdict counts.

    Raises:
        ConfigurationError: the files cannot be used.
    """
    verdicts = _Verdicts(kube, audience, accepts_api_server_tokens, clock or SystemClock())
    return Guard(_context(certificate), verdicts.of)


_Verdict = Requester | Answer


@dataclass(slots=True)
class _Verdicts:
    """Verdicts by token, path and verb; tokens are kept as digests only."""

    kube: Kube
    audience: str
    accepts_api_server_tokens: bool
    clock: Clock
    kept: dict[bytes, tuple[float, _Verdict]] = field(
        default_factory=dict[bytes, tuple[float, _Verdict]]
    )
    turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def of(self, request: Request, _: Route | None) -> _Verdict:
        """Who has this token, if they are allowed this verb on this path; else the refusal."""
        token, path, verb = request.token, request.path, request.verb
        if not token:
            return text(401, f"show a token for the audience {self.audience}")
        key = hashlib.sha256(f"{verb} {path} {token}".encode()).digest()
        if (known := self._known(key)) is not None:
            return known
        async with self.turn:
            if (known := self._known(key)) is not None:
                return known
            verdict = await self._reviewed(token, path, verb)
        self._keep(key, verdict)
        return verdict

    def _known(self, key: bytes) -> _Verdict | None:
        until, verdict = self.kept.get(key, (0.0, None))
        return verdict if self.clock.monotonic() < until else None

    def _keep(self, key: bytes, verdict: _Verdict) -> None:
        counts = KEPT.get(verdict.status if isinstance(verdict, Answer) else 200)
        if counts is None:
            return
        self.kept.pop(key, None)
        if len(self.kept) >= _MOST_KEPT:
            del self.kept[next(iter(self.kept))]  # the oldest
        self.kept[key] = self.clock.monotonic() + counts.total_seconds(), verdict

    async def _reviewed(self, token: str, path: str, verb: str) -> _Verdict:
        try:
            user = await _identified(self.kube, token, (self.audience,))
            if user is None and self.accepts_api_server_tokens:
                user = await _identified(self.kube, token, ())
            if user is None:
                return text(401, f"the token is not valid, or not for the audience {self.audience}")
            return await _allowed(self.kube, user, path, verb)
        except HypercobaltError as error:
            log.warning("access_not_reviewed", path=path, error=str(error))
            return Answer(500)


async def _identified(kube: Kube, token: str, audiences: tuple[str, ...]) -> UserInfo | None:
    """The user of a token for one of these audiences; without any for the API server."""
    review = await kube.create(TokenReview(spec=TokenReviewSpec(token=token, audiences=audiences)))
    found = review.status
    # Without them, the reviewer knows no audiences: it has checked the token as the API server's.
    meant = not audiences or not set(audiences).isdisjoint(found.audiences)
    return found.user if found.authenticated and meant else None


async def _allowed(kube: Kube, user: UserInfo, path: str, verb: str) -> _Verdict:
    spec = SubjectAccessReviewSpec(
        user=user.username,
        uid=user.uid,
        groups=user.groups,
        nonResourceAttributes=NonResourceAttributes(path=path, verb=verb),
    )
    answer = await kube.create(SubjectAccessReview(spec=spec))
    if not answer.status.allowed:
        return Answer(403)
    return Requester(user.username, user.groups, user.uid)


def _context(certificate: int | Path | None) -> ssl.SSLContext:
    """A server's context; a key that is not in files is on no disk."""
    if isinstance(certificate, Path):
        return CertificateFiles(certificate).context
    if certificate is None:
        certificate = own_certificate()
    context = server_context()
    try:
        context.load_cert_chain(f"/proc/self/fd/{certificate}")
    finally:
        os.close(certificate)
    return context
