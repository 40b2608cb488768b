"""What is under way at once: requests, and bytes of their bodies.

Beyond a limit a request gets 429 with Retry-After. One user takes half of a limit at most, so a
client gone wild leaves room for the others. Watches are counted apart, with what their selectors
hold; health checks are not.

Source: kube-apiserver's --max-requests-inflight and --max-mutating-requests-inflight.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hypercobalt.apiserver import errors, health
from hypercobalt.apiserver.requests.request import Request

READS, WRITES = 400, 200  # as kube-apiserver
BODY_BYTES = 64 * 2**20  # 21 bodies of the largest size
WATCHES = 100_000
SELECTOR_CHARACTERS = 64  # that weigh as much as a watch
READ_METHODS = ("GET", "HEAD", "OPTIONS")


class Limit:
    """So much of something, shared by all users."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_user = Counter[str]()
        self.used = 0

    def take(self, user: str, amount: int) -> None:
        """Raise a StatusError of 429 where that is more than is left, or than a user may have."""
        if self.used + amount > self._most or self._by_user[user] + amount > self._most // 2:
            raise errors.too_many_requests()
        self.used += amount
        self._by_user[user] += amount

    def give_back(self, user: str, amount: int) -> None:
        self.used -= amount
        self._by_user[user] -= amount
        if not self._by_user[user]:
            del self._by_user[user]


@dataclass(slots=True)
class Share:
    """What one request holds of a limit."""

    limit: Limit
    user: str
    amount: int = 0

    def take(self, amount: int) -> None:
        """Take more of it.

        Raises:
            StatusError: 429 where the limit is reached.
        """
        self.limit.take(self.user, amount)
        self.amount += amount

    def release(self) -> None:
        """Give all of it back; again is harmless."""
        if self.amount:
            self.limit.give_back(self.user, self.amount)
            self.amount = 0


class Inflight:
    """The limits of one server."""

    def __init__(self) -> None:
        self.reads, self.writes, self.watches = Limit(READS), Limit(WRITES), Limit(WATCHES)
        self.bodies = Limit(BODY_BYTES)

    def share(self, request: Request) -> Share:
        """What a request may take a place in: among those of its sort."""
        limit = self.writes
        if is_read(request):
            limit = self.watches if request.flag("watch") else self.reads
        return Share(limit, request.user.name)


def is_read(request: Request) -> bool:
    return request.method in READ_METHODS


def weight(request: Request) -> int:
    """How many places a request takes."""
    if is_read(request) and request.path.startswith(health.ROOTS):
        return 0
    if not request.flag("watch"):
        return 1
    characters = len(request.text("labelSelector")) + len(request.text("fieldSelector"))
    return 1 + characters // SELECTOR_CHARACTERS
