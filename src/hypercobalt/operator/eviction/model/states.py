"""Observations of an instance, and its state as a tagged type.

Each pass makes the state again from the reports of the compute service (`assess`), never from what
was written before; so any pass may be the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import assert_never

from hypercobalt.api.eviction import EvictionInstance, EvictionMode, InstancePhase
from hypercobalt.compute.model import Move, RestartResult, Server, ServerAction
from hypercobalt.operator.eviction.model.tracks import FRESH, Job, Track


class Mode(StrEnum):
    """How an instance leaves its host."""

    LIVE = "live"
    COLD = "cold"
    EVACUATE = "evacuate"
    """Rebuilt elsewhere from its disks: the host is dead, and fenced."""


class Sighting(StrEnum):
    """What the node agent of another host reports of an instance."""

    RUNS = "runs"
    RAN = "ran"
    """A report that may be out of date shows it there: no proof of its present state."""
    ABSENT = "absent"
    SILENT = "silent"
    DEAD = "dead"
    """That host is proven dead as well: what was under way there has ended."""


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
    """Observations of one instance.

    Args:
        entry: its entry in the status so far.
        server: the server, when it is on the host.
        moves: records of its moves away from the host, newest first.
        job: its live migration as the node agent reports it; None when it reports none.
        elsewhere: the server on another host; None when it was not looked for, or is gone.
        sought: `elsewhere` was looked up.
        sightings: reports of the node agents on its moves' targets, by host.
        requests: requests of its owner and administrators, newest first.
        restart: result of its newest restart; None: not read, since none is under way, or it is
            shown as not over, or as off.
        revived: it had crashed, and its host's node agent reports now that it runs.
        held: the other Eviction that has it; "" for none.
        ran: the server is off, and ran until it died by the node agent's report.
        unnamed: the server is off, and the node agent's report may lack room for its incident.
    """

    entry: EvictionInstance
    server: Server | None
    moves: tuple[Move, ...] = ()
    job: Job | None = None
    elsewhere: Server | None = None
    sought: bool = False
    sightings: Mapping[str, Sighting] = field(default_factory=dict[str, Sighting])
    requests: tuple[ServerAction, ...] = ()
    restart: RestartResult | None = None
    revived: bool = False
    held: str = ""
    ran: bool = False
    unnamed: bool = False

    @property
    def move(self) -> Move | None:
        """The newest record."""
        return self.moves[0] if self.moves else None


# -- states ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Plain:
    """A state with only a text for people."""

    message: str = ""


@dataclass(frozen=True, slots=True)
class Ready:
    """The instance may be moved as soon as there is a place for another move.

    Args:
        avoid: hosts where a move has failed.
        latest: that of them where the last one has failed; "" for none.
        interrupted: it is shown as being rebuilt, but the rebuild ended with the host that did it.
    """

    mode: Mode
    message: str = ""
    avoid: frozenset[str] = frozenset()
    interrupted: bool = False
    latest: str = ""


@dataclass(frozen=True, slots=True)
class Waiting(_Plain):
    """The instance waits for something that ends by itself, or for the next attempt."""


@dataclass(frozen=True, slots=True)
class Damaged:
    """A failed move has left it in ERROR though its guest is well; it must be recovered.

    Args:
        server: on the host.
        due: the call may be made now.
    """

    server: Server
    due: bool
    message: str


@dataclass(frozen=True, slots=True)
class Moving(_Plain):
    """The instance is on its way."""


@dataclass(frozen=True, slots=True)
class Unconfirmed(Moving):
    """The instance is on its way by its host's report alone: that takes no place of other hosts."""


@dataclass(frozen=True, slots=True)
class Stuck:
    """The instance is on its way without progress.

    Args:
        move: its record.
        force: complete the move by force; else abort it.
    """

    move: Move
    force: bool
    message: str


@dataclass(frozen=True, slots=True)
class Evacuating(_Plain):
    """The instance is being rebuilt on another host."""


@dataclass(frozen=True, slots=True)
class Crashed:
    """The instance must be restarted now, on its present host.

    Args:
        server: on that host.
    """

    server: Server
    message: str = ""


@dataclass(frozen=True, slots=True)
class Restarting(_Plain):
    """The instance is being restarted."""


@dataclass(frozen=True, slots=True)
class Restarted(_Plain):
    """The instance runs again on its host."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """The instance is on another host by a cold move, which has to be confirmed.

    Args:
        due: the call may be made now.
    """

    due: bool
    message: str


@dataclass(frozen=True, slots=True)
class Departed:
    """The instance has left the host.

    Args:
        unnoticed: not by a move of this Eviction, as far as records show.
    """

    message: str = ""
    unnoticed: bool = False


@dataclass(frozen=True, slots=True)
class Unaffected:
    """No action is taken for it.

    Args:
        stays: it is on the host, and stays there.
    """

    message: str
    stays: bool = False


@dataclass(frozen=True, slots=True)
class Stranded(_Plain):
    """The instance cannot be moved, or every attempt has failed."""


Underway = Moving | Stuck | Evacuating | Restarting
Ended = Departed | Restarted | Unaffected | Stranded
State = Ready | Waiting | Damaged | Crashed | Arrived | Underway | Ended


def phase_of(state: State) -> InstancePhase:
    """Return the status's name of a state."""
    match state:
        case Ready() | Waiting() | Damaged() | Crashed():
            return InstancePhase.PENDING
        case Moving() | Stuck():
            return InstancePhase.MIGRATING
        case Evacuating():
            return InstancePhase.EVACUATING
        case Restarting():
            return InstancePhase.RESTARTING
        case Arrived():
            return InstancePhase.CONFIRMING
        case Departed() | Restarted():
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
        observed: observations that the state was made from.
        track: track for the next pass.
        attempts: how often the present mode was begun.
        mode: mode that is tried.
    """

    observed: Observed
    state: State
    track: Track = FRESH
    attempts: int = 0
    mode: EvictionMode | None = None

    @property
    def id(self) -> str:
        """UUID of the instance."""
        return self.observed.entry.id

    @property
    def server(self) -> Server | None:
        """The server, when it is on the host."""
        return self.observed.server

    @property
    def move(self) -> Move | None:
        """The newest record of a move."""
        return self.observed.move

    @property
    def occupies(self) -> bool:
        """Whether it takes one of the places for moves."""
        return isinstance(self.state, Moving | Stuck | Evacuating)

    @property
    def is_open(self) -> bool:
        """Whether another step must still happen."""
        return not isinstance(self.state, Ended)
