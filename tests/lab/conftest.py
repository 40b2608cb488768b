"""Real hosts, from the plugin that any test suite may load; and fixtures of the tests here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from hypercobalt.lab.errors import LabError
from hypercobalt.lab.pytest_plugin import (
    BARE,
    SWITCHED,
    TakeFleet,
    TakeHosts,
    able_machine,
    api,
    api_server,
    fleet,
    hosts,
    lab,
    nodes,
    run,
    switched,
)
from tests.lab.kit.libvirtd import Daemon, private_libvirtd
from tests.waiting import Pause

# A conftest that is not the first one cannot name plugins: it hands the fixtures on.
__all__ = [
    "BARE",
    "SWITCHED",
    "TakeFleet",
    "TakeHosts",
    "able_machine",
    "api",
    "api_server",
    "fleet",
    "hosts",
    "lab",
    "nodes",
    "run",
    "switched",
    "until",
]


async def until(attempt: Callable[[], Awaitable[object]]) -> None:
    """Repeat what fails with a LabError until it succeeds, for 20 s."""
    pause = Pause(0.05)
    async with asyncio.timeout(20):
        while True:
            try:
                await attempt()
            except LabError:
                await pause()
            else:
                return


@pytest.fixture
def libvirtd(able_machine: None) -> Iterator[Daemon]:
    """A libvirtd with QEMU of the test's own, without a host around it."""
    with private_libvirtd() as daemon:
        yield daemon
