"""Course of the moves of a server in memory, as a test sets it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Script:
    """Course of the moves of one server.

    Args:
        seconds: time of a move, and of a restart.
        refusals: so many calls are refused first; below 0: all are.
        failures: so many moves end in `error` first.
        failed_restarts: so many restarts leave the server off first.
        unmade_restarts: so many restarts are accepted first, and fail before anything is done: the
            server is shown as it was before.
        stuck: so many moves make no progress first, until they are aborted or forced.
        lost: the answers of so many calls are lost; the calls take effect.
        late: seconds until a record shows a call; the server shows it at once.
        record_lag: seconds between the end of a live move and the end of its record.
        helpless: forcing a stuck move to complete changes nothing.
        stubborn: aborting a stuck move changes nothing.
        breaks: a live move that fails or is aborted leaves the server in ERROR, a moment later.
        arrives_in_error: a live move brings the server to its target in ERROR, and its record ends
            so: `error`, or `completed`; "" for a move that ends well.
        arrives_off: a live move brings the server to its target, where its guest is off.
        lost_guest: a server in ERROR cannot be recovered.
        why: text of the service, for refusals and failures.
        claimed_by: see `Move`; for moves that fail.
    """

    seconds: float = 2.0
    refusals: int = 0
    failures: int = 0
    failed_restarts: int = 0
    unmade_restarts: int = 0
    stuck: int = 0
    lost: int = 0
    late: float = 0.0
    record_lag: float = 0.05
    helpless: bool = False
    stubborn: bool = False
    breaks: bool = False
    arrives_in_error: str = ""
    arrives_off: bool = False
    lost_guest: bool = False
    why: str = "scripted"
    claimed_by: str = ""
