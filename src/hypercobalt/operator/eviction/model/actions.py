"""Actions for an instance and outcomes of their calls, each as a tagged type."""

from __future__ import annotations

from dataclasses import dataclass

from hypercobalt.compute.model import Move, Server
from hypercobalt.operator.eviction.model.states import Mode


@dataclass(frozen=True, slots=True)
class Start:
    """Begin a move.

    Args:
        target: host to go to; "" leaves it to the compute service.
        interrupted: see `Ready`.
        lock: reason for which the server is locked before; "" leaves that as it is.
    """

    server: Server
    mode: Mode
    target: str = ""
    interrupted: bool = False
    lock: str = ""


@dataclass(frozen=True, slots=True)
class Confirm:
    """Confirm a cold move."""


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


@dataclass(frozen=True, slots=True)
class Restart:
    """Start a server again, or reboot it hard, on the host that it is on."""

    server: Server


Action = Start | Confirm | Force | Abort | Recover | Restart


def is_evacuation(action: Action) -> bool:
    """Whether an action starts an instance elsewhere while its host is taken for dead."""
    return isinstance(action, Start) and action.mode is Mode.EVACUATE


# -- outcomes ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _NotDone:
    """An outcome other than what was wanted.

    Args:
        why: for people.
    """

    why: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """The compute service carries out the request."""


@dataclass(frozen=True, slots=True)
class Needless:
    """There was nothing to be done."""


@dataclass(frozen=True, slots=True)
class Refused(_NotDone):
    """The compute service will not, for the reason that it gives."""


@dataclass(frozen=True, slots=True)
class Outdated(_NotDone):
    """The compute service will not, because something has changed since it was read."""


@dataclass(frozen=True, slots=True)
class NotYet(_NotDone):
    """Nothing was done: the instance may run elsewhere, which is not known yet."""


@dataclass(frozen=True, slots=True)
class Unanswered(_NotDone):
    """Whether it was done is not known; the next passes will show."""


CallOutcome = Accepted | Needless | Refused | Outdated | NotYet | Unanswered
