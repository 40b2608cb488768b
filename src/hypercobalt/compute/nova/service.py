"""Nova's adapter, put together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry

from hypercobalt.adapters.openstack.account import Account, AccountIdentity
from hypercobalt.adapters.openstack.client import Client
from hypercobalt.adapters.openstack.metrics import OpenStackMetrics
from hypercobalt.adapters.openstack.threads import SIZE, Threads
from hypercobalt.adapters.openstack.transport import http_session
from hypercobalt.compute.leadership import LeaderGuard
from hypercobalt.compute.nova.aggregates import NovaAggregates
from hypercobalt.compute.nova.calls import Calls
from hypercobalt.compute.nova.candidates import Candidates
from hypercobalt.compute.nova.hosts import NovaHosts
from hypercobalt.compute.nova.moves import NovaMoves
from hypercobalt.compute.nova.owners import NovaOwners
from hypercobalt.compute.nova.providers import NovaProviders
from hypercobalt.compute.nova.recovery import NovaRecovery
from hypercobalt.compute.nova.servers import to_server
from hypercobalt.compute.nova.settings import NovaSettings
from hypercobalt.compute.nova.smoke import NovaSmokeTests
from hypercobalt.compute.nova.traits import NovaTraits

Clock = Callable[[], float]
_LISTED: Final = timedelta(seconds=10)
"""A listing of Nova's services is some seconds old."""


class Nova:
    """See `hypercobalt.compute.port.ComputeService`. It makes no call before one is needed.

    Args:
        client: client with the administrator's account.
        testing: client for the project of the servers for tests.
        threads: threads of both clients, closed with this adapter.
        settings: see there.
        clock: seconds that never step back.
    """

    name = "nova"

    def __init__(
        self,
        client: Client,
        testing: Client,
        threads: Threads,
        settings: NovaSettings,
        clock: Clock = time.monotonic,
    ) -> None:
        self._threads, self._down_time = threads, settings.service_down_time
        self._calls, self._testing = Calls(client, clock), Calls(testing, clock)
        self.hosts = NovaHosts(self._calls, clock)
        candidates = Candidates(self._calls, self.hosts, clock)
        as_server = partial(
            to_server,
            local_disks=settings.evacuate_local_disks,
            devices=settings.live_migrate_devices,
        )
        self.providers = NovaProviders(self._calls, self.hosts)
        self.moves = NovaMoves(self._calls, candidates, as_server, clock)
        self.recovery = NovaRecovery(self._calls, self.hosts)
        self.owners = NovaOwners(self._calls, as_server)
        self.aggregates = NovaAggregates(self._calls, clock)
        self.traits = NovaTraits(self._calls, clock)
        self.smoke_tests = NovaSmokeTests(self._testing, settings.smoke)

    @property
    def counts_servers(self) -> bool:
        """True: Nova's database has them."""
        return True

    @property
    def silence(self) -> timedelta:
        return self._down_time + _LISTED

    @property
    def trouble(self) -> str:
        return self._calls.trouble

    async def close(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for part in (self.hosts, self.moves, self.aggregates, self._calls, self._testing):
                tasks.create_task(part.close(), name=f"close-{type(part).__name__}")
        self._threads.close()


def connect(
    user_agent: str,
    password_command: str,
    registry: CollectorRegistry,
    settings: NovaSettings,
    guard: LeaderGuard,
) -> Nova:
    """Make the adapter for the account of clouds.yaml or `OS_*`.

    Args:
        user_agent: name of the client in OpenStack's logs.
        password_command: see `AccountIdentity`.
        registry: gets the metrics.
        settings: see there.
        guard: forbids changes.

    Raises:
        ConfigurationError: no account is configured.
    """
    threads, metrics = Threads("openstack"), OpenStackMetrics(registry)
    own = AccountIdentity(user_agent, password_command)
    smoke = settings.smoke
    tests = AccountIdentity(user_agent, password_command, smoke.project, smoke.project_domain)
    accounts = [
        Account(identity, lambda: http_session(SIZE), metrics.exposed) for identity in (own, tests)
    ]
    for account in accounts:
        account.check()
    client, testing = (Client(account, threads, metrics, guard=guard) for account in accounts)
    return Nova(client, testing, threads, settings)
