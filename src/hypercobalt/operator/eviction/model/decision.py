"""The decision of one pass over an Eviction, with its parts and the questions before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from hypercobalt.api.eviction import CheckResult, EvictionCheck, EvictionReason
from hypercobalt.compute.model import Server
from hypercobalt.operator.eviction.model.actions import Action
from hypercobalt.operator.eviction.model.states import Assessment


@dataclass(frozen=True, slots=True)
class End:
    """How an Eviction ends.

    Args:
        message: for people; "" for a summary of its instances.
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


@dataclass(frozen=True, slots=True)
class Preflight:
    """Results of the checks.

    Args:
        checks: for the status, in a fixed order.
    """

    checks: tuple[EvictionCheck, ...]

    @property
    def obstacles(self) -> tuple[str, ...]:
        """Messages of checks that stop moves; empty when moves may begin."""
        return self._texts(CheckResult.PENDING, CheckResult.FAILED)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Messages of checks that only warn that some instances may stay."""
        return self._texts(CheckResult.WARNING)

    def _texts(self, *results: CheckResult) -> tuple[str, ...]:
        return tuple(c.message or c.name for c in self.checks if c.result in results)


@dataclass(frozen=True, slots=True)
class Going:
    """A move under way.

    Args:
        target: "" where none is known.
        server: None where only its UUID is known.
        claimed: the target's capacity shows it.
        evacuates: it is an evacuation, which copies nothing.
    """

    target: str = ""
    server: Server | None = None
    claimed: bool = False
    evacuates: bool = False


@dataclass(frozen=True, slots=True)
class Load:
    """Moves that another Eviction has under way.

    Args:
        host: that it empties.
        servers: by UUID.
        most: that its host may have under way; the rest takes no place of other hosts.
    """

    host: str
    servers: Mapping[str, Going]
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionPlan:
    """Actions of one pass.

    Args:
        instances: as they are once the actions are accepted; None: they were not looked at.
        actions: by UUID of the instance.
        checks: their results; None when they were not made.
        wait: why nothing is done.
        end: how the Eviction ends; None while it goes on.
        release: the object is let go: nothing that it began is under way any more.
        left_behind: text of actions that may still be under way, for an Event.
        look_again: after so long; None: when something changes.
        load: moves under way then, for the other Evictions.
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


@dataclass(frozen=True, slots=True)
class Questions:
    """Further reads that the plan of a pass depends on.

    Args:
        servers: servers that need a list of hosts with enough capacity.
        next: server for which such hosts must be counted.
        counted: the host's own count must be read.
        left: UUIDs of instances that have left; where they are must be read.
    """

    servers: tuple[Server, ...] = ()
    next: Server | None = None
    counted: bool = False
    left: frozenset[str] = frozenset()
