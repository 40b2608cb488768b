"""What dies in a lab of `cobalt lab up` is started again; what a command has stopped is not."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.lab import control, operator, processes
from hypercobalt.lab.bmc import boards
from hypercobalt.lab.errors import CommandError
from hypercobalt.lab.lab import Lab, down
from hypercobalt.lab.network import rack
from hypercobalt.lab.state import Layout
from hypercobalt.lab.supervision import supervisor
from tests.lab.conftest import run
from tests.lab.kit.command import cobalt
from tests.lab.kit.leftovers import leftovers

pytestmark = pytest.mark.timeout(240)
RESTART = 2.0  # seconds; a lab's process takes half a second to start
ON_A_BUSY_MACHINE = 60.0  # seconds
_STEP = 0.05


@pytest.fixture(scope="module")
def directory(able_machine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("supervised") / "lab"
    yield folder
    run(down(folder))


@pytest.fixture
def data(directory: Path) -> Path:
    """Directory of a lab that all tests share.

    Each test kills roles of its own, as deaths in a row delay the next start.
    """
    if not Layout.at(directory).state.exists():
        run(cobalt("up", "--hosts", "1", "--vms", "0", "--port", "0", "--yes", data=directory))
        run(until(lambda: watches(Lab.find(directory)), ON_A_BUSY_MACHINE))
    return directory


async def watches(lab: Lab) -> bool:
    """Whether the supervisor holds the processes: how an earlier death came about is not known."""
    files = Path("/proc", str(pid(lab, supervisor.ROLE)), "fd")
    with suppress(FileNotFoundError):  # it has closed one meanwhile
        return any("pidfd" in str(file.readlink()) for file in files.iterdir())
    return False


def pid(lab: Lab, role: str) -> int | None:
    return next((process.pid for process in processes.find(lab.state.id, role)), None)


async def until(check: Callable[[], Awaitable[object]], within: float) -> float:
    began = monotonic()
    while not await check():
        assert monotonic() - began < within
        await asyncio.sleep(_STEP)
    return monotonic() - began


async def runs_anew(lab: Lab, role: str, before: int | None, within: float) -> float:
    async def check() -> bool:
        return pid(lab, role) not in (None, before)

    return await until(check, within)


def kill(lab: Lab, role: str) -> int:
    (first, *_) = processes.find(lab.state.id, role)
    assert processes.send(first, lab.state.id, signal.SIGKILL)
    return first.pid


async def status_shows(data: Path, pattern: str, within: float = 5) -> str:
    shown = ""

    async def check() -> bool:
        nonlocal shown
        shown = await cobalt("status", data=data)
        return re.search(pattern, shown) is not None

    await until(check, within)
    return shown


@pytest.mark.timed
@pytest.mark.parametrize(
    "role",
    [operator.ROLE, boards.role("kvm-1"), "ovn/sb", rack.DATABASE],
)
async def test_process_that_is_killed_runs_again(data: Path, role: str) -> None:
    lab = Lab.find(data)
    await runs_anew(lab, role, kill(lab, role), RESTART)
    how = "(killed by SIGKILL|the kernel does not report how)"  # Linux 6.15 is the first that does
    shown = await status_shows(data, f"Process {role} was restarted 1 time; it ended at .*: {how}")
    assert f"{role} does not run" not in shown
    log = (lab.layout.log / "supervisor.log").read_text()
    assert re.search(f"process_died.*{role}", log)
    assert re.search(f"process_restarted.*{role}", log)


async def test_server_that_is_killed_comes_back_and_the_agents_report(data: Path) -> None:
    lab = Lab.find(data)
    await runs_anew(lab, control.ROLE, kill(lab, control.ROLE), ON_A_BUSY_MACHINE)
    await status_shows(data, r"kvm-1 +running +Ready", 60)
    async with lab.control.client() as kube:
        hypervisor = await kube.get(Hypervisor, "kvm-1")
    assert hypervisor is not None


async def test_top_of_rack_that_is_killed_comes_back_with_its_cables(data: Path) -> None:
    lab = Lab.find(data)
    await runs_anew(lab, rack.SWITCH, kill(lab, rack.SWITCH), ON_A_BUSY_MACHINE)

    async def plugged() -> bool:
        try:
            links = await lab.rack.ip("-brief", "link", "show", "type", "veth")
        except CommandError:  # by the process that starts the switch, and has ended since
            return False
        return all(f"{cable}@" in links for cable in ("h1-data0", "h1-data1"))

    await until(plugged, 20)


async def test_bad_cable_is_as_bad_after_the_death_of_its_process(data: Path) -> None:
    lab = Lab.find(data)
    wire = lab.host("kvm-1").wire
    await cobalt("net", "delay", "kvm-1", "3", "--loss", "1", data=data)
    assert wire.badness == ("3", "1")
    await runs_anew(lab, wire.role, kill(lab, wire.role), ON_A_BUSY_MACHINE)
    relay = pid(lab, wire.role)
    assert Path(f"/proc/{relay}/cmdline").read_text().split("\0")[-3:-1] == ["3", "1"]
    await status_shows(data, r"kvm-1 +running +Ready", 60)
    await cobalt("net", "restore", "kvm-1", data=data)
    assert not lab.host("kvm-1").wire.badness
    assert pid(lab, wire.role) is None


async def test_process_that_a_command_stopped_stays_stopped(data: Path) -> None:
    lab = Lab.find(data)
    await cobalt("ovn", "stop", "northd", data=data)
    # Once this one runs, the supervisor has looked.
    await runs_anew(lab, "ovn/nb", kill(lab, "ovn/nb"), ON_A_BUSY_MACHINE)
    assert pid(lab, "ovn/northd") is None
    assert "`cobalt lab ovn start northd` repairs it" in await cobalt("status", data=data)
    await cobalt("ovn", "start", "northd", data=data)
    await runs_anew(lab, "ovn/northd", kill(lab, "ovn/northd"), ON_A_BUSY_MACHINE)


async def test_process_that_cannot_be_started_is_tried_ever_later(data: Path) -> None:
    lab = Lab.find(data)
    log = lab.layout.log / "tokens.log"
    log.rename(kept := log.with_suffix(".kept"))
    log.mkdir()  # its start fails: there is no file for its output
    kill(lab, control.TOKENS)
    shown = await status_shows(data, "tokens does not run, restarted [3-9] times, next start", 30)
    assert "The renewal of tokens does not run: within an hour" in shown
    assert "the supervisor starts it" in shown
    assert "tokens.log" in shown
    log.rmdir()
    kept.rename(log)
    await runs_anew(lab, control.TOKENS, None, 30)


async def test_supervisor_that_died_is_named_and_the_next_up_starts_it(data: Path) -> None:
    lab = Lab.find(data)
    kill(lab, supervisor.ROLE)
    await status_shows(data, "The supervisor does not run")
    await cobalt("up", "--yes", data=data)
    assert pid(lab, supervisor.ROLE) is not None
    await cobalt("up", "--yes", "--no-supervise", data=data)
    assert pid(lab, supervisor.ROLE) is None
    assert "supervisor does not run" not in await cobalt("status", data=data)
    await cobalt("up", "--yes", data=data)


async def test_down_in_the_middle_of_restarts_leaves_nothing(data: Path) -> None:
    lab = Lab.find(data)
    for role in (control.ROLE, operator.ROLE, "ovn/sb", "shared", rack.SWITCH):
        kill(lab, role)
    await until(lambda: _restarts(lab), 20)
    assert "everything is gone" in await cobalt("down", data=data)
    assert leftovers(lab.state, data) == []
    assert not data.exists()


async def _restarts(lab: Lab) -> bool:
    log = (lab.layout.log / "supervisor.log").read_text()
    return re.search("restarting_process.*shared", log) is not None
