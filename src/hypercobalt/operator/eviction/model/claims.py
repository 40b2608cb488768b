"""Hosts that claim something of an instance, so that it is neither moved nor evacuated. Pure.

Which of the two hosts is in the right, only a person can see; so the claim is shown on both.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from hypercobalt.compute.model import Move

REASON: Final = "InstanceClaimed"
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
    """The claims for which an instance was last not brought elsewhere.

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
            one.claimed_by,
            one.server,
            f"Instance {one.server} of {source} waits: {one.message[:_LONGEST]}. Undefine the "
            "domain on the host that it does not belong to",
        )
        for one in newest.values()
        if one.claimed_by and one.created >= since
    )
