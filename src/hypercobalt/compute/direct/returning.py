"""Cleans a host that is back after its servers were evacuated: no copy of them stays there.

Its definitions lie on its own disk, so it still has those of servers that run elsewhere now. Only
the marks of this operator's evacuations identify them: a captured host may run or define anything
with the UUID of another host's server. Two copies without such a mark both stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from hypercobalt.adapters.libvirt.model import Domain, Evacuated
from hypercobalt.adapters.libvirt.port import Daemons
from hypercobalt.compute.direct.answers import translated
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.identity import daemon_of
from hypercobalt.compute.direct.witnesses import Witnesses
from hypercobalt.compute.errors import RefusedError, UnreachableError
from hypercobalt.errors import TransientError
from hypercobalt.logs import get_logger

log = get_logger(__name__)

_SHOWN: Final = 5  # names in a message


def is_leftover(place: Place, elsewhere: Iterable[Domain]) -> bool:
    """Whether a domain of a host that was fenced belongs to another host now.

    Args:
        place: the host that was fenced.
        elsewhere: the other hosts' copies of the domain, with this operator's marks only.
    """
    evacuated = Evacuated(place.name, place.fenced_boot)
    begun = replace(evacuated, pending=True)  # as in a newly started domain's document
    return any(
        evacuated in copy.marks or (copy.active and begun in copy.marks) for copy in elsewhere
    )


async def clean(
    daemons: Daemons, witnesses: Witnesses, others: Sequence[Place], place: Place
) -> None:
    """Undefine evacuated domains on a host that is back; nothing is started there.

    A definition that no other host's agent has stored yet stays, too: the host that has the domain
    now may die first.

    A silent host matters only to domains that no other host has: else two hosts that failed one
    after the other could wait for each other. A domain that one of them took over before it died is
    its own, though nothing has started it again yet.

    Raises:
        UnreachableError: the evacuated domains are not known yet.
        RefusedError: a server runs on it and elsewhere; all other domains are looked at before.
    """
    here = await witnesses.answers.domains(place)
    if here is None:
        raise _unknown(place, [place.name])
    with translated(f"host {place.name}"):
        copies = await witnesses.copies(others)
    unproven = [one.name for one in others if one.name not in copies.answering and not one.fenced]
    undecided, unstored, refused = False, list[str](), list[RefusedError]()
    kept = await _stored_of(witnesses, place)
    for domain in here:
        known = copies.of(domain.uuid)
        try:
            if is_leftover(place, known.values()):
                if domain.uuid in kept and not await witnesses.is_stored(domain.uuid, known):
                    unstored.append(domain.name)
                    continue
                await _forget(daemons, place, domain)
            elif unproven:
                undecided = True
            else:
                there = [(one, known[one.name]) for one in others if one.name in known]
                answer = [(one, copy) for one, copy in there if one.name in copies.answering]
                await _settle(daemons, place, domain, answer)
        except RefusedError as error:
            refused.append(error)  # it holds up no other domain
    if refused:
        raise refused[0]
    if unstored:
        raise UnreachableError(
            f"host {place.name}: the definitions of {', '.join(unstored[:_SHOWN])} stay until the "
            "agents of their new hosts have stored them"
        )
    if undecided:
        raise _unknown(place, unproven)


async def _stored_of(witnesses: Witnesses, place: Place) -> frozenset[str]:
    """Return UUIDs of the domains that the host's agent has stored; none where it stores none."""
    try:
        return frozenset((await witnesses.definitions(place.name)).domains)
    except TransientError:
        return frozenset()


def _unknown(place: Place, silent: Iterable[str]) -> UnreachableError:
    names = ", ".join(silent)
    return UnreachableError(
        f"host {place.name}: what was evacuated is not known, no answer from {names}"
    )


async def _forget(daemons: Daemons, place: Place, domain: Domain) -> None:
    if domain.active:
        raise RefusedError(
            f"host {place.name}: {domain.name} runs there although it was evacuated: destroy "
            "it there at once",
            reason="RunsTwice",
        )
    await _undefine(daemons, place, domain)


async def _settle(
    daemons: Daemons, place: Place, domain: Domain, copies: list[tuple[Place, Domain]]
) -> None:
    twice = [other.name for other, copy in copies if copy.active]
    if domain.active and twice:
        raise RefusedError(
            f"host {place.name}: {domain.name} ({domain.uuid}) runs there and on "
            f"{', '.join(twice)}: destroy it at once where it does not belong",
            reason="RunsTwice",
        )
    pending = Evacuated(place.name, place.fenced_boot, pending=True)
    for other, copy in copies:
        if copy.evacuated == pending and not copy.active:
            await _undefine(daemons, other, copy)
        else:
            log.warning(
                "domain_on_two_hosts", server=domain.uuid, host=place.name, other=other.name
            )


async def _undefine(daemons: Daemons, place: Place, domain: Domain) -> None:
    log.info("leftover_undefined", server=domain.uuid, host=place.name)
    with translated(f"host {place.name}"):
        await daemon_of(daemons, place).undefine(domain.uuid)
