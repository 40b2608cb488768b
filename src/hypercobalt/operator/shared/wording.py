"""Words and Events for people, the same for all controllers and on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from hypercobalt.api.eviction import EvictionInstance
from hypercobalt.compute.model import Move, Server

_NAMED: Final = 5  # instances in a message


@dataclass(frozen=True, slots=True)
class Note:
    """An Event for a decision, without the object that it is about.

    Args:
        type: Warning for what a person should look at.
        reason: CamelCase, from a closed set.
        text: for a person.
    """

    type: Literal["Normal", "Warning"]
    reason: str
    text: str


def count(number: int, what: str = "instance") -> str:
    """Return the count with its noun: `1 instance`, `2 instances`."""
    return f"{number} {what}" + ("" if number == 1 else "s")


def called(one: EvictionInstance | Server) -> str:
    """Return the name of an instance for people."""
    return f"{one.name} ({one.id})" if one.name else one.id


def incoming_moves(moves: Sequence[Move]) -> str:
    """Return a text such as `1 incoming migration: UUID from kvm-1`; of many, some are named."""
    named = ", ".join(
        f"{move.server} from {move.source}" if move.source else move.server
        for move in moves[:_NAMED]
    )
    return f"{count(len(moves), 'incoming migration')}: {named}{' …' * (len(moves) > _NAMED)}"
