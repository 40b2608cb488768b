"""Nova's adapter on the simulated OpenStack, with breakers that tests need not wait for."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry
from tests.openstack.environment import set_account
from tests.simulated_openstack.serve import Simulation, serve
from tests.simulated_openstack.world import World

from hypercobalt.adapters.openstack.account import Account, AccountIdentity
from hypercobalt.adapters.openstack.breaker import Rules
from hypercobalt.adapters.openstack.client import Client
from hypercobalt.adapters.openstack.metrics import OpenStackMetrics
from hypercobalt.adapters.openstack.threads import SIZE, Threads
from hypercobalt.adapters.openstack.transport import http_session
from hypercobalt.compute.leadership import LeaderGuard, unguarded
from hypercobalt.compute.nova.service import Nova
from hypercobalt.compute.nova.settings import NovaSettings, SmokeSettings


@dataclass(slots=True)
class Clock:
    """The monotonic clock, which a test can set forward."""

    ahead: float = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


@dataclass(slots=True)
class Adapter:
    """The adapter and what is behind it."""

    simulation: Simulation
    clock: Clock = field(default_factory=Clock)
    rules: Rules = field(default_factory=Rules)
    guard: LeaderGuard = unguarded
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    made: list[Nova] = field(default_factory=list[Nova])
    clients: list[Client] = field(default_factory=list[Client])

    def client(
        self, threads: Threads, identity: AccountIdentity, metrics: OpenStackMetrics
    ) -> Client:
        account = Account(identity, lambda: http_session(SIZE))
        account.check()
        made = Client(
            account, threads, metrics, clock=self.clock, rules=self.rules, guard=self.guard
        )
        self.clients.append(made)
        return made

    def nova(
        self,
        *,
        password_command: str = "",
        smoke: SmokeSettings | None = None,
        evacuate_local_disks: bool = False,
    ) -> Nova:
        """Nova's adapter for the account in the environment, as `connect` makes it."""
        smoke = smoke or SmokeSettings()
        settings = NovaSettings(smoke, evacuate_local_disks=evacuate_local_disks)
        threads, metrics = Threads("test"), OpenStackMetrics(self.registry)
        own = AccountIdentity("test", password_command)
        tests = AccountIdentity("test", password_command, smoke.project, smoke.project_domain)
        clients = [self.client(threads, one, metrics) for one in (own, tests)]
        made = Nova(clients[0], clients[1], threads, settings, self.clock)
        self.made.append(made)
        return made


@pytest.fixture
async def simulation() -> AsyncIterator[Simulation]:
    world = World()
    for name in ("node1", "node10", "node2"):
        world.add_host(name)
    async with serve(world) as served:
        yield served


@pytest.fixture
async def adapter(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Adapter]:
    set_account(monkeypatch, simulation.admin)
    made = Adapter(simulation)
    yield made
    for nova in made.made:
        await nova.close()
