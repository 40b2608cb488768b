"""Which requests are admitted to a resource, by the answers of reviews."""

from __future__ import annotations

import asyncio
import dataclasses
from dataclasses import dataclass, field
from typing import cast

import pytest
from msgspec.structs import replace

from hypercobalt.api.access import (
    ResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewStatus,
    TokenReview,
    TokenReviewStatus,
    UserInfo,
)
from hypercobalt.api.meta import Object
from hypercobalt.errors import TransientError
from hypercobalt.runtime import Kube
from hypercobalt.runtime.forwarded import FORWARDED, naming
from hypercobalt.runtime.resource_guard import REFUSED_SECONDS, ResourceGuard, of_certificate
from hypercobalt.runtime.routes import Answer, Request, Requester, Route

AUDIENCE = "hypercobalt-ovs-agent/kvm-a"
ACCESS = ResourceAttributes(
    verb="create",
    group="ovs.c5c3.io",
    resource="ovsnodes",
    subresource="trace",
    namespace="ovn-system",
    name="kvm-a",
)
JANE = {"subject": ((("organizationName", "net"),), (("commonName", "jane"),))}
AS_JANE = Requester("jane", ("net", "system:authenticated"))


@dataclass
class Reviews:
    """The part of a client that the guard uses."""

    token: TokenReviewStatus = field(default_factory=TokenReviewStatus)
    allowed: bool = True
    away: bool = False
    created: list[Object] = field(default_factory=list[Object])

    async def create(self, review: Object) -> Object:
        self.created.append(review)
        if self.away:
            raise TransientError("the API server is away")
        if isinstance(review, TokenReview):
            return replace(review, status=self.token)
        assert isinstance(review, SubjectAccessReview)
        return replace(review, status=SubjectAccessReviewStatus(allowed=self.allowed))


async def never(_: Request) -> Answer:
    raise AssertionError


def request(token: str = "", certificate: dict[str, object] | None = None) -> Request:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return Request("POST", "/v1/ovsnodes/kvm-a/trace", "", headers, certificate=certificate or {})


async def verdict(reviews: Reviews, received: Request) -> Requester | Answer:
    route = Route(received.path, never, method="POST", access=ACCESS)
    return await ResourceGuard(cast("Kube", reviews), AUDIENCE).admits(received, route)


def status(*audiences: str, valid: bool = True) -> TokenReviewStatus:
    user = UserInfo(username="robot", uid="u1", groups=("bots",))
    return TokenReviewStatus(authenticated=valid, user=user, audiences=audiences)


@pytest.mark.parametrize(
    ("answered", "code"),
    [
        (status(AUDIENCE), 200),
        (status("another", AUDIENCE), 200),
        (status(), 401),  # a reviewer without audiences: the token is the API server's
        (status("https://kubernetes.default.svc"), 401),
        (status(AUDIENCE, valid=False), 401),
    ],
)
async def test_token_must_be_for_this_audience(answered: TokenReviewStatus, code: int) -> None:
    reviews = Reviews(token=answered)
    found = await verdict(reviews, request("secret"))
    assert (found.status if isinstance(found, Answer) else 200) == code
    review = reviews.created[0]
    assert isinstance(review, TokenReview)
    assert review.spec.audiences == (AUDIENCE,)
    if code == 200:
        assert found == Requester("robot", ("bots",), "u1")


async def test_certificate_goes_before_a_token_and_needs_no_review() -> None:
    reviews = Reviews()
    assert await verdict(reviews, request("secret", dict(JANE))) == AS_JANE
    (review,) = reviews.created
    assert isinstance(review, SubjectAccessReview)
    assert (review.spec.user, review.spec.groups) == (AS_JANE.user, AS_JANE.groups)
    assert review.spec.resourceAttributes == ACCESS
    assert review.spec.nonResourceAttributes is None


async def test_right_is_reviewed_at_each_request() -> None:
    reviews = Reviews()
    assert await verdict(reviews, request(certificate=dict(JANE))) == AS_JANE
    reviews.allowed = False
    found = await verdict(reviews, request(certificate=dict(JANE)))
    assert isinstance(found, Answer)
    assert found.status == 403
    why = b"user jane may not create ovsnodes/trace kvm-a in namespace ovn-system\n"
    assert found.body == why


