"""Hosts that claim something of an instance, so that it is neither moved nor evacuated. Pure.

Which of the two hosts is in the right, only a person can see; so the claim is shown on both.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from hypercobalt.compute.model import Move

REASON: Final = "InstanceClaimed"
MOST_NOTED: Final = 5
"""Events of an Eviction about claims: a host that claims every instance must not use up the Events
that the other one may have. The state of each instance in the Eviction names its claim."""
_LONGEST: Final = 600  # characters of a reason that names a host's domains and disks


class Claim(NamedTuple):
    """A claim on an instance.

    Args:
        by: name of the Hypervisor whose host has it.
        server: UUID.
        text: for people.
    """

    by: str
    server: str
    text: str


def claims(moves: Iterable[Move], since: datetime, source: str) -> tuple[Claim, ...]:
    """Return the claims that kept instances from leaving with their last moves.

    Args:
        moves: away from its host, newest first.
        since: older ones do not count.
        source: its host.
    """
    newest = dict[str, Move]()
    for move in moves:
        if move.ended:  # the attempt under way has not met the claim yet
            newest.setdefault(move.server, move)
    return tuple(
        Claim(
            move.claimed_by,
            move.server,
            f"Instance {move.server} of {source} waits: {move.message[:_LONGEST]}. Undefine the "
            "domain on the host that it does not belong to",
        )
        for move in newest.values()
        if move.claimed_by and move.created >= since
    )
