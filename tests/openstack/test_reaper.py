"""An environment ends with the process that started it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from hypercobalt.lab import mounts, processes
from hypercobalt.lab import state as records
from hypercobalt.lab.state import Layout
from tests.openstack.servers import until

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("able_machine")]

_ROOT = Path(__file__).parents[2]
_OWNER = """
import asyncio, sys
from pathlib import Path
from tests.openstack.reaper import reaped
from hypercobalt.lab.openstack.site import up

with reaped(Path(sys.argv[1])):
    asyncio.run(up(Path(sys.argv[1])))
"""


async def test_nothing_is_left_when_the_tests_are_killed(tmp_path: Path) -> None:
    data = tmp_path / "killed"
    owner = await asyncio.create_subprocess_exec(sys.executable, "-c", _OWNER, data, cwd=_ROOT)

    async def roles() -> set[str]:
        """Processes of the environment that run."""
        state = records.load(Layout.at(data)) if data.exists() else None
        return {process.role for process in processes.find(state.id)} if state else set()

    # In the middle of it: a broker, a database server and a host run, the services start.
    parts = {"openstack/rabbitmq", "openstack/mariadb", "host/compute-1"}
    await until(roles, lambda found: parts <= found)
    state = records.load(Layout.at(data))
    assert state is not None
    owner.kill()
    await owner.wait()

    async def left() -> object:
        bridge = Path("/sys/class/net", state.bridge).exists()
        known = any(records.RUNNING.glob(f"{state.id}.json"))
        return (processes.find(state.id), mounts.under(data), bridge, known)

    await until(left, lambda found: found == ((), (), False, False), within=60)