FORWARDER = "system:serviceaccount:kubevirt:kubevirt-apiserver"
ROBOT = Requester("robot", ("bots",), "u1", {"scopes": ("a", "b")})


async def forwarded(reviews: Reviews, header: str, user: str = FORWARDER) -> Requester | Answer:
    found = UserInfo(username=user, uid="u1", groups=("all",))
    reviews.token = TokenReviewStatus(authenticated=True, user=found, audiences=(AUDIENCE,))
    received = request("secret")
    sent = dataclasses.replace(received, headers={**received.headers, FORWARDED: header})
    route = Route(sent.path, never, method="POST", access=ACCESS)
    return await ResourceGuard(cast("Kube", reviews), AUDIENCE, FORWARDER).admits(sent, route)


async def test_right_is_that_of_the_person_a_forwarder_names() -> None:
    reviews = Reviews()
    assert await forwarded(reviews, naming(ROBOT)) == ROBOT
    review = reviews.created[-1]
    assert isinstance(review, SubjectAccessReview)
    spec = review.spec
    assert (spec.user, spec.groups, spec.uid) == (ROBOT.user, ROBOT.groups, ROBOT.uid)
    assert spec.extra == ROBOT.extra
    reviews.allowed = False
    found = await forwarded(reviews, naming(ROBOT))
    assert isinstance(found, Answer)
    assert (found.status, b"user robot may not" in found.body) == (403, True)


@pytest.mark.parametrize("header", ["", "e30=", "no base64", "W10=", naming(Requester(""))])
async def test_forwarder_that_names_no_user_is_refused(header: str) -> None:
    reviews = Reviews()
    found = await forwarded(reviews, header)
    assert isinstance(found, Answer)
    assert found.status == 401
    assert not any(isinstance(one, SubjectAccessReview) for one in reviews.created)


async def test_person_who_names_another_stays_oneself() -> None:
    found = await forwarded(Reviews(), naming(ROBOT), user="jane")
    assert isinstance(found, Requester)
    assert found.user == "jane"


async def test_flood_of_bad_tokens_is_few_reviews_and_keeps_no_certificate_waiting() -> None:
    reviews, route = Reviews(), Route("/", never, access=ACCESS)
    guard = ResourceGuard(cast("Kube", reviews), AUDIENCE)
    flood = [asyncio.create_task(guard.admits(request("bad"), route)) for _ in range(100)]
    await asyncio.sleep(0)
    async with asyncio.timeout(REFUSED_SECONDS):
        assert await guard.admits(request(certificate=dict(JANE)), route) == AS_JANE
    for task in flood:
        task.cancel()
    await asyncio.gather(*flood, return_exceptions=True)
    assert sum(isinstance(one, TokenReview) for one in reviews.created) <= 8


async def test_no_client_is_admitted_while_the_api_server_is_away() -> None:
    for received in (request("secret"), request(certificate=dict(JANE))):
        found = await verdict(Reviews(away=True), received)
        assert isinstance(found, Answer)
        assert found.status == 503


@pytest.mark.parametrize(
    "subject",
    [
        (),
        ((("organizationName", "system:masters"),),),
        ((("commonName", ""),),),
        ((("commonName", "jane"),), (("commonName", "admin"),)),
        ((("commonName", "jane"), ("commonName", "admin")),),
    ],
)
def test_certificate_without_just_one_name_is_refused(subject: object) -> None:
    found = of_certificate({"subject": subject})
    assert isinstance(found, Answer)
    assert found.status == 401


async def test_right_is_to_the_object_in_the_path() -> None:
    reviews = Reviews(token=status(AUDIENCE))
    wanted = ResourceAttributes(verb="get", resource="vmis", subresource="console")
    route = Route("/namespaces/{namespace}/vmis/{name}/console", never, access=wanted)
    received = Request("GET", "/namespaces/a/vmis/b/console", "", {}, certificate=JANE)
    assert await ResourceGuard(cast("Kube", reviews), AUDIENCE).admits(received, route) == AS_JANE
    review = reviews.created[-1]
    assert isinstance(review, SubjectAccessReview)
    assert review.spec.resourceAttributes == replace(wanted, namespace="a", name="b")
