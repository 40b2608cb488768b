"""One agent of a host works at a time, and an API that is away ends no agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import pytest
from tests.integration.runtime.scripted import Reply, Request, ScriptedServer
from tests.unit.runtime.memory import memory_kube

from hypercobalt.agent.lease import LOOK, AgentLease, AnotherAgentError, renewal
from hypercobalt.agent.settings import LEASE as DURATION
from hypercobalt.api.coordination import Lease
from hypercobalt.runtime import FakeClock, Kube

pytestmark = pytest.mark.looptime

NAME, SPACE = "node-agent-kvm-a", "agents"
MOMENT = 0.5


class Agent:
    """One process: its hold on the host, and its own way to the API."""

    def __init__(
        self, server: ScriptedServer, me: str, *dead: str, duration: timedelta = DURATION
    ) -> None:
        clock = FakeClock(source=asyncio.get_running_loop().time)
        self.online = True
        self.kube: Kube = memory_kube(server, clock, reachable=lambda: self.online)
        self.presence = AgentLease(
            self.kube,
            NAME,
            SPACE,
            me,
            is_over=lambda holder: holder in dead,
            owner=lambda: None,
            duration=duration,
            clock=clock,
        )
        self.task = asyncio.create_task(self.presence.run())

    @property
    def works(self) -> bool:
        return self.presence.held.is_set() and not self.task.done()

    async def stop(self) -> None:
        """End the process as SIGTERM does."""
        self.task.cancel()
        with suppress(asyncio.CancelledError, AnotherAgentError):
            await self.task
        await self.kube.aclose()

    async def kill(self) -> None:
        """End the process as SIGKILL does: the lease is not released."""
        self.online = False
        await self.stop()


@asynccontextmanager
async def agents(*made: Agent) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for agent in made:
            await agent.stop()


async def lease(agent: Agent) -> Lease:
    found = await agent.kube.get(Lease, NAME, SPACE)
    assert found is not None
    return found


async def test_the_lease_is_renewed_by_one_write_each_ten_seconds() -> None:
    server = ScriptedServer()
    agent = Agent(server, "one")
    async with agents(agent):
        await asyncio.sleep(MOMENT)
        assert agent.works
        before = await lease(agent)
        written = server.calls["patch"]
        await asyncio.sleep(3 * renewal(DURATION).total_seconds())
        after = await lease(agent)

    assert server.calls["patch"] - written == 4  # the release is one
    assert (after.spec.holderIdentity, after.spec.leaseDurationSeconds) == ("one", 40)
    assert after.spec.acquireTime == before.spec.acquireTime
    assert after.spec.renewTime != before.spec.renewTime


async def test_a_short_lease_is_renewed_as_often_in_its_time_and_taken_as_soon_as_it_ends() -> None:
    server, short = ScriptedServer(), timedelta(seconds=12)
    one = Agent(server, "one", duration=short)
    await asyncio.sleep(MOMENT)
    written = server.calls["patch"]
    await asyncio.sleep(short.total_seconds())
    assert server.calls["patch"] - written == 4
    assert (await lease(one)).spec.leaseDurationSeconds == 12

    await one.kill()
    other = Agent(server, "other")  # what is taken over lasts as its holder has said
    async with agents(other):
        await asyncio.sleep(short.total_seconds() - MOMENT)
        assert not other.works
        await asyncio.sleep(LOOK.total_seconds() + 2 * MOMENT)
        assert other.works


async def test_second_agent_waits_until_the_first_releases_the_lease(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = ScriptedServer()
    one = Agent(server, "one")
    await asyncio.sleep(MOMENT)
    other = Agent(server, "other")
    async with agents(other):
        await asyncio.sleep(2 * DURATION.total_seconds())
        assert (one.works, other.works) == (True, False)
        assert other.presence.holder == "one"
        await one.stop()
        await asyncio.sleep(LOOK.total_seconds() + MOMENT)
        assert other.works
        assert other.presence.holder == ""

    logged = [
        record for record in caplog.records if "lease_held_by_another_agent" in record.message
    ]
    assert len(logged) == 1


@pytest.mark.parametrize("known", [True, False])
async def test_the_lease_of_a_dead_agent_is_taken_at_once_if_that_is_certain(known: bool) -> None:
    server = ScriptedServer()
    one = Agent(server, "one")
    await asyncio.sleep(MOMENT)
    await one.kill()
    other = Agent(server, "other", *(["one"] if known else []))
    async with agents(other):
        await asyncio.sleep(MOMENT)
        assert other.works is known
        await asyncio.sleep(DURATION.total_seconds() - 2 * MOMENT)
        assert other.works is known
        await asyncio.sleep(LOOK.total_seconds() + 2 * MOMENT)
        assert other.works
        assert (await lease(other)).spec.leaseTransitions == 2


async def test_an_api_that_is_away_ends_nothing() -> None:
    server = ScriptedServer()
    agent = Agent(server, "one")
    async with agents(agent):
        await asyncio.sleep(MOMENT)
        agent.online = False
        await asyncio.sleep(5 * DURATION.total_seconds())
        assert agent.works
        agent.online = True
        await asyncio.sleep(60)
        assert agent.works


async def test_an_agent_that_was_taken_for_dead_ends() -> None:
    server = ScriptedServer()
    one = Agent(server, "one")
    await asyncio.sleep(MOMENT)
    one.online = False
    other = Agent(server, "other")
    async with agents(other):
        await asyncio.sleep(DURATION.total_seconds() + LOOK.total_seconds() + MOMENT)
        assert other.works
        one.online = True
        with pytest.raises(AnotherAgentError, match="other"):
            await asyncio.wait_for(one.task, 60)
        await asyncio.sleep(DURATION.total_seconds())
        assert other.works
    await one.kube.aclose()


@pytest.mark.parametrize("code", [403, 404])
async def test_without_the_right_to_leases_the_agent_works(
    code: int, caplog: pytest.LogCaptureFixture
) -> None:
    server = ScriptedServer()

    def refuse(request: Request) -> Reply | None:
        return Reply(code, {"kind": "Status", "code": code}) if request.method == "POST" else None

    server.faults.append(refuse)
    agent = Agent(server, "one")
    async with agents(agent):
        await asyncio.sleep(3 * renewal(DURATION).total_seconds())
        assert agent.works

    logged = [record for record in caplog.records if "lease_refused" in record.message]
    assert len(logged) == 1
