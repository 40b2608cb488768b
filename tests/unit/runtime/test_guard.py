"""Who may read the metrics: verdicts of the API server, and for how long they count."""

from __future__ import annotations

import asyncio
import ssl
import sys
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest
from tests.admission import admitted

from hypercobalt.api.access import (
    SubjectAccessReview,
    SubjectAccessReviewStatus,
    TokenReview,
    TokenReviewStatus,
    UserInfo,
)
from hypercobalt.api.meta import Object
from hypercobalt.errors import TransientError
from hypercobalt.runtime import Kube
from hypercobalt.runtime.guard import KEPT, guard
from hypercobalt.tls.self_signed import self_signed

AUDIENCE, API = "these pages", "the API server"


@dataclass
class Reviews:
    """The part of a client that the guard uses: `reader` may read, `user` is known.

    A token is a name, of a token for these pages, or `NAME for AUDIENCE`.
    """

    reviewed: list[str] = field(default_factory=list[str])
    at_once: int = 0
    most: int = 0
    away: bool = False
    ignores_audiences: bool = False

    async def create(self, review: Object) -> Object:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        if self.away:
            raise TransientError("the API server is away")
        if isinstance(review, TokenReview):
            token, audiences = review.spec.token, review.spec.audiences
            self.reviewed.append(token)
            name, _, audience = token.partition(" for ")
            valid = name in {"reader", "user"} and (audience or AUDIENCE) in (audiences or (API,))
            shared = () if self.ignores_audiences else (audience or AUDIENCE,)
            return TokenReview(
                status=TokenReviewStatus(
                    authenticated=valid or (self.ignores_audiences and audience == API),
                    user=UserInfo(username=name),
                    audiences=shared if valid else (),
                )
            )
        assert isinstance(review, SubjectAccessReview)
        about = review.spec.nonResourceAttributes
        assert about is not None
        allowed = review.spec.user == "reader" and about.verb == "get"
        return SubjectAccessReview(status=SubjectAccessReviewStatus(allowed=allowed))


@dataclass
class HeldClock:
    at: float = 100.0

    def monotonic(self) -> float:
        return self.at


@pytest.mark.parametrize(
    ("token", "status"), [("", 401), ("stranger", 401), ("user", 403), ("reader", 200)]
)
async def test_only_a_user_with_the_right_is_let_in(token: str, status: int) -> None:
    reviews = Reviews()
    assert await admitted(guard(cast("Kube", reviews), AUDIENCE), token) == status


@pytest.mark.parametrize("ignores_audiences", [False, True])
@pytest.mark.parametrize("audience", [API, "another"])
async def test_token_for_another_server_is_refused(audience: str, ignores_audiences: bool) -> None:
    """Whoever answers in the place of these pages could use it there."""
    pages = guard(cast("Kube", Reviews(ignores_audiences=ignores_audiences)), AUDIENCE)
    assert await admitted(pages, f"reader for {audience}") == 401


@pytest.mark.parametrize(
    ("token", "status"),
    [
        ("reader", 200),
        (f"reader for {API}", 200),
        (f"user for {API}", 403),
        ("reader for another", 401),
    ],
)
async def test_setting_accepts_tokens_for_the_api_server_as_well(token: str, status: int) -> None:
    pages = guard(cast("Kube", Reviews()), AUDIENCE, accepts_api_server_tokens=True)
    assert await admitted(pages, token) == status


async def test_right_to_read_is_no_right_to_post() -> None:
    pages = guard(cast("Kube", Reviews()), AUDIENCE)
    assert [await admitted(pages, "reader", verb) for verb in ("get", "post")] == [200, 403]


@pytest.mark.parametrize(("token", "status"), [("reader", 200), ("user", 403)])
async def test_a_verdict_on_a_valid_token_counts_for_a_while(token: str, status: int) -> None:
    reviews, clock = Reviews(), HeldClock()
    pages = guard(cast("Kube", reviews), AUDIENCE, clock=clock)  # type: ignore[arg-type]
    for _ in range(3):
        assert await admitted(pages, token) == status
    assert reviews.reviewed == [token]
    clock.at += (KEPT[status] + timedelta(seconds=1)).total_seconds()
    assert await admitted(pages, token) == status
    assert reviews.reviewed == [token, token]


async def test_a_flood_of_invalid_tokens_does_not_push_out_a_scraper() -> None:
    reviews = Reviews()
    pages = guard(cast("Kube", reviews), AUDIENCE)
    assert await admitted(pages, "reader") == 200
    floods = [admitted(pages, f"stranger-{number}") for number in range(200)]
    assert set(await asyncio.gather(*floods)) == {401}
    reviews.away = True
    assert await admitted(pages, "reader") == 200
    assert reviews.most <= 4


async def test_without_the_api_server_no_new_token_is_accepted_and_reviews_are_retried() -> None:
    reviews = Reviews(away=True)
    pages = guard(cast("Kube", reviews), AUDIENCE)
    assert await admitted(pages, "reader") == 500
    reviews.away = False
    assert await admitted(pages, "reader") == 200


def test_a_certificate_that_was_inherited_is_used_and_closed() -> None:
    descriptor = self_signed()
    made = guard(cast("Kube", Reviews()), AUDIENCE, descriptor)
    assert isinstance(made.tls, ssl.SSLContext)
    assert not Path(f"/proc/self/fd/{descriptor}").exists()


async def test_node_agent_does_not_import_cryptography() -> None:
    code = (
        "import sys, hypercobalt.node_agent.__main__, hypercobalt.runtime.guard; "
        "sys.exit('cryptography' in sys.modules)"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    assert await process.wait() == 0
