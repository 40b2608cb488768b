"""The test bed in the suite of another project."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from hypercobalt.lab import processes
from hypercobalt.lab.commands import execute

pytestmark = [pytest.mark.timeout(240), pytest.mark.usefixtures("able_machine")]

SUITE = """
import pathlib
import pytest
from hypercobalt.api.hypervisor import Hypervisor

@pytest.mark.asyncio
async def test_a_crashed_host_is_off(hosts, lab):
    pathlib.Path("id").write_text(lab.state.id)
    pathlib.Path("data").write_text(str(lab.layout.data))
    first, = await hosts(1)
    await first.crash()
    assert first.power == "off"

@pytest.mark.asyncio
async def test_a_node_has_its_hypervisor(nodes, api):
    first, = await nodes(1)
    assert await api.get(Hypervisor, first.name)

@pytest.mark.asyncio
async def test_a_host_runs_no_agent_of_another_test(hosts):
    first, = await hosts(1)
    units = await first.run("systemctl", "list-units", "--type=service", "--plain", "--no-legend")
    assert "libvirtd.service" in units
    assert "hypercobalt" not in units
"""


async def test_another_suite_has_hosts_and_their_objects_and_nothing_is_left(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    plugins = ("-p", "hypercobalt.lab.pytest_plugin", "-p", "no:randomly")
    done = await execute(
        ("env", f"--chdir={tmp_path}", sys.executable, "-m", "pytest", *plugins, "test_suite.py"),
        within=timedelta(seconds=180),
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert "3 passed" in done.stdout, done
    assert processes.find((tmp_path / "id").read_text()) == ()
    assert not Path((tmp_path / "data").read_text()).exists()
