"""Which other hosts answer this one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import cast

import msgspec
import pytest
from tests.following import background

from hypercobalt.api.codec import to_builtins
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.incident import PeerReport
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.peers import MOST, PROBE, PeerProbe
from hypercobalt.node_agent.fencing.peers import Peers
from hypercobalt.node_agent.status.parts import Board
from hypercobalt.runtime import FakeClock
from hypercobalt.runtime.observable import Observable
from hypercobalt.runtime.write_cache import Latest

ADDRESS = "192.0.2.1"
BRIEF = timedelta(milliseconds=50)


class World:
    """An agent that follows its Hypervisor, and hosts with two programs each."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.board = Board(self.clock)
        self.own = Observable[Hypervisor | None](None)
        self.alive: set[str] = set()
        self.refusing: set[str] = set()
        self.probed: list[str] = []
        self.peers = Peers(
            cast("Latest[Hypervisor]", self.own),
            self.board,
            {"one": self._one, "other": self._frozen},
            clock=self.clock,
            within=BRIEF,
        )

    async def _one(self, address: str) -> None:
        self.probed.append(address)
        if address in self.refusing:
            raise ConnectionRefusedError(111, "Connection refused")
        if address not in self.alive:
            await asyncio.Event().wait()

    async def _frozen(self, _: str) -> None:
        await asyncio.Event().wait()

    def annotate(self, text: str) -> None:
        self.own.set(Hypervisor(metadata=ObjectMeta(name="kvm-a", annotations={PROBE: text})))

    def request(self, *probes: PeerProbe) -> None:
        self.annotate(msgspec.json.encode(probes).decode())

    async def reports(self, hosts: Sequence[str]) -> tuple[PeerReport, ...]:
        """The reports, once they are about these hosts."""
        async with asyncio.timeout(5):
            parts = self.board.parts
            while (reports := parts.peer_reports) is None or [one.host for one in reports] != hosts:
                parts = await self.board.changed(parts)
        return reports


@asynccontextmanager
async def running() -> AsyncIterator[World]:
    world = World()
    async with background(world.peers.run):
        yield world


async def test_a_host_answers_when_one_of_its_programs_does() -> None:
    async with running() as world:
        world.alive.add(ADDRESS)
        world.request(PeerProbe("kvm-b", ADDRESS, "q1"))

        (report,) = await world.reports(["kvm-b"])

    now = world.clock.now()
    assert report == PeerReport("kvm-b", True, "q1", f"one answers at {ADDRESS}", now)


async def test_host_of_which_no_program_answers_counts_as_silent() -> None:
    async with running() as world:
        world.refusing.add("192.0.2.2")
        world.request(PeerProbe("frozen", ADDRESS, "q1"), PeerProbe("down", "192.0.2.2", "q2"))

        frozen, down = await world.reports(["frozen", "down"])

    silent = "no answer within 0.05 s"
    assert (frozen.answers, down.answers) == (False, False)
    assert frozen.evidence == f"no program answers at {ADDRESS}: one: {silent}; other: {silent}"
    assert down.evidence
    assert "one: Connection refused" in down.evidence


async def test_request_is_probed_once_and_a_new_one_again() -> None:
    async with running() as world:
        world.alive.add(ADDRESS)
        for question in ("q1", "q1", "q2"):
            world.request(
                PeerProbe("kvm-b", ADDRESS, question), PeerProbe("x", "127.0.0.1", question)
            )
            reports = await world.reports(["kvm-b", "x"])
            while reports[0].request != question:
                await world.board.changed(world.board.parts)
                reports = await world.reports(["kvm-b", "x"])

    assert world.probed == [ADDRESS, ADDRESS]


async def test_request_of_an_older_operator_is_answered_in_both_fields() -> None:
    async with running() as world:
        world.alive.add(ADDRESS)
        world.annotate(f'[{{"name":"kvm-b","address":"{ADDRESS}","asked":"q1"}}]')

        (report,) = await world.reports(["kvm-b"])

    assert to_builtins(report)["asked"] == to_builtins(report)["request"] == "q1"


async def test_reports_go_with_their_question() -> None:
    async with running() as world:
        world.request(PeerProbe("kvm-b", "127.0.0.1", "q1"))
        await world.reports(["kvm-b"])
        world.own.set(Hypervisor(metadata=ObjectMeta(name="kvm-a")))

        assert await world.reports([]) == ()


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "::1", "169.254.169.254", "::", "host.example", "fe80::1%x", ""]
)
async def test_address_of_no_host_is_not_probed(address: str) -> None:
    async with running() as world:
        world.request(PeerProbe("kvm-b", address, "q1"))

        (report,) = await world.reports(["kvm-b"])

    assert world.probed == []
    assert not report.answers
    assert report.evidence
    assert report.evidence.startswith("not probed: address ")


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"name":"x"}]', "[" * 100_000])
async def test_text_that_is_no_question_counts_as_none(text: str) -> None:
    async with running() as world:
        world.annotate(text)

        assert await world.reports([]) == ()


async def test_at_most_a_few_hosts_are_probed() -> None:
    async with running() as world:
        names = [f"kvm-{number}" for number in range(MOST + 2)]
        world.request(*(PeerProbe(name, ADDRESS, "q1") for name in names))

        await world.reports(names[-MOST:])

    assert len(world.probed) == MOST
