"""An agent's part of a status: conditions out of the board, and what is stored of it. Pure.

Only the agent's own fields and condition types are in the result: applied under its field manager,
they leave the fields of other managers alone.

Source: Kubernetes API concepts, "Server-Side Apply".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import cast

from hypercobalt.agent.board import Verdict
from hypercobalt.agent.text import clean
from hypercobalt.api.codec import to_builtins
from hypercobalt.api.conditions import (
    Condition,
    InvalidConditionError,
    get_condition,
    set_condition,
)
from hypercobalt.api.meta import Struct
from hypercobalt.logs import get_logger

log = get_logger(__name__)


def conditions(
    verdicts: Mapping[str, Verdict | None],
    stored: Collection[Condition],
    own: Collection[str],
    generation: int,
) -> tuple[Condition, ...]:
    """Give the agent's conditions, by type; one that no concern has reported yet stays as stored.

    Args:
        verdicts: of the board.
        stored: the object's conditions as the API has them.
        own: condition types that are the agent's; others are left out.
        generation: of the object, for `observedGeneration`; 0 for none.
    """
    found: tuple[Condition, ...] = ()
    for type_ in sorted({*own, *verdicts}):
        old = get_condition(stored, type_)
        before = (old,) if old else ()
        verdict = verdicts.get(type_)
        if verdict is not None:
            found += _set(before, type_, verdict, generation or None)
        elif type_ not in verdicts:
            found += before
    return found


def _set(
    before: tuple[Condition, ...], type_: str, verdict: Verdict, generation: int | None
) -> tuple[Condition, ...]:
    if verdict.since is None:
        return before
    try:
        return set_condition(
            before,
            type_,
            verdict.status,
            verdict.reason,
            clean(verdict.message),
            now=verdict.since,
            observed_generation=generation,
        )
    except InvalidConditionError as error:  # the server would refuse the whole status for it
        log.warning("condition_left_out", type=type_, error=str(error))
        return before


def holds(stored: Struct, wanted: Struct, fields: Collection[str]) -> bool:
    """Whether what is stored has every wanted field as it is wanted.

    Fields of others, and defaults that the server has put in, do not matter. One of `fields` that
    is wanted empty must be empty.
    """
    have = to_builtins(stored)
    stale = any(have.get(name) and not getattr(wanted, name) for name in fields)
    return not stale and _within(to_builtins(wanted), have)


def leftovers(stored: Struct, wanted: Struct, fields: Collection[str]) -> tuple[str, ...]:
    """Those of `fields` that an apply has not removed, because another manager has them too.

    It happens when this agent takes over from another that wrote the same values.
    """
    return tuple(name for name in fields if getattr(stored, name) and not getattr(wanted, name))


def _within(wanted: object, have: object) -> bool:
    """Whether `have` has all that `wanted` has; conditions are matched by type."""
    if isinstance(wanted, dict) and isinstance(have, dict):
        there = cast("dict[str, object]", have)
        return all(
            name in there and _within(value, there[name])
            for name, value in cast("dict[str, object]", wanted).items()
        )
    if isinstance(wanted, list) and isinstance(have, list):
        mine, theirs = cast("list[object]", wanted), cast("list[object]", have)
        if _typed(mine):
            by_type = {_type(item): item for item in theirs}
            return all(_within(item, by_type.get(_type(item))) for item in mine)
        return len(mine) == len(theirs) and all(map(_within, mine, theirs))
    return wanted == have


def _typed(items: list[object]) -> bool:
    return bool(items) and all(_type(item) is not None for item in items)


def _type(item: object) -> object:
    return cast("dict[str, object]", item).get("type") if isinstance(item, dict) else None
