"""The Migrations of a running VM that leaves one host for another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hypercobalt.api.migration import Migration
from hypercobalt.lab.agents import NAMESPACE
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.vms.fleet import Fleet
from hypercobalt.lab.vms.request import Storage, VMRequest
from hypercobalt.runtime import Kube
from tests.lab.conftest import TakeHosts
from tests.lab.kit.agent import ready
from tests.waiting import Pause


async def migrations(api: Kube) -> list[Migration]:
    found = (await api.list(Migration, NAMESPACE)).items
    return sorted(found, key=lambda one: one.metadata.name)


async def one_migration(
    api: Kube, good: Callable[[Migration], bool], known: set[str], seconds: float = 30
) -> Migration:
    """The one that was not known before, as soon as it is as wanted."""
    last: list[Migration] = []
    pause = Pause(0.05)
    try:
        async with asyncio.timeout(seconds):
            while True:
                last = [one for one in await migrations(api) if one.metadata.name not in known]
                if len(last) == 1 and good(last[0]):
                    return last[0]
                await pause()
    except TimeoutError:
        raise AssertionError(f"last: {last}") from None


async def moving(
    nodes: TakeHosts, api: Kube, lab: Lab, *, disk: Storage | None = None
) -> tuple[Fleet, tuple[str, str], set[str]]:
    """A running VM on the first of two hosts, their names, and the migrations that there were."""
    one, other = await nodes(2)
    for host in (one, other):
        await ready(api, host)
    fleet = Fleet(lab)
    await fleet.add(VMRequest(name="moved", host=one.name, network=False, disk=disk))
    known = {migration.metadata.name for migration in await migrations(api)}
    return fleet, (one.name, other.name), known
