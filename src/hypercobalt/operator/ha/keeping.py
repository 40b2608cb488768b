"""Decides whether the Hypervisor of a failed host must stay for the instances left there. Pure."""

from __future__ import annotations

from hypercobalt.api.eviction import EvictionMode
from hypercobalt.api.fencing import is_declared_dead
from hypercobalt.api.hypervisor import is_fenced
from hypercobalt.ha.fencing_record import may_act_late
from hypercobalt.ha.node_failure import Dead, RebootGrace, Suspected
from hypercobalt.operator.ha.evictions import is_recovery, succeeded
from hypercobalt.operator.ha.facts import Facts


def is_silent(facts: Facts) -> bool:
    """Whether nothing of the host answers, as far as is known."""
    return isinstance(facts.verdict, Dead | Suspected | RebootGrace)


def is_empty(facts: Facts, mode: EvictionMode = EvictionMode.EVACUATE) -> bool:
    """Whether nothing is left to be recovered: by the compute service, or an Eviction's end.

    Args:
        facts: of the host.
        mode: of the Eviction that would recover it; a live one leaves what is off.
    """
    counted = facts.host is not None and not facts.host.servers
    done = {EvictionMode.EVACUATE, mode}
    return counted or any(
        is_recovery(one) and succeeded(one) and one.spec.mode in done for one in facts.evictions
    )


def is_to_be_kept(facts: Facts) -> bool:
    """Whether its Hypervisor must not go with its Node: it is dead, or silent and may be."""
    if is_fenced(facts.hypervisor):
        return True
    return is_silent(facts) and bool(facts.hypervisor.status.bootID) and not facts.abandoned


def is_over(facts: Facts) -> bool:
    """Whether its Hypervisor need not be kept any more.

    That is when the host does not count as dead, answers and has its storage; of a deleted one when
    nothing is left on the host, or nothing is done about it. Nothing but the record shows that an
    attempt may still switch the host off, or that it has to get its storage back: it is kept until
    the former is over, and for the latter as long as the host answers.
    """
    stored, going = facts.hypervisor.fencing, facts.hypervisor.metadata.deletionTimestamp
    counts_as_dead = stored is not None and is_declared_dead(stored)
    cut_off = stored is not None and stored.storageDevice is not None
    if stored is not None and may_act_late(stored, facts.now):
        return False
    if not (counts_as_dead or cut_off or is_silent(facts)):
        return True
    gets_it_back = cut_off and not is_silent(facts)
    return going is not None and (facts.abandoned or (is_empty(facts) and not gets_it_back))
