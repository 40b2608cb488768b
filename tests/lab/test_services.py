"""The lab's own services in real hosts, and when systemd reads its units again for them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from hypercobalt.lab import services
from hypercobalt.lab.errors import CommandError
from hypercobalt.lab.host import Host
from tests.lab.conftest import TakeHosts

pytestmark = pytest.mark.timeout(180)

NAME = "waits.service"
OTHER = "listens.service"
UNIT = """\
[Service]
ExecStart=/bin/sleep {seconds}

[Install]
WantedBy=multi-user.target
"""


_FORGET = """
systemctl disable --quiet --now "$@" 2>/dev/null
cd /etc/systemd/system && rm -f "$@" && systemctl daemon-reload
systemctl reset-failed
"""


@pytest_asyncio.fixture
async def host(hosts: TakeHosts) -> AsyncIterator[Host]:
    """A host that has none of these services, also for the tests that follow."""
    (one,) = await hosts(1)
    yield one
    await one.run("sh", "-c", _FORGET, "forget", NAME, OTHER)


async def _shown(host: Host, which: str, *unit: str) -> str:
    return (await host.run("systemctl", "show", f"--property={which}", "--value", *unit)).strip()


async def _last_read(host: Host) -> str:
    """When systemd last read all of its units."""
    return await _shown(host, "UnitsLoadStartTimestampMonotonic")


async def test_installed_service_runs_now_and_from_each_boot_on(host: Host) -> None:
    await services.install(host, {NAME: UNIT.format(seconds=1000), OTHER: UNIT.format(seconds=900)})

    assert await host.run("systemctl", "is-active", NAME, OTHER) == "active\nactive\n"
    assert await host.run("systemctl", "is-enabled", NAME, OTHER) == "enabled\nenabled\n"


async def test_service_that_is_as_it_should_be_goes_on_without_a_reload(host: Host) -> None:
    await services.install(host, {NAME: UNIT.format(seconds=1000)})
    process, read = await _shown(host, "MainPID", NAME), await _last_read(host)

    await services.install(host, {NAME: UNIT.format(seconds=1000)})

    assert (await _shown(host, "MainPID", NAME), await _last_read(host)) == (process, read)


async def test_changed_unit_file_applies_from_the_next_start_on(host: Host) -> None:
    await services.install(host, {NAME: UNIT.format(seconds=1000)})
    process = await _shown(host, "MainPID", NAME)

    await services.install(host, {NAME: UNIT.format(seconds=2000)})

    assert await _shown(host, "MainPID", NAME) == process
    await host.run("systemctl", "restart", NAME)
    assert "/bin/sleep 2000" in await _shown(host, "ExecStart", NAME)


async def test_service_that_does_not_start_is_named(host: Host) -> None:
    with pytest.raises(CommandError, match=NAME):
        await services.install(host, {NAME: "[Service]\nType=oneshot\nExecStart=/bin/false\n"})
