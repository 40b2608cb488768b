"""The cloud that the tests of this ring run on: a simulated one, or with `--real` a real one.

The real one is started for the first test and gone after the last; the last ones, in `whole`, have
our operator and agents beside it. `--openstack DATA` uses one that `python -m tests.openstack up
DATA` has started, and leaves it. Where none can be started the tests are skipped with the reason;
with CI=true they fail.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

from hypercobalt.lab.openstack.site import OpenStack
from hypercobalt.lab.progress import Progress
from tests.openstack import machine
from tests.openstack.client import Session
from tests.openstack.cloud import Cloud
from tests.openstack.computes import DISABLED, provider_id, set_service, traits
from tests.openstack.real import HOSTS, cloud_of, start
from tests.openstack.reaper import reaped
from tests.openstack.servers import Servers, until
from tests.simulated_openstack.serve import serve
from tests.simulated_openstack.world import World

T = TypeVar("T")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--real", action="store_true", help="run on a real OpenStack")
    parser.addoption("--openstack", type=Path, help="data directory of a real one that runs")
    parser.addoption("--chains", type=Path, help="file for what was logged of servers of the whole")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "real: about the real OpenStack alone")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each test on the real one five minutes of its own; leave out those about it alone."""
    here = Path(__file__).parent
    if on_real(config):
        for item in items:
            if item.path.is_relative_to(here) and not item.get_closest_marker("timeout"):
                # The first one waits for the whole of OpenStack.
                item.add_marker(pytest.mark.timeout(300, func_only=True))
        # An operator that runs would take what the others do to hosts for faults.
        items.sort(key=lambda item: item.path.is_relative_to(here / "whole"))
        return
    left_out = [item for item in items if item.get_closest_marker("real")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def run(work: Coroutine[object, object, T]) -> T:
    """Run a coroutine to its end beside the loop of the tests."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


@pytest.fixture(scope="session")
def able_machine(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A machine that can; in CI what is missing is installed, or the tests fail."""
    run(machine.demand(tmp_path_factory.getbasetemp(), len(HOSTS)))


@pytest.fixture(scope="session")
def openstack(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OpenStack]:
    """The environment, for tests that do something to its hosts."""
    running: Path | None = request.config.getoption("--openstack")
    if running is not None:
        yield OpenStack.find(running)
        return
    request.getfixturevalue("able_machine")
    data = tmp_path_factory.mktemp("openstack")
    begun = time.monotonic()

    def report(step: str, progress: Progress) -> None:
        sys.stderr.write(f"{time.monotonic() - begun:6.1f} s  {step}: {progress}\n")

    with reaped(data):
        yield run(start(data, report))


def on_real(config: pytest.Config) -> bool:
    """Whether the tests run on a real OpenStack."""
    return bool(config.getoption("--real") or config.getoption("--openstack"))


@pytest.fixture
async def cloud(request: pytest.FixtureRequest) -> AsyncIterator[Cloud]:
    """The cloud for tests of the API's behaviour: without what only one of them has."""
    if on_real(request.config):
        openstack: OpenStack = request.getfixturevalue("openstack")
        yield cloud_of(openstack)
        return
    world = World()
    world.failures_break = True
    for host in HOSTS:
        world.add_host(host)
    async with serve(world) as simulation:
        yield simulation.cloud


@pytest.fixture
async def admin(cloud: Cloud) -> AsyncIterator[Session]:
    """An administrator's session."""
    async with Session(cloud.admin) as session:
        yield session


@pytest.fixture
async def tester(cloud: Cloud) -> AsyncIterator[Session]:
    """The session of a user with a project and no other right."""
    async with Session(cloud.tester) as session:
        yield session


@pytest.fixture
async def servers(cloud: Cloud, admin: Session) -> AsyncIterator[Servers]:
    """Servers of the administrator; those that a test made are gone after it."""
    made = Servers(admin, cloud.names)
    yield made
    await made.remove_all()


@pytest.fixture
async def disabled(cloud: Cloud, admin: Session) -> AsyncIterator[str]:
    """A host whose compute service takes no new servers; it does again after the test."""
    host = cloud.hosts[-1]
    await set_service(admin, host, status="disabled", disabled_reason="test")
    provider = await provider_id(admin, host)
    await until(lambda: traits(admin, provider), lambda found: DISABLED in found)
    yield host
    await set_service(admin, host, status="enabled")
    await until(lambda: traits(admin, provider), lambda found: DISABLED not in found)
