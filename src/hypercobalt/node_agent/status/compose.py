"""One status out of the board and what the API has. Pure.

What the board does not know is kept as stored, so that an agent that starts while libvirt is down
takes nothing away. Only the agent's own fields and condition types are in the result: applied under
its field manager, they leave those of others alone.

Source: Kubernetes API concepts, "Server-Side Apply".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, cast

import msgspec

from hypercobalt.api.codec import to_builtins
from hypercobalt.api.conditions import (
    Condition,
    InvalidConditionError,
    get_condition,
    set_condition,
)
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.status.board import Parts, Verdict
from hypercobalt.node_agent.status.inventory import FIELDS, status_of
from hypercobalt.node_agent.status.text import clean

log = get_logger(__name__)

OWN_CONDITIONS: Final = (
    HypervisorConditionType.LIBVIRT_CONNECTION,
    HypervisorConditionType.OPERATING_SYSTEM_UPDATE,
    HypervisorConditionType.TLS_CERTIFICATE_INSTALLED,
)
"""Condition types that the agent sets, besides one for each systemd unit that it watches."""


def compose(
    parts: Parts, stored: Hypervisor, kept: HypervisorStatus, own: Collection[str]
) -> HypervisorStatus:
    """Give the agent's part of the status.

    Args:
        parts: the board.
        stored: the object as the API has it.
        kept: the status as it was when this process first saw the object.
        own: condition types that are the agent's; others are left out.
    """
    if parts.inventory is not None:
        status = status_of(parts.inventory, stored.spec.overcommit)
    else:
        status = HypervisorStatus(**{name: getattr(kept, name) for name in FIELDS})
    return msgspec.structs.replace(
        status,
        operatingSystem=parts.operating_system or kept.operatingSystem,
        updateStatus=parts.update or kept.updateStatus,
        conditions=_conditions(parts.conditions, stored, own),
    )


def _conditions(
    verdicts: Mapping[str, Verdict | None], stored: Hypervisor, own: Collection[str]
) -> tuple[Condition, ...]:
    generation = stored.metadata.generation or None
    conditions: tuple[Condition, ...] = ()
    for type_ in sorted({*own, *verdicts}):
        old = get_condition(stored.conditions, type_)
        before = (old,) if old else ()
        verdict = verdicts.get(type_)
        if verdict is not None:
            conditions += _set(before, type_, verdict, generation)
        elif type_ not in verdicts:
            conditions += before  # nobody has looked yet
    return conditions


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
    except InvalidConditionError as error:  # one that the server would refuse takes none along
        log.warning("leaving_out_condition", type=type_, error=str(error))
        return before


def holds(stored: HypervisorStatus, wanted: HypervisorStatus) -> bool:
    """Whether what is stored has every wanted field as it is wanted.

    Fields of others, and defaults that the server has put in, do not matter. A field of the
    inventory that is wanted empty must be empty.
    """
    have = to_builtins(stored)
    stale = any(have.get(name) and not getattr(wanted, name) for name in FIELDS)
    return not stale and _within(to_builtins(wanted), have)


def leftovers(stored: HypervisorStatus, wanted: HypervisorStatus) -> tuple[str, ...]:
    """Fields that an apply without them has not removed, because another manager has them too.

    It happens when this agent takes over from another that wrote the same values.
    """
    return tuple(name for name in FIELDS if getattr(stored, name) and not getattr(wanted, name))


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
