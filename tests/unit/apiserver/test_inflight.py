"""Fairness: what a flooding user may hold, and whose requests go on."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from hypercobalt.apiserver.errors import StatusError
from hypercobalt.apiserver.inflight import (
    ANSWER_BYTES_OF_A_HOST,
    AT_ONCE,
    Inflight,
    Limit,
    Share,
    Turns,
    count_answer,
)
from hypercobalt.apiserver.requests.request import PIECE, Request, Response, User


def fill(limit: Limit, user: str) -> int:
    """Take places until none is left for this user; returns their number."""
    before = limit.used
    with contextlib.suppress(StatusError):
        while True:
            limit.take(user, 1)
    return limit.used - before


def test_a_refusal_has_a_retry_after() -> None:
    with pytest.raises(StatusError) as refused:
        Limit(0, sure=0).take("a", 1)
    assert (refused.value.code, refused.value.headers) == (429, {"Retry-After": "1"})


def test_one_user_has_half_of_the_places() -> None:
    assert fill(Limit(200, sure=8), "a") == 100


def test_a_user_is_sure_of_some_places_when_others_have_all() -> None:
    limit = Limit(200, sure=8)
    for number in range(30):
        fill(limit, f"agent-{number}")
    assert fill(limit, "operator") == 8


def test_user_of_one_host_has_few_places_however_many_are_free() -> None:
    limit = Limit(200, sure=8)
    for _ in range(4):
        limit.take("agent on kvm-a", 1, 4)
    with pytest.raises(StatusError):
        limit.take("agent on kvm-a", 1, 4)
    limit.take("agent on kvm-b", 1, 4)


def test_share_is_given_back_by_its_last_holder() -> None:
    limit = Limit(4, sure=0)
    share = Share(limit, "a")
    share.take(2)
    share.hold()  # the write; its answer holds it as well
    share.release()
    assert limit.used == 2
    share.release()
    share.release()
    assert limit.used == 0


NODE = "authentication.kubernetes.io/node-name"
KUBELET = User("system:node:kvm-a", groups=("system:nodes",))
AGENT, OVS_AGENT, OTHER = (
    User(f"system:serviceaccount:n:{name}", extra={NODE: (node,)})
    for name, node in (("agent", "kvm-a"), ("ovs-agent", "kvm-a"), ("agent", "kvm-b"))
)


def answer_to(user: User, inflight: Inflight, size: int, method: str = "GET") -> Request:
    request = Request(method, "/", {}, {}, user, room=inflight.room(user))
    count_answer(request, Response(200, bytes(10), rest_size=size))
    return request


def test_long_answers_to_all_users_of_a_host_share_its_room() -> None:
    inflight, half = Inflight(), ANSWER_BYTES_OF_A_HOST // 2
    answer_to(AGENT, inflight, half)
    for user in (AGENT, OVS_AGENT, KUBELET):
        with pytest.raises(StatusError) as refused:
            answer_to(user, inflight, half)
        assert refused.value.code == 429
        answer_to(user, inflight, PIECE - 10)  # a short one
    for user in (OTHER, User("admin")):
        answer_to(user, inflight, half)


def test_write_whose_answer_has_no_room_is_not_refused_as_one_to_repeat() -> None:
    inflight = Inflight()
    with pytest.raises(StatusError) as refused:
        answer_to(AGENT, inflight, ANSWER_BYTES_OF_A_HOST, "PATCH")
    assert (refused.value.code, refused.value.reason) == (504, "Timeout")


def test_answers_to_users_of_no_host_are_not_counted() -> None:
    assert answer_to(User("admin"), Inflight(), ANSWER_BYTES_OF_A_HOST).room is None


@pytest.mark.parametrize("crowd", [2, 5, 20])
def test_flooding_users_leave_places_for_others(crowd: int) -> None:
    limit = Limit(200, sure=1)
    for number in range(crowd):
        fill(limit, f"agent-{number}")
    limit.take("operator", 1)


def test_places_that_are_given_back_can_be_taken_again() -> None:
    limit = Limit(4, sure=0)
    assert fill(limit, "a") == 2
    limit.give_back("a", 2)
    assert (limit.used, fill(limit, "b")) == (0, 2)


async def order_of(*users: str) -> list[str]:
    """The order in which requests of these users go on; all arrive at once."""
    turns, began = Turns(), list[str]()

    async def request(user: str) -> None:
        await turns.wait(user)
        began.append(user)

    async with asyncio.timeout(5):
        await asyncio.gather(*(request(user) for user in users))
    return began


async def test_few_requests_go_on_as_they_came() -> None:
    assert await order_of("a", "b", "a") == ["a", "b", "a"]


async def test_a_request_waits_for_a_few_of_a_flooding_user() -> None:
    began = await order_of(*["agent"] * 500, "operator")
    assert began.index("operator") <= AT_ONCE + 1
    assert len(began) == 501


async def test_users_that_wait_take_turns() -> None:
    began = await order_of(*["a"] * 100, *["b"] * 100)
    rest = began[AT_ONCE:]
    assert rest[:8] == ["a", "b"] * 4


async def test_a_turn_of_the_loop_begins_a_few_requests() -> None:
    turns, began = Turns(), list[int]()

    async def request(number: int) -> None:
        await turns.wait("agent")
        began.append(number)

    tasks = [asyncio.create_task(request(number)) for number in range(100)]
    counts: list[int] = []
    while not counts or counts[-1] < len(tasks):
        await asyncio.sleep(0)
        counts.append(len(began))

    assert began == list(range(100))
    assert max(b - a for a, b in zip([0, *counts], counts, strict=False)) <= AT_ONCE


async def test_cancelled_requests_block_no_others() -> None:
    turns = Turns()
    tasks = [asyncio.create_task(turns.wait("agent")) for _ in range(100)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    async with asyncio.timeout(5):
        await turns.wait("operator")
