"""The lab as a whole: what is there after `up`, after a second one, and nothing after `down`."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypercobalt.api.core import Node
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.lab import mounts, processes
from hypercobalt.lab import state as records
from hypercobalt.lab.commands import execute
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.host import SHARED, HostPower
from hypercobalt.lab.lab import Lab, down
from hypercobalt.lab.locks import locked
from hypercobalt.lab.membership import add_host, remove_host
from hypercobalt.lab.network import bridge
from hypercobalt.lab.setup import Setup
from hypercobalt.lab.state import LabState, Layout
from tests.lab.conftest import run
from tests.lab.kit.leftovers import leftovers, named_leftovers

pytestmark = [pytest.mark.timeout(240), pytest.mark.usefixtures("able_machine")]


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "lab"
    run(down(tmp_path / "lab"))


def found(data: Path) -> LabState:
    state = records.load(Layout.at(data))
    assert state is not None
    return state


async def test_up_makes_the_whole_lab_and_down_leaves_nothing(data: Path) -> None:
    lab = await Lab.make(data)
    await lab.up(Setup(hosts=2))

    async with lab.control.client() as kube:
        nodes = (await kube.list(Node)).items
        hypervisors = (await kube.list(Hypervisor)).items
    assert [node.metadata.name for node in nodes] == ["kvm-1", "kvm-2"]
    assert [hv.status.internalIp for hv in hypervisors] == [host.address for host in lab.hosts]
    assert [hv.metadata.labels["topology.kubernetes.io/zone"] for hv in hypervisors] == [
        "lab-a",
        "lab-b",
    ]
    chassis = await lab.central.sbctl("--bare", "--columns=name", "list", "Chassis")
    assert sorted(chassis.split()) == ["kvm-1", "kvm-2"]

    assert await down(data)
    assert leftovers(lab.state, data) == []
    assert not await down(data)


async def test_a_lab_takes_a_free_port_for_its_api_and_keeps_it(data: Path) -> None:
    lab = await Lab.make(data, api_port=0)
    await lab.control.start()
    again = await Lab.make(data, api_port=0)
    async with again.control.client() as kube:
        assert (await kube.list(Node)).items == []
    assert again.state == lab.state
    assert lab.state.api_port


async def test_only_root_reaches_the_libvirt_of_a_host(data: Path) -> None:
    lab = await Lab.make(data)
    await lab.up(Setup(hosts=1, ovn=False, control_plane=False))
    connect = ("bash", "-c", f"exec 3<>/dev/tcp/{lab.host('kvm-1').address}/16509")

    def reach(user: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(connect, user=user, capture_output=True, text=True, check=False)

    assert (await asyncio.to_thread(reach, 0)).returncode == 0
    refused = await asyncio.to_thread(reach, 65534)
    assert refused.returncode
    assert "Permission denied" in refused.stderr


async def test_a_lab_changes_no_way_to_anywhere_else(data: Path) -> None:
    elsewhere = ("ip", "route", "get", "198.51.100.7")  # looks it up, sends nothing

    async def way() -> str:
        done = await execute(elsewhere)
        return f"{done.code} {done.stdout} {done.stderr}"

    before = await way()
    lab = await Lab.make(data)
    await lab.up(Setup(hosts=1, ovn=False, control_plane=False))
    assert await way() == before


async def test_lab_can_be_in_any_directory(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    data = tmp_path / "link" / f"a lab: 1,2 \\ {'long' * 40}"
    try:
        lab = await Lab.make(data)
        await lab.up(Setup(hosts=1))
        await lab.host("kvm-1").run("true")
    finally:
        assert await down(data)
    assert leftovers(lab.state, data) == []


async def test_mounts_of_a_person_stay_when_the_lab_goes(tmp_path: Path) -> None:
    data, own = tmp_path / "mounted", tmp_path / "mounted" / "own"
    points = (data, own)
    try:
        for point in points:
            point.mkdir()
            await execute(("mount", "-t", "tmpfs", "none", str(point)))
        assert mounts.under(data) == points

        lab = await Lab.make(data)
        await lab.share()
        assert await down(data)

        assert mounts.under(data) == points
        assert list(data.iterdir()) == [own]
        assert named_leftovers(lab.state) == []
    finally:
        await mounts.release(data)


async def test_a_second_up_leaves_a_frozen_host_as_it_is(data: Path) -> None:
    lab = await Lab.make(data)
    await lab.up(Setup(hosts=1, ovn=False, control_plane=False))
    await lab.host("kvm-1").freeze()
    await lab.up(Setup(hosts=1, ovn=False, control_plane=False))
    assert lab.host("kvm-1").power is HostPower.FROZEN


async def test_a_shared_directory_whose_process_died_comes_back_in_hosts_that_run_and_in_others(
    data: Path,
) -> None:
    lab = await Lab.make(data)
    bare = Setup(hosts=2, ovn=False, control_plane=False)
    await lab.up(bare)
    (lab.layout.shared / "disk").write_text("kept")
    await processes.kill(lab.state.id, lambda process: process.role == "shared")
    with pytest.raises(OSError, match="not connected"):
        (lab.layout.shared / "disk").read_text()
    await lab.host("kvm-2").crash()
    leader = lab.host("kvm-1").leader_pid
    await lab.up(bare)
    for host in lab.hosts:
        assert await host.run("cat", f"{SHARED}/disk") == "kept"
    assert lab.host("kvm-1").leader_pid == leader


async def test_a_second_up_finds_everything_and_restarts_what_died(data: Path) -> None:
    setup = Setup(hosts=2)
    first = await Lab.make(data)
    await first.up(setup)
    before = {process.role: process.pid for process in processes.find(first.state.id)}
    await first.host("kvm-1").crash()
    await processes.kill(
        first.state.id, lambda process: process.role in {"apiserver", "ovn/northd"}
    )

    second = await Lab.make(data)
    await second.up(setup)

    after = {process.role: process.pid for process in processes.find(second.state.id)}
    assert second.state == first.state
    assert after.keys() == before.keys()
    assert {role for role in before if before[role] != after[role]} == {
        "apiserver",
        "host/kvm-1",
        "leader/kvm-1",
        "ovn/northd",
    }


async def killed_up(data: Path, step: str) -> LabState:
    """An `up` that kills itself in the moment a step begins: it cleans nothing up."""
    script = (
        "import asyncio, os, sys; from pathlib import Path\n"
        "from hypercobalt.lab.lab import Lab\n"
        "from hypercobalt.lab.setup import Setup\n"
        "def report(step, progress):\n"
        "  if step == sys.argv[2]: asyncio.get_running_loop().call_later("
        f"float(sys.argv[3]), os.kill, os.getpid(), {signal.SIGKILL:d})\n"
        "async def main():\n"
        "  lab = await Lab.make(Path(sys.argv[1]), report); await lab.up(Setup(hosts=2))\n"
        "asyncio.run(main())\n"
    )
    later = "0" if step.startswith("hypervisor") else "0.2"  # the last step may be a short one
    up = await asyncio.create_subprocess_exec(sys.executable, "-c", script, str(data), step, later)
    assert await up.wait() == -signal.SIGKILL
    state = found(data)
    assert leftovers(state, data) != []
    return state


STEPS = pytest.mark.parametrize(
    "step",
    [
        "shared directory",
        "OVN databases",
        "host kvm-1",
        "API server",
        "operator",
        "OVN on kvm-2",
        "hypervisor kvm-2",
    ],
)


@STEPS
async def test_an_up_that_is_killed_half_way_leaves_nothing_after_down(
    data: Path, step: str
) -> None:
    state = await killed_up(data, step)
    assert await down(data)
    assert leftovers(state, data) == []


@STEPS
async def test_an_up_that_is_killed_half_way_is_finished_by_the_next(data: Path, step: str) -> None:
    state = await killed_up(data, step)
    lab = await Lab.make(data)
    await lab.up(Setup(hosts=2))
    assert lab.state == state
    for host in lab.hosts:
        await host.check_services()
    async with lab.control.client() as kube:
        nodes = (await kube.list(Node)).items
    assert [node.metadata.name for node in nodes] == ["kvm-1", "kvm-2"]
    chassis = await lab.central.sbctl("--bare", "--columns=name", "list", "Chassis")
    assert sorted(chassis.split()) == ["kvm-1", "kvm-2"]


async def test_a_host_can_take_the_place_of_a_removed_one(data: Path) -> None:
    lab = await Lab.make(data)
    await lab.up(Setup(hosts=1, control_plane=False))
    address = lab.host("kvm-1").address
    await remove_host(lab, "kvm-1")

    added = await add_host(lab, "other")

    assert added.address == address
    assert (await lab.central.sbctl("--bare", "--columns=name", "list", "Chassis")).split() == [
        "other"
    ]


async def test_two_labs_run_side_by_side(data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    try:
        pair = await asyncio.gather(Lab.make(data), Lab.make(other))
        await asyncio.gather(*(lab.up(Setup(hosts=1, ovn=False)) for lab in pair))
        assert pair[0].state.network != pair[1].state.network

        await down(other)

        assert leftovers(pair[1].state, other) == []
        assert pair[0].host("kvm-1").power is HostPower.RUNNING
        assert bridge.is_ours(pair[0].state)
    finally:
        await down(other)


async def test_only_one_command_changes_a_lab_at_a_time(data: Path) -> None:
    with (
        locked(Layout.at(data)),
        pytest.raises(LabError, match="another command is changing the lab"),
        locked(Layout.at(data)),
    ):
        pass
