"""Starts of a dead host's domains on other hosts: those that were begun and have not failed.

A start is known by the number in the seal of its pending mark (`marks`). The record outlives the
process: a target that once failed to start a domain keeps the mark of that attempt, and must not
be believed by the next process. A domain that is off is only defined there; that counts as a start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class StartsUnderWay(Protocol):
    """The record, which no host can write."""

    def of(self, host: str, boot: str) -> Mapping[str, str]:
        """Return the numbers of the starts that count, by UUID of the domain.

        Args:
            host: that is dead.
            boot: its fenced boot.
        """
        ...

    async def note(self, host: str, boot: str, uuid: str, number: str) -> None:
        """Record the start of a domain in place of an earlier one; the number "": it has failed.

        Raises:
            TransientError: it cannot be recorded.
        """
        ...


class StartsInMemory:
    """A record that is lost with its process."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], dict[str, str]] = {}

    def of(self, host: str, boot: str) -> Mapping[str, str]:
        return self._numbers.get((host, boot), {})

    async def note(self, host: str, boot: str, uuid: str, number: str) -> None:
        self._numbers.setdefault((host, boot), {})[uuid] = number
