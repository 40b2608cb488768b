"""Reads which starts elsewhere the locks of disks have stopped, of a host that counts as dead."""

from __future__ import annotations

from hypercobalt.api.fencing import only_word
from hypercobalt.api.hypervisor import Hypervisor, is_fenced
from hypercobalt.compute.errors import ComputeError
from hypercobalt.compute.port import ComputeService
from hypercobalt.ha.host_failure.doubts import LockRefusal


async def lock_refusals(hypervisor: Hypervisor, compute: ComputeService) -> tuple[LockRefusal, ...]:
    """Return the refusals, of instances that were not started elsewhere since.

    Only of a host that one device alone has proven dead. Nova does not report why a rebuild has
    failed.
    """
    stored = hypervisor.fencing
    if stored is None or stored.fencedAt is None or compute.counts_servers:
        return ()
    if not is_fenced(hypervisor) or not only_word(stored):
        return ()
    try:
        moves = await compute.moves.moves(hypervisor.metadata.name)
    except ComputeError:
        return ()
    started = {move.server for move in moves if move.succeeded}
    return tuple(
        LockRefusal(move.server, move.target, move.updated - stored.fencedAt, move.message)
        for move in moves
        if move.in_use and move.server not in started
    )
