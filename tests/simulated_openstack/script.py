"""Faults to inject, hooks for races, and counts of the calls for budgets.

A call's kind is its service, method and path as the API's reference writes it, for actions with
the action: `compute GET /servers/detail`, `compute POST /servers/{id}/action os-migrateLive`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from tests.simulated_openstack.http import Answer, Request, encode


@dataclass(slots=True)
class Fault:
    """Something that happens to calls.

    Args:
        calls: pattern of their kinds, as a shell's: `compute *`, `placement PUT */traits`.
        code: status of the answer, in place of the real one; 0 leaves that as it is.
        body: of that answer; an error of the service's own form when not given.
        headers: of that answer.
        delay: seconds before anything else happens.
        hang: no answer ever comes, until the client goes away.
        cut: the connection ends without an answer.
        after: the call is carried out, and its answer is what is lost.
        times: how often it happens; for ever when not given.
        containing: it happens to calls whose path has this in it.
    """

    calls: str = "*"
    code: int = 0
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    delay: float = 0
    hang: bool = False
    cut: bool = False
    after: bool = False
    times: int | None = None
    containing: str = ""

    def takes(self, kind: str, path: str) -> bool:
        """Whether it happens to a call; that counts as once."""
        if self.times == 0 or self.containing not in path or not fnmatchcase(kind, self.calls):
            return False
        if self.times is not None:
            self.times -= 1
        return True


class CutError(Exception):
    """The connection ends here."""


class HungError(Exception):
    """Raised for a call that is never answered."""


Hook = Callable[[Request], None]


class Script:
    """Faults, hooks and counts of one simulation."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.calls: Counter[str] = Counter()
        self.times: dict[str, float] = {}
        """When the first call of each kind came, by the monotonic clock."""
        self.latency = 0.0
        """Seconds that every call takes at least."""
        self._before: list[tuple[str, Hook]] = []
        self._after: list[tuple[str, Hook]] = []

    def add(self, fault: Fault) -> Fault:
        """Begin with a fault; `faults.remove` ends it."""
        self.faults.append(fault)
        return fault

    def before(self, calls: str, hook: Hook) -> None:
        """Have something happen just before each call of a kind is carried out."""
        self._before.append((calls, hook))

    def after(self, calls: str, hook: Hook) -> None:
        """Have something happen just after each call of a kind was, before its answer is sent."""
        self._after.append((calls, hook))

    def forget(self) -> None:
        """Begin the counts again."""
        self.calls.clear()
        self.times.clear()

    def count(self, pattern: str = "*") -> int:
        """How many calls there were of the kinds that a pattern takes."""
        return sum(n for kind, n in self.calls.items() if fnmatchcase(kind, pattern))

    async def play(self, kind: str, request: Request, work: Callable[[], Answer]) -> Answer:
        """Carry out a call, with all that is to happen to it.

        Raises:
            CutError, HungError: the client gets no answer.
        """
        self.calls[kind] += 1
        self.times.setdefault(kind, time.monotonic())
        fault = next((f for f in self.faults if f.takes(kind, request.path)), None)
        delay = self.latency + (fault.delay if fault else 0)
        if delay:
            await asyncio.sleep(delay)
        answer: Answer | None = None
        if fault is None or fault.after or not (fault.code or fault.hang or fault.cut):
            answer = self._work(kind, request, work)
        if fault is not None:
            answer = _spoil(fault, request, answer)
        assert answer is not None
        return answer

    def _work(self, kind: str, request: Request, work: Callable[[], Answer]) -> Answer:
        for pattern, hook in self._before:
            if fnmatchcase(kind, pattern):
                hook(request)
        answer = work()
        for pattern, hook in self._after:
            if fnmatchcase(kind, pattern):
                hook(request)
        return answer


def _spoil(fault: Fault, request: Request, answer: Answer | None) -> Answer | None:
    if fault.hang:
        raise HungError
    if fault.cut:
        raise CutError
    if not fault.code:
        return answer
    body = fault.body
    if body is None:
        body = encode(request.service.error(fault.code, "scripted"))
    return Answer(fault.code, headers=fault.headers, raw=body)
