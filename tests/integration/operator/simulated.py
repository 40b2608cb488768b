"""A simulated OpenStack that an operator works on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from tests.integration.compute.conftest import Adapter
from tests.integration.operator.lifecycle import TEST_AGGREGATE
from tests.openstack.environment import set_account
from tests.simulated_openstack.compute.aggregates import make
from tests.simulated_openstack.model import Host
from tests.simulated_openstack.pace import Pace
from tests.simulated_openstack.script import Script
from tests.simulated_openstack.serve import Simulation, serve
from tests.simulated_openstack.world import World

from hypercobalt.adapters.openstack.breaker import Rules
from hypercobalt.compute.nova.service import Nova
from hypercobalt.runtime import Kube

QUICKLY: Final = Rules(first=0.1, longest=0.3, jitter=lambda seconds: seconds)
"""Breakers that tests need not wait for."""


def world_of(
    *hosts: str,
    enabled: bool = False,
    pace: Pace | None = None,
    aggregates: tuple[str, ...] = (TEST_AGGREGATE, "general"),
) -> World:
    """An OpenStack with a zone, aggregates and hosts, which are new unless they are enabled."""
    made = World(pace)
    for host in hosts:
        made.add_host(host, enabled=enabled)
    make(made, "zone-a", "zone-a")
    for aggregate in aggregates:
        make(made, aggregate)
    made.custom_traits.add("CUSTOM_A")
    return made


@dataclass(slots=True)
class SimulatedCloud:
    """A served OpenStack, and what an operator needs to work on it.

    Args:
        name: of the host that the test is about, and of its Hypervisor.
    """

    simulation: Simulation
    kube: Kube
    kubeconfig: Path
    name: str

    @property
    def world(self) -> World:
        return self.simulation.world

    @property
    def script(self) -> Script:
        return self.simulation.script

    @property
    def host(self) -> Host:
        return self.world.hosts[self.name]

    @property
    def inside(self) -> set[str]:
        """Aggregates that the host is in."""
        return {one.name for one in self.world.aggregates.values() if self.name in one.hosts}

    def nova(self) -> Nova:
        return Adapter(self.simulation, rules=QUICKLY).nova()


@asynccontextmanager
async def served(
    monkeypatch: pytest.MonkeyPatch, world: World, *, certificate: Path | None = None, **more: str
) -> AsyncIterator[Simulation]:
    """Serve an OpenStack whose administrator's account is in the environment, and more is."""
    async with serve(world, certificate=certificate) as simulation:
        set_account(monkeypatch, simulation.admin, **more)
        yield simulation
