"""Admits identified requesters to what they have a right to, as the API server decides.

A requester shows a certificate of the cluster's client CA, which the TLS handshake has verified, or
a token for the audience of this server. A token for another audience, such as a person's own for
the API server, is refused: whoever captures this server could use it elsewhere. The right is to a
verb on a subresource, by SubjectAccessReview. Nothing is cached, so a right that is taken away is
gone at the next request.

One user may be named that asks for others: the right is then that of whom it names, and not its
own. From everyone else such a name counts for nothing.

Source: k8s.io/apiserver, pkg/authentication/request/x509 (CommonNameUserConversion); TokenReview,
`status.audiences`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from hypercobalt.api.access import (
    ResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
    TokenReview,
    TokenReviewSpec,
)
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.runtime.client.kube import Kube
from hypercobalt.runtime.forwarded import FORWARDED, forwarded
from hypercobalt.runtime.routes import Answer, Request, Requester, Route, text

log = get_logger(__name__)

AUTHENTICATED: Final = "system:authenticated"
_AT_ONCE: Final = 4
"""Reviews, however many clients there are; those of tokens do not hold up a certificate's."""

REFUSED_SECONDS: Final = 0.5
"""Seconds that a refused token keeps its place: a flood of them is eight reviews a second."""


def _places() -> asyncio.Semaphore:
    return asyncio.Semaphore(_AT_ONCE)


@dataclass(slots=True)
class ResourceGuard:
    """Authenticates and authorizes a requester.

    Args:
        kube: may create TokenReviews and SubjectAccessReviews.
        audience: the one that a token must be for; no other server has the same.
        forwarder: user that asks for others, and names them; "" is nobody.
    """

    kube: Kube
    audience: str
    forwarder: str = ""
    _rights: asyncio.Semaphore = field(default_factory=_places, init=False)
    _tokens: asyncio.Semaphore = field(default_factory=_places, init=False)

    async def admits(self, request: Request, route: Route | None) -> Requester | Answer:
        """The requester, or the refusal: 401, 403, or 503 while the API server does not decide."""
        try:
            return await self._admits(request, route)
        except HypercobaltError as error:
            log.warning("access_not_reviewed", path=request.path, error=str(error))
            return text(503, f"the API server does not decide on this request: {error}")

    async def _admits(self, request: Request, route: Route | None) -> Requester | Answer:
        found = (
            of_certificate(request.certificate)
            if request.certificate
            else await self._of_token(request.token)
        )
        if isinstance(found, Requester) and self.forwarder and found.user == self.forwarder:
            found = forwarded(request.headers.get(FORWARDED, ""))
        right = route.right(request.path) if route is not None else None
        if isinstance(found, Answer) or right is None:
            return found
        return await allowed(self.kube, found, right, self._rights)

    async def _of_token(self, token: str) -> Requester | Answer:
        if not token:
            return text(
                401,
                "show a client certificate of the cluster's client CA, or a token for the audience "
                f"{self.audience}",
            )
        spec = TokenReviewSpec(token=token, audiences=(self.audience,))
        async with self._tokens:
            review = (await self.kube.create(TokenReview(spec=spec))).status
            good = review.authenticated and self.audience in review.audiences
            if not good:
                await asyncio.sleep(REFUSED_SECONDS)
        if not good:
            return text(401, f"the token is not valid, or not for the audience {self.audience}")
        user = review.user
        return Requester(user.username, user.groups, user.uid, user.extra)


async def allowed(
    kube: Kube, who: Requester, access: ResourceAttributes, places: asyncio.Semaphore
) -> Requester | Answer:
    """The requester, or the refusal of one who lacks a right.

    Args:
        kube: may create SubjectAccessReviews.
        who: authenticated.
        access: the right.
        places: bounds how many reviews there are at once.

    Raises:
        HypercobaltError: the API server does not decide.
    """
    spec = SubjectAccessReviewSpec(
        user=who.user,
        uid=who.uid,
        groups=who.groups,
        extra=dict(who.extra),
        resourceAttributes=access,
    )
    async with places:
        answer = (await kube.create(SubjectAccessReview(spec=spec))).status
    if answer.allowed:
        return who
    return text(403, f"user {who.user} may not {access}")


def of_certificate(peer: Mapping[str, object]) -> Requester | Answer:
    """The requester of a verified certificate: its common name, in the groups of its organizations.

    A subject with several common names is refused: the API server takes the last of them, others
    the first.
    """
    names = common_names(peer)
    if len(names) != 1 or not names[0]:
        return text(401, f"the client certificate must have one common name, not {len(names)}")
    groups = tuple(value for kind, value in _subject(peer) if kind == "organizationName")
    return Requester(names[0], (*groups, AUTHENTICATED))


def common_names(peer: Mapping[str, object]) -> tuple[str, ...]:
    """The common names of a verified certificate, as `ssl.getpeercert` gives it."""
    return tuple(value for kind, value in _subject(peer) if kind == "commonName")


def _subject(peer: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Its attributes; `ssl` gives them in tuples of tuples."""
    for relative in cast("tuple[tuple[tuple[str, str], ...], ...]", peer.get("subject", ())):
        yield from relative
