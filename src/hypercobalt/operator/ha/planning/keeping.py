"""Decides whether the Hypervisor of a failed host must stay for the instances left there. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from hypercobalt.api.eviction import (
    Eviction,
    EvictionInstance,
    EvictionMode,
    InstancePhase,
    evicting,
)
from hypercobalt.api.fencing import is_declared_dead
from hypercobalt.api.hypervisor import is_fenced
from hypercobalt.ha.host_failure.fencing_record import may_act_late
from hypercobalt.operator.ha.model.facts import RecoveryFacts
from hypercobalt.operator.ha.planning.evictions import succeeded
from hypercobalt.operator.shared.evictions import is_recovery

_SETTLED: Final = timedelta(minutes=1)
"""Age of a listing by the compute service up to which it may show servers that have just left."""

_STORED: Final = timedelta(minutes=2)
"""After so long an agent has stored what has come to its host: it does so within seconds, and a
host that has died is seen to be silent up to a minute later."""


def is_empty(facts: RecoveryFacts, mode: EvictionMode = EvictionMode.EVACUATE) -> bool:
    """Whether nothing is left to recover, by the compute service or an Eviction's end.

    Args:
        facts: of the host.
        mode: of the Eviction that would recover it; a live one leaves what is off.
    """
    counted = facts.host is not None and not facts.host.servers
    done = {EvictionMode.EVACUATE, mode}
    return counted or any(
        is_recovery(eviction)
        and succeeded(eviction)
        and eviction.spec.mode in done
        and not is_undone(facts, eviction)
        for eviction in facts.evictions
    )


def is_undone(facts: RecoveryFacts, eviction: Eviction) -> bool:
    """Whether evacuated servers are on their dead host again, by the compute service.

    Without OpenStack a server is once its new host has died as well, before the agent there has
    stored its definition: only the first host's definition of it exists. A new host that has died
    later had stored it, unless its owner had removed it: then it must not come back.
    """
    ended, host = evicting(eviction.status), facts.host
    if host is None or ended is None or facts.now - ended.lastTransitionTime < _SETTLED:
        return False
    undone = {
        entry.id
        for entry in eviction.status.instances
        if entry.phase == InstancePhase.SUCCEEDED
        and entry.mode == EvictionMode.EVACUATE
        and _fell_with_it(facts, entry)
    }
    return succeeded(eviction) and not undone.isdisjoint(host.servers)


def _fell_with_it(facts: RecoveryFacts, entry: EvictionInstance) -> bool:
    """Whether its new host died before it is certain to have stored the definition."""
    fell, arrived = facts.fell.get(entry.target or ""), entry.finishedAt
    return fell is not None and arrived is not None and fell - arrived < _STORED


def is_to_be_kept(facts: RecoveryFacts) -> bool:
    """Whether the Hypervisor must stay without its Node, as its host is dead or may be."""
    if is_fenced(facts.hypervisor):
        return True
    return facts.is_silent and bool(facts.hypervisor.status.bootID) and not facts.abandoned


def is_over(facts: RecoveryFacts) -> bool:
    """Whether its Hypervisor no longer has to be kept.

    That is when the host does not count as dead, answers and has its storage; of a deleted one when
    nothing is left on the host and all that has left is stored elsewhere, or nothing is done about
    it. Nothing but the record shows that an
    attempt may still switch the host off, or that it has to get its storage back: it is kept until
    the former is over, and for the latter as long as the host answers.
    """
    stored, going = facts.hypervisor.fencing, facts.hypervisor.metadata.deletionTimestamp
    counts_as_dead = stored is not None and is_declared_dead(stored)
    cut_off = stored is not None and stored.storageDevice is not None
    if stored is not None and may_act_late(stored, facts.now):
        return False
    if not (counts_as_dead or cut_off or facts.is_silent):
        return True
    gets_it_back = cut_off and not facts.is_silent
    settled = is_empty(facts) and facts.unstored == frozenset() and not gets_it_back
    return going is not None and (facts.abandoned or settled)
