"""Fairness between users: how many requests and bytes of bodies are under way, and whose go on.

A user may hold as much of a limit as it leaves free for the others; beyond that, a request gets
429 with Retry-After. Requests that hold a place are begun a few at a time, users in turn, so a
request waits for a few of a flooding user and not for all of them. Watches are counted apart, with
what their selectors hold; health checks are neither counted nor kept waiting. Of long answers the
bytes that are not sent yet are counted for each host, for all users together that are bound to it.

Source: kube-apiserver's --max-requests-inflight, --max-mutating-requests-inflight and API Priority
and Fairness, whose flows are users.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import dataclass

from hypercobalt.apiserver import errors, health
from hypercobalt.apiserver.requests.request import PIECE, Request, Response, User

READS, WRITES = 400, 200  # as kube-apiserver
BODY_BYTES = 64 * 2**20  # 21 bodies of the largest size
WATCHES = 100_000
SELECTOR_CHARACTERS = 64  # that weigh as much as a watch
OF_A_HOST = 32  # requests of a sort, or watches, of a user that is bound to one Node
SURE, SURE_BYTES = 8, 64 * 2**10  # requests or watches, and bytes of bodies, of each user
ANSWER_BYTES = 256 * 2**20  # of all hosts
ANSWER_BYTES_OF_A_HOST = 32 * 2**20  # two lists of what one of its users may store
READ_METHODS = ("GET", "HEAD", "OPTIONS")
AT_ONCE = 16  # requests begun in a turn of the loop, some 10 ms of work; then newcomers are seen


class Limit:
    """So much of something, shared by all users: one may have half, each of two a third.

    Args:
        most: of it, but for what each user is sure of.
        sure: what each user may have even where others have all of it.
    """

    def __init__(self, most: int, *, sure: int) -> None:
        self._most, self._sure = most, sure
        self._by_user = Counter[str]()
        self.used = 0

    def take(self, user: str, amount: int, most: int | None = None) -> None:
        """Take some of it, if the user then leaves as much as it has, or has no more than is sure.

        Args:
            user: who takes it.
            amount: how much.
            most: that this user may have, however much is free.

        Raises:
            StatusError: 429.
        """
        left = self._most - self.used - amount
        wanted = self._by_user[user] + amount
        if wanted > max(left, self._sure) or (most is not None and wanted > most):
            raise errors.too_many_requests()
        self.used += amount
        self._by_user[user] += amount

    def give_back(self, user: str, amount: int) -> None:
        self.used -= amount
        self._by_user[user] -= amount
        if not self._by_user[user]:
            del self._by_user[user]


class Turns:
    """Lets waiting requests go on: `AT_ONCE` in a turn of the event loop, users in turn."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # the next user first
        self._left = AT_ONCE

    async def wait(self, user: str) -> None:
        """Wait until a request of this user may go on; at once where few came."""
        loop = asyncio.get_running_loop()
        if self._left == AT_ONCE and not self._waiting:
            loop.call_soon(self._go_on)
        if self._left and not self._waiting:
            self._left -= 1
            return
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(user, deque()).append(turn)
        await turn

    def _go_on(self) -> None:
        self._left = AT_ONCE
        while self._left and self._waiting:
            user = next(iter(self._waiting))
            turns = self._waiting.pop(user)
            turn = turns.popleft()
            if turns:
                self._waiting[user] = turns  # behind the others
            if not turn.done():  # its client may have gone
                turn.set_result(None)
                self._left -= 1
        if self._left < AT_ONCE:
            asyncio.get_running_loop().call_soon(self._go_on)


@dataclass(slots=True)
class Share:
    """The share of a limit that one request holds.

    Args:
        most: see `Limit.take`.
    """

    limit: Limit
    user: str
    most: int | None = None
    amount: int = 0
    holders: int = 1

    def take(self, amount: int) -> None:
        """Take more of the limit.

        Raises:
            StatusError: 429 where the limit is reached.
        """
        self.limit.take(self.user, amount, self.most)
        self.amount += amount

    def give(self, amount: int) -> None:
        """Give some of it back."""
        amount = min(amount, self.amount)
        self.limit.give_back(self.user, amount)
        self.amount -= amount

    def hold(self) -> None:
        """Have one more holder."""
        self.holders += 1

    def release(self) -> None:
        """Give all of it back once every holder has released it; a further call does nothing."""
        self.holders -= 1
        if self.amount and self.holders <= 0:
            self.limit.give_back(self.user, self.amount)
            self.amount = 0


class Inflight:
    """The limits of one server."""

    def __init__(self) -> None:
        self.reads, self.writes = Limit(READS, sure=SURE), Limit(WRITES, sure=SURE)
        self.watches = Limit(WATCHES, sure=SURE)
        self.bodies, self.turns = Limit(BODY_BYTES, sure=SURE_BYTES), Turns()
        self.answers = Limit(ANSWER_BYTES, sure=SURE_BYTES)

    def share(self, request: Request) -> Share:
        """Return the share of the limit for this sort of request: read, watch or write."""
        limit = self.writes
        if is_read(request):
            limit = self.watches if request.flag("watch") else self.reads
        return Share(limit, request.user.flow, OF_A_HOST if request.user.is_of_a_host else None)

    def room(self, user: User) -> Share | None:
        """Return the room for an answer to a user; None where it is not counted."""
        return Share(self.answers, user.host, ANSWER_BYTES_OF_A_HOST) if user.host else None


def is_read(request: Request) -> bool:
    return request.method in READ_METHODS


def count_answer(request: Request, answer: Response) -> None:
    """Count a long answer until it is sent.

    Raises:
        StatusError: 429 where too much is under way; 504 for a write, since it is made.
    """
    if request.room is None or answer.size <= PIECE:
        return
    try:
        request.room.take(answer.size)
    except errors.StatusError:
        if is_read(request):
            raise
        raise errors.timed_out() from None


def weight(request: Request) -> int:
    """How many places a request takes."""
    if is_read(request) and request.path.startswith(health.ROOTS):
        return 0
    if not request.flag("watch"):
        return 1
    characters = len(request.text("labelSelector")) + len(request.text("fieldSelector"))
    return 1 + characters // SELECTOR_CHARACTERS
