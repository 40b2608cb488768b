"""An agent's part of a status: conditions out of the board, and what is stored of it. Pure.

Only the agent's own fields and condition types are in the result: applied under its field manager,
they leave the fields of other managers alone.

Source: Kubernetes API concepts, "Server-Side Apply".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hypercobalt.agent.board import ConditionReport
from hypercobalt.agent.text import clean
from hypercobalt.api.conditions import (
    AGENT_MESSAGE,
    Condition,
    InvalidConditionError,
    cut,
    get_condition,
    next_condition,
)
from hypercobalt.api.meta import Struct
from hypercobalt.logs import get_logger
from hypercobalt.runtime.subset import is_within

log = get_logger(__name__)


def conditions(
    verdicts: Mapping[str, ConditionReport | None],
    stored: Collection[Condition],
    own: Collection[str],
    generation: int,
) -> tuple[Condition, ...]:
    """Return the agent's conditions, by type; one that no concern has reported yet stays as stored.

    Args:
        verdicts: of the board.
        stored: the object's conditions as the API has them.
        own: condition types that are the agent's; others are left out.
        generation: of the object, for `observedGeneration`; 0 for none.
    """
    found: tuple[Condition, ...] = ()
    for type_ in sorted({*own, *verdicts}):
        new = get_condition(stored, type_)
        if type_ in verdicts:
            verdict = verdicts[type_]
            new = _next(new, type_, verdict, generation or None) if verdict else None
        if new is not None:
            found += (new,)
    return found


def _next(
    old: Condition | None, type_: str, verdict: ConditionReport, generation: int | None
) -> Condition | None:
    if verdict.since is None:
        return old
    try:
        return next_condition(
            old,
            type_,
            verdict.status,
            verdict.reason,
            cut(clean(verdict.message), AGENT_MESSAGE),
            now=verdict.since,
            observed_generation=generation,
        )
    except InvalidConditionError as error:  # the server would refuse the whole status for it
        log.warning("condition_left_out", type=type_, error=str(error))
        return old


def holds(stored: Struct, wanted: Struct, fields: Collection[str]) -> bool:
    """Whether what is stored has every wanted field as it is wanted.

    Fields of others, and defaults that the server has put in, do not matter. One of `fields` that
    is wanted empty must be empty.
    """
    stale = any(getattr(stored, name) and not getattr(wanted, name) for name in fields)
    return not stale and is_within(wanted, stored, key="type")


def leftovers(stored: Struct, wanted: Struct, fields: Collection[str]) -> tuple[str, ...]:
    """Those of `fields` that an apply has not removed, because another manager has them too.

    It happens when this agent takes over from another that wrote the same values.
    """
    return tuple(name for name in fields if getattr(stored, name) and not getattr(wanted, name))
