"""Cleans a host that is back after its servers were evacuated: no copy of them stays there.

Its definitions lie on its own disk, so it still has those of servers that run elsewhere now. Only
the marks of this operator's evacuations identify them: a captured host may run or define anything
with the UUID of another host's server. Two copies without such a mark both stay as they are.

The record of the evacuations that were begun is the operator's own (`starts`). A domain that is not
in it has gone to no host: neither the silence of another host nor what that lists concerns it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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


@dataclass(frozen=True, slots=True)
class KeptCopies:
    """Domains that a host which is back has to keep for now: they were given to other hosts.

    Args:
        undecided: no host that answers has them.
        silent: hosts that do not answer, and may have those.
        unstored: the agents of their new hosts have not stored them yet.
        storing: those hosts.
    """

    undecided: tuple[Domain, ...] = ()
    silent: tuple[str, ...] = ()
    unstored: tuple[Domain, ...] = ()
    storing: tuple[str, ...] = ()

    @property
    def domains(self) -> tuple[Domain, ...]:
        """All of them."""
        return (*self.undecided, *self.unstored)

    def why(self) -> str:
        """Return what is waited for."""
        if self.unstored:
            names = ", ".join(one.name for one in self.unstored[:_SHOWN])
            return (
                f"the definitions of {names} stay until the agents of their new hosts have stored "
                f"them ({', '.join(self.storing)})"
            )
        return f"what was evacuated is not known, no answer from {', '.join(self.silent)}"


async def clean(
    daemons: Daemons, witnesses: Witnesses, others: Sequence[Place], place: Place
) -> KeptCopies:
    """Undefine evacuated domains on a host that is back; nothing is started there.

    A definition that no other host's agent has stored yet stays, too: the host that has the domain
    now may die first.

    A silent host matters only to domains whose evacuation was begun and that no other host has:
    else two hosts that failed one after the other could wait for each other. A domain that one of
    them took over before it died is its own, though nothing has started it again yet.

    Returns:
        What has to stay for now.

    Raises:
        UnreachableError: the host does not answer, or the keys of the marks cannot be read.
        RefusedError: a server that was evacuated runs on it; all other domains are looked at
            before.
    """
    here = await witnesses.answers.domains(place)
    if here is None:
        raise UnreachableError(
            f"host {place.name}: what was evacuated is not known, no answer from {place.name}"
        )
    with translated(f"host {place.name}"):
        copies = await witnesses.copies(others)
    silent = sorted(copies.unknown)
    undecided, unstored, refused = list[Domain](), list[Domain](), list[RefusedError]()
    storing = set[str]()
    kept = await _stored_of(witnesses, place)
    begun = witnesses.marks.begun(place.name, place.fenced_boot)
    for domain in here:
        known = copies.of(domain.uuid)
        try:
            if is_leftover(place, known.values()):
                new = _new_hosts(place, known)
                if domain.uuid in kept and not await witnesses.outlives(domain.uuid, new):
                    unstored.append(domain)
                    storing.update(new)
                    continue
                await _forget(daemons, place, domain)
            elif silent and domain.uuid in begun:
                undecided.append(domain)
            else:
                there = [(one, known[one.name]) for one in others if one.name in known]
                answer = [(one, copy) for one, copy in there if one.name in copies.answering]
                await _settle(daemons, place, domain, answer, is_begun=domain.uuid in begun)
        except RefusedError as error:
            refused.append(error)  # it holds up no other domain
    if refused:
        raise refused[0]
    return KeptCopies(tuple(undecided), tuple(silent), tuple(unstored), tuple(sorted(storing)))


async def clean_late(
    daemons: Daemons,
    witnesses: Witnesses,
    others: Sequence[Place],
    place: Place,
    left: Iterable[Domain],
) -> tuple[Domain, ...]:
    """Undefine copies that a host kept when it was taken back, and return those that still wait.

    A copy that its owner has started since, or that libvirt has seen end, is left alone from then
    on: it may have come back.

    Args:
        daemons: of the hosts.
        witnesses: see there.
        others: all other hosts.
        place: the host, with the boot that was fenced.
        left: the copies as they were when it was taken back.

    Raises:
        TransientError: a host, or the keys of the marks, cannot be read.
    """
    waiting, here = tuple(left), await witnesses.answers.domains(place)
    if here is None:
        return waiting
    copies, present = await witnesses.copies(others), {one.uuid: one for one in here}
    still = list[Domain]()
    for copy in waiting:
        now, known = present.get(copy.uuid), copies.of(copy.uuid)
        if now is None or now.active or now.reason != copy.reason:
            continue
        if await witnesses.outlives(copy.uuid, _new_hosts(place, known)):
            await _undefine(daemons, place, now)
        else:
            still.append(copy)
    return tuple(still)


def _new_hosts(place: Place, copies: Mapping[str, Domain]) -> tuple[str, ...]:
    """Return the hosts that a domain of a fenced host was evacuated to."""
    return tuple(name for name, copy in copies.items() if is_leftover(place, (copy,)))


async def _stored_of(witnesses: Witnesses, place: Place) -> frozenset[str]:
    """Return UUIDs of the domains that the host's agent has stored; none where it stores none."""
    try:
        return frozenset((await witnesses.definitions(place.name)).domains)
    except TransientError:
        return frozenset()


async def _forget(daemons: Daemons, place: Place, domain: Domain) -> None:
    if domain.active:
        raise RefusedError(
            f"host {place.name}: {domain.name} runs there although it was evacuated: destroy "
            "it there at once",
            reason="RunsTwice",
        )
    await _undefine(daemons, place, domain)


async def _settle(
    daemons: Daemons,
    place: Place,
    domain: Domain,
    copies: list[tuple[Place, Domain]],
    *,
    is_begun: bool,
) -> None:
    twice = [other.name for other, copy in copies if copy.active]
    if domain.active and twice and is_begun:
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
