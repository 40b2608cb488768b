"""Processes that die at a chosen call: before it is sent, or before its answer is used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from hypercobalt.api.meta import Object
from hypercobalt.runtime import Kube
from hypercobalt.runtime.client.transport import Call
from hypercobalt.runtime.client.whole import Whole

T = TypeVar("T", bound=Object)


class Death(BaseException):
    """The process is gone: nothing that it would do next happens."""


@dataclass
class Dying:
    """Lets so many calls and answers through; None: all of them."""

    left: int | None = None
    seen: int = 0

    @property
    def dead(self) -> bool:
        return self.left is not None and self.seen > self.left

    def __call__(self) -> None:
        self.seen += 1
        if self.dead:
            raise Death


class MortalKube(Kube):
    """A client whose process dies at a call to the API server."""

    dying: Dying = Dying()

    async def _write(self, call: Call) -> bytes:
        self.dying()
        answer = await super()._write(call)
        self.dying()
        return answer

    async def get_whole(
        self, type_: type[T], name: str, namespace: str | None = None
    ) -> Whole[T] | None:
        self.dying()
        return await super().get_whole(type_, name, namespace)
