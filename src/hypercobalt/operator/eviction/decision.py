"""What one pass over an Eviction decides: its `Plan`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from hypercobalt.api.eviction import EvictionReason
from hypercobalt.operator.eviction.preflight import Preflight
from hypercobalt.operator.eviction.starts import Load
from hypercobalt.operator.eviction.states import Action, Assessment


@dataclass(frozen=True, slots=True)
class End:
    """How an Eviction ends.

    Args:
        message: "" for what became of its instances.
    """

    reason: EvictionReason
    message: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """Why nothing is done with an Eviction now.

    Args:
        message: of `Evicting`.
        obstacle: of `PreflightChecksSucceeded`, unless moves have begun; "" leaves it.
    """

    message: str
    obstacle: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one pass does.

    Args:
        instances: as they are once the actions are accepted; None: they were not looked at.
        actions: by UUID of the instance.
        checks: what they have found; None: they were not made.
        wait: why nothing is done.
        end: how the Eviction ends; None while it goes on.
        release: the object is let go: nothing that it began is under way any more.
        left_behind: what may be under way all the same, for an Event.
        look_again: after so long; None: when something changes.
        load: what is under way then, for the other Evictions.
        quiet: only the end of a move makes a difference: servers need not be listed till then.
        lingering: the host counts instances that are listed nowhere.
    """

    instances: tuple[Assessment, ...] | None = None
    actions: Mapping[str, Action] = field(default_factory=dict[str, Action])
    checks: Preflight | None = None
    wait: Wait | None = None
    end: End | None = None
    release: bool = False
    left_behind: str = ""
    look_again: timedelta | None = None
    load: Load | None = None
    quiet: bool = False
    lingering: bool = False
