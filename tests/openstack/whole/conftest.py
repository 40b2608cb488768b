"""Our operator, agents and BMCs beside the OpenStack of this ring, on its hosts.

The lab is what `cobalt lab up --openstack --hosts 2 --vms 0 --node-grace 4s` makes, in two steps:
the tests of OpenStack alone have used it before. `--chains FILE` writes what hosts and operator
have logged of each server, in the order of time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio

from hypercobalt.api.core import ConfigMap
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.drills.witness import Witness
from hypercobalt.ha.incidents.config import KEY
from hypercobalt.lab import rights
from hypercobalt.lab.openstack import seed
from hypercobalt.lab.openstack.client import Session
from hypercobalt.lab.openstack.site import OpenStack
from hypercobalt.lab.setup import Setup
from hypercobalt.node_agent.settings import DEFAULT_HA_CONFIG
from tests.openstack.conftest import run
from tests.openstack.servers import Servers
from tests.openstack.whole.chain import chain
from tests.openstack.whole.site import Site

_EACH_BY_ITSELF = "thresholds: {manyCrashes: {percent: 100, count: 50}}"
"""Crashes in tests that follow one another within a minute are no failure of their host."""


@pytest.fixture(scope="session")
def whole(openstack: OpenStack) -> OpenStack:
    """The environment with our operator, agents and BMCs, from now on."""
    run(openstack.start(Setup()))
    run(_configure(openstack))
    return openstack


async def _configure(openstack: OpenStack) -> None:
    meta = ObjectMeta(name=DEFAULT_HA_CONFIG, namespace=rights.NAMESPACE)
    async with openstack.lab.control.client() as kube:
        await kube.apply(ConfigMap(metadata=meta, data={KEY: _EACH_BY_ITSELF}), force=True)


@pytest_asyncio.fixture
async def site(request: pytest.FixtureRequest, whole: OpenStack) -> AsyncIterator[Site]:
    """The environment with all hosts in service; as it was afterwards, and nothing ran twice."""
    witness = Witness(whole.lab.state.prefix)
    watching = asyncio.create_task(witness.watch(), name="witness")
    async with Session(whole.admin) as admin, whole.lab.control.client() as kube:
        site = Site(whole, admin, kube, Servers(admin, seed.NAMES), witness)
        await site.all_in_service()
        await site.without_issues()
        try:
            yield site
            assert witness.double_runs == ()
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
            drawn: Path | None = request.config.getoption("--chains")
            if drawn is not None:
                await _draw(site, request.node.name, drawn)
            await site.mend()


async def _draw(site: Site, test: str, drawn: Path) -> None:
    """Append the chain of each server of a test to a file."""
    for server in site.servers.made:
        text = f"{test}, {server}\n{await chain(site.openstack, server)}\n"
        with drawn.open("a") as file:
            file.write(text)
