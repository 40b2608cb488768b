"""Dead hosts without OpenStack, in any order; and faults that were there, found when put back."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pytest
from tests.contracts.direct import A, B
from tests.unit.compute.memory import C
from tests.unit.compute.walks import (
    Event,
    Walk,
    agent_has_ended,
    answers_again,
    boots_again,
    described,
    dies,
    failure,
    moves,
    moves_off,
    node_is_deleted,
    powers_off,
    random_walk,
    seals_late,
    suspends,
)

from hypercobalt.adapters.libvirt.documents import evacuated
from hypercobalt.adapters.libvirt.model import Domain, Evacuated
from hypercobalt.api.definitions import HostDefinitions
from hypercobalt.compute.direct import held, remains, witnesses
from hypercobalt.compute.direct.cold import ColdMove
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.evacuation import Evacuation
from hypercobalt.compute.direct.hosts import DirectHosts
from hypercobalt.compute.direct.moves import DirectMoves
from hypercobalt.compute.direct.outcome import ended_here
from hypercobalt.compute.direct.returning import is_leftover
from hypercobalt.compute.model import Host, Server

pytestmark = [pytest.mark.looptime, pytest.mark.timeout(60)]

WALKS: Final = 60


async def test_no_order_of_events_loses_a_guest_or_runs_one_twice() -> None:
    chance = random.Random(random.getrandbits(64))  # noqa: S311 - as pytest's seed has it
    for _ in range(WALKS):
        events = random_walk(chance)
        if found := await failure(events):
            pytest.fail("\n".join((*map(described, events), found)))


def by_any_copy(patched: pytest.MonkeyPatch) -> None:
    """A copy that runs elsewhere, or was seen to end there, counts as one that has moved."""

    def has_left(place: Place, *, copies: Mapping[str, Domain], moved_to: str = "") -> bool:
        del moved_to
        ended = any(one.active or ended_here(one) for one in copies.values())
        return ended or is_leftover(place, copies.values())

    patched.setattr(remains, "has_left", has_left)


def by_answers_alone(patched: pytest.MonkeyPatch) -> None:
    """What a dead host has stored is not looked at when another one is back."""

    async def nothing(self: witnesses.Witnesses, place: Place) -> tuple[Domain, ...]:
        del self, place
        return ()

    patched.setattr(witnesses.Witnesses, "_last_of", nothing)


def by_the_last_mark(patched: pytest.MonkeyPatch) -> None:
    """A definition has the mark of the host before alone."""

    def earlier_of(root: object) -> tuple[Evacuated, ...]:
        del root
        return ()

    patched.setattr(evacuated, "earlier_of", earlier_of)


def by_the_eviction_alone(patched: pytest.MonkeyPatch) -> None:
    """A deleted Hypervisor goes once nothing is left on its host, whoever has stored that."""

    async def nothing(self: DirectHosts, host: Host) -> frozenset[str]:
        del self, host
        return frozenset()

    patched.setattr(DirectHosts, "unstored", nothing)


def by_the_mark_alone(patched: pytest.MonkeyPatch) -> None:
    """A host that is back forgets what was evacuated, whether its new host has stored it or not."""

    async def always(self: witnesses.Witnesses, uuid: str, hosts: object) -> bool:
        del self, uuid, hosts
        return True

    patched.setattr(witnesses.Witnesses, "outlives", always)


def by_the_first_record(patched: pytest.MonkeyPatch) -> None:
    """Either of two dead hosts that have stored a guest is believed."""

    def nothing(self: Evacuation, dead: object, own: object) -> tuple[str, str]:
        del self, dead, own
        return "", ""

    patched.setattr(Evacuation, "_is_recorded_twice", nothing)


def by_the_target_alone(patched: pytest.MonkeyPatch) -> None:
    """The source of a cold move forgets the guest, whoever has stored it."""

    async def nothing(self: ColdMove) -> None:
        del self

    patched.setattr(ColdMove, "_wait_until_stored", nothing)


def by_the_agents_alone(patched: pytest.MonkeyPatch) -> None:
    """What a live move has brought to a host is known from its agent alone."""

    def only_stored(
        self: held.HeldDefinitions, host: str, stored: HostDefinitions
    ) -> HostDefinitions:
        del self, host
        return stored

    patched.setattr(held.HeldDefinitions, "added", only_stored)


def as_it_is(patched: pytest.MonkeyPatch) -> None:
    del patched


LATE: Final = (seals_late(B), dies(A), Walk.is_recovered)
UNSTORED_MOVE: Final = (seals_late(A), moves("a", B))
BOTH_DIE: Final = (Walk.another_leads, dies(A), dies(B), Walk.is_recovered)
NEIGHBOUR: Final = (dies(A), Walk.is_recovered, answers_again(A), dies(B), Walk.is_recovered)


@pytest.mark.parametrize(
    ("fault", "walk", "words"),
    [
        pytest.param(by_any_copy, NEIGHBOUR, "was on kvm-2, and is off", id="leftovers"),
        pytest.param(
            by_answers_alone,
            (dies(A), Walk.is_recovered, dies(B), boots_again(A)),
            "",
            id="what a dead host took over",
        ),
        pytest.param(
            by_the_last_mark,
            (dies(A), Walk.is_recovered, dies(B), Walk.is_recovered, boots_again(B)),
            "is on",
            id="marks of the hosts before",
        ),
        pytest.param(
            by_the_eviction_alone,
            (*LATE, node_is_deleted(A), dies(B), Walk.is_recovered),
            "was on kvm-2, and is off",
            id="deleted with what its new host has not stored",
        ),
        pytest.param(
            by_the_mark_alone,
            (*LATE, boots_again(A), dies(B), Walk.is_recovered),
            "was on kvm-2, and is off",
            id="cleaned of what its new host has not stored",
        ),
        pytest.param(
            by_the_first_record,
            (*UNSTORED_MOVE, suspends("a"), *BOTH_DIE),
            "a was started",
            id="suspended where it was moved to, by a host that has not stored that",
        ),
        pytest.param(
            by_the_first_record,
            (*UNSTORED_MOVE, *BOTH_DIE),
            "a is on",
            id="moved by a host that has not stored that",
        ),
        pytest.param(
            by_the_target_alone,
            (powers_off("a"), seals_late(B), moves_off("a", B), dies(B), node_is_deleted(B)),
            "a is on []",
            id="moved while off to a host that has not stored that",
        ),
        pytest.param(
            by_the_agents_alone,
            (seals_late(B), moves("a", B), dies(B), Walk.is_recovered),
            "was on kvm-2, and is off",
            id="moved live to a host that has not stored that",
        ),
        pytest.param(
            as_it_is, (suspends("a"), dies(A), Walk.is_recovered), "a was started", id="pauses"
        ),
    ],
)
async def test_fault_that_is_put_back_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], walk: Sequence[Event], words: str
) -> None:
    assert await failure(walk) == ""
    with pytest.MonkeyPatch.context() as patched:
        fault(patched)
        found = await failure(walk, forgets_pauses=fault is as_it_is)
    assert found
    assert words in found


async def test_guests_that_an_order_has_ended_and_that_are_stored_as_stopped_would_be_found() -> (
    None
):
    """An agent that reads the order before its watch shows it must not store their end."""
    walk = (dies(A), answers_again(A), agent_has_ended(A), Walk.is_recovered)
    assert await failure(walk) == ""
    assert "and is off" in await failure(walk, forgets_orders=True)


def by_the_first_copy(patched: pytest.MonkeyPatch) -> None:
    """The first copy that is off counts as the guest, on whatever host."""

    async def server(self: DirectMoves, id: str) -> Server | None:
        for place in self._site.hosts.all_places():
            for domain in await self._site.answers.domains(place) or ():
                if domain.uuid == id and not domain.active:
                    return self._server(domain, place)
        return None

    patched.setattr(DirectMoves, "server", server)


async def test_guest_that_is_off_is_found_where_it_went(monkeypatch: pytest.MonkeyPatch) -> None:
    walk = (powers_off("a"), dies(A), answers_again(A), agent_has_ended(A), Walk.is_recovered)
    assert await failure(walk) == ""
    by_the_first_copy(monkeypatch)
    assert "a has gone to kvm-2, and counts on kvm-1" in await failure(walk)


async def test_host_fenced_by_mistake_its_neighbour_and_the_next_one_are_emptied() -> None:
    assert await failure((*NEIGHBOUR, dies(C), Walk.another_leads, boots_again(A))) == ""
