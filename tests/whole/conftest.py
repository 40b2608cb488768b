"""One lab for all of these tests: OpenStack, our agents and operator, and BMCs, on two hosts.

`--lab DATA` uses one that is there, and leaves it; it was made by `cobalt lab up --openstack
--hosts 2 --vms 0 --node-grace 4s --data DATA`. `--chains FILE` writes what hosts and operator have
logged of each server, in the order of time.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from hypercobalt.drills.witness import Witness
from hypercobalt.lab.openstack import seed
from hypercobalt.lab.openstack.client import Session
from hypercobalt.lab.openstack.site import OpenStack, up
from hypercobalt.lab.progress import Progress
from hypercobalt.lab.pytest_plugin import run
from hypercobalt.lab.setup import Setup
from tests.openstack import machine
from tests.openstack.reaper import reaped
from tests.openstack.servers import Servers
from tests.whole.chain import chain
from tests.whole.site import Site

HOSTS = ("kvm-1", "kvm-2")
_NODE_GRACE = timedelta(seconds=4)  # as in drills: waits that do not matter here are short


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--lab", type=Path, help="data directory of a lab with OpenStack that runs")
    parser.addoption("--chains", type=Path, help="file for what was logged of each server")


@pytest.fixture(scope="session")
def openstack(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OpenStack]:
    """The environment; gone afterwards, also when the tests are killed."""
    running: Path | None = request.config.getoption("--lab")
    if running is not None:
        yield OpenStack.find(running)
        return
    run(machine.demand(tmp_path_factory.getbasetemp(), len(HOSTS)))
    data = tmp_path_factory.mktemp("whole")
    begun = time.monotonic()

    def report(step: str, progress: Progress) -> None:
        sys.stderr.write(f"{time.monotonic() - begun:6.1f} s  {step}: {progress}\n")

    with reaped(data):
        yield run(
            up(
                *(data, report),
                hosts=HOSTS,
                setup=Setup(),
                api_port=0,
                node_grace=_NODE_GRACE,
            )
        )


@pytest_asyncio.fixture
async def site(request: pytest.FixtureRequest, openstack: OpenStack) -> AsyncIterator[Site]:
    """The environment with all hosts in service; as it was afterwards, and nothing ran twice."""
    witness = Witness(openstack.lab.state.prefix)
    watching = asyncio.create_task(witness.watch(), name="witness")
    async with Session(openstack.admin) as admin, openstack.lab.control.client() as kube:
        site = Site(openstack, admin, kube, Servers(admin, seed.NAMES), witness)
        await site.all_in_service()
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
