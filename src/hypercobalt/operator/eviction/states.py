"""How far an instance is, what is done about it, and how that call ends: each as a tagged type.

A state is made anew in each pass from what the compute service reports (`assess`), never from what
was written before; so any pass may be the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import assert_never

from hypercobalt.api.eviction import EvictionInstance, InstancePhase
from hypercobalt.compute.model import Move, Server
from hypercobalt.operator.eviction.progress import FRESH, Job, Track


class Mode(StrEnum):
    """How an instance leaves its host."""

    LIVE = "live"
    COLD = "cold"
    EVACUATE = "evacuate"
    """Rebuilt elsewhere from its disks: the host is dead, and fenced."""
    RESTART = "restart"
    """Started again where it is, after a crash."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The time of a pass.

    Args:
        now: for people.
        at: seconds of the clock that never steps.
    """

    now: datetime
    at: float


@dataclass(frozen=True, slots=True)
class Observed:
    """What there is of one instance.

    Args:
        entry: what the status says so far.
        server: when it is on the host.
        moves: records of its moves away from the host, newest first.
        job: its live migration as the node agent reports it; None when it reports none.
    """

    entry: EvictionInstance
    server: Server | None
    moves: tuple[Move, ...] = ()
    job: Job | None = None

    @property
    def move(self) -> Move | None:
        """The newest record."""
        return self.moves[0] if self.moves else None


# -- states ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ready:
    """It may be moved as soon as there is a place for another move.

    Args:
        avoid: hosts where it has failed.
    """

    mode: Mode
    message: str = ""
    avoid: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Waiting:
    """It cannot be moved yet: for something that ends by itself, or until the next attempt."""

    message: str = ""


@dataclass(frozen=True, slots=True)
class Damaged:
    """A failed move has left it in ERROR though its guest is well; it is to be recovered.

    Args:
        due: the call may be made now.
    """

    server: Server
    due: bool
    message: str


@dataclass(frozen=True, slots=True)
class Moving:
    """It is on its way."""

    message: str = ""


@dataclass(frozen=True, slots=True)
class Stuck:
    """It is on its way without progress.

    Args:
        move: its record.
        force: complete the move by force; else abort it.
    """

    move: Move
    force: bool
    message: str


@dataclass(frozen=True, slots=True)
class Arrived:
    """It is on another host by a cold move, which has to be confirmed.

    Args:
        due: the call may be made now.
    """

    due: bool
    message: str


@dataclass(frozen=True, slots=True)
class Departed:
    """It has left the host."""

    message: str


@dataclass(frozen=True, slots=True)
class Unaffected:
    """It needs no move."""

    message: str


@dataclass(frozen=True, slots=True)
class Stranded:
    """It cannot be moved, or every attempt has failed."""

    message: str


State = Ready | Waiting | Damaged | Moving | Stuck | Arrived | Departed | Unaffected | Stranded


def phase_of(state: State) -> InstancePhase:
    """What the status calls a state."""
    match state:
        case Ready() | Waiting() | Damaged():
            return InstancePhase.PENDING
        case Moving() | Stuck():
            return InstancePhase.MIGRATING
        case Arrived():
            return InstancePhase.CONFIRMING
        case Departed():
            return InstancePhase.SUCCEEDED
        case Unaffected():
            return InstancePhase.SKIPPED
        case Stranded():
            return InstancePhase.FAILED
        case _:
            assert_never(state)


@dataclass(frozen=True, slots=True)
class Assessment:
    """How far one instance is.

    Args:
        observed: what the state was made of.
        track: what to remember until the next pass.
        attempts: how often moving it was begun.
    """

    observed: Observed
    state: State
    track: Track = FRESH
    attempts: int = 0

    @property
    def id(self) -> str:
        """UUID of the instance."""
        return self.observed.entry.id

    @property
    def server(self) -> Server | None:
        """When it is on the host."""
        return self.observed.server

    @property
    def move(self) -> Move | None:
        """The newest record of a move."""
        return self.observed.move

    @property
    def occupies(self) -> bool:
        """Whether it takes one of the places for moves."""
        return isinstance(self.state, Moving | Stuck)

    @property
    def is_open(self) -> bool:
        """Whether something is still to happen."""
        return not isinstance(self.state, Departed | Unaffected | Stranded)


# -- actions -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Start:
    """Begin a move.

    Args:
        target: host to go to; "" leaves it to the compute service.
    """

    server: Server
    mode: Mode
    target: str = ""


@dataclass(frozen=True, slots=True)
class Confirm:
    """Confirm a cold move.

    Args:
        server: UUID.
    """

    server: str


@dataclass(frozen=True, slots=True)
class Force:
    """Have a live migration complete: it pauses the instance, or fetches its memory afterwards."""

    move: Move


@dataclass(frozen=True, slots=True)
class Abort:
    """Stop a live migration."""

    move: Move


@dataclass(frozen=True, slots=True)
class Recover:
    """Take a server out of the ERROR in which its move has left it."""

    server: Server


Action = Start | Confirm | Force | Abort | Recover


# -- outcomes ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Accepted:
    """The compute service does what was asked for."""


@dataclass(frozen=True, slots=True)
class Needless:
    """There was nothing to be done."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The compute service will not; `why` in its words."""

    why: str


@dataclass(frozen=True, slots=True)
class Outdated:
    """The compute service will not, because something has changed since it was read."""

    why: str


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Whether it was done is not known; the next passes will show."""

    why: str


Outcome = Accepted | Needless | Refused | Outdated | Unanswered
