"""`cobalt lab` as a person without a terminal uses it."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import sys
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from time import monotonic

import pytest
from rich.console import Console

from hypercobalt.cli.lab_screen import show_table
from hypercobalt.lab import processes
from hypercobalt.lab import state as records
from hypercobalt.lab.commands import execute
from hypercobalt.lab.control import TOKENS
from hypercobalt.lab.host import HostPower
from hypercobalt.lab.lab import Lab, down
from hypercobalt.lab.machine import preflight
from hypercobalt.lab.setup import Setup
from hypercobalt.lab.state import Layout
from hypercobalt.operator.election import LEASE
from tests.lab.conftest import run
from tests.lab.kit.command import COBALT, cobalt
from tests.lab.kit.leftovers import leftovers

pytestmark = [pytest.mark.timeout(240), pytest.mark.usefixtures("able_machine")]
# The aim is 40 s, and an idle machine of two cores takes 25: without KVM the guests take both of
# them. Beside two dozen other processes that wanted the cores as well it took 42 s.
UP_SECONDS = 60


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "lab"
    run(down(tmp_path / "lab"))


def column(table: str, number: int) -> dict[str, str]:
    rows = [line.split() for line in table.splitlines()]
    return {row[0]: row[number] for row in rows if row and row[0].startswith("kvm-")}


def power(table: str) -> dict[str, str]:
    return column(table, 1)


@pytest.mark.timed
async def test_commands_make_use_and_end_a_lab(data: Path) -> None:
    began = monotonic()
    printed = await cobalt("up", data=data)
    assert monotonic() - began < UP_SECONDS
    assert column(printed, 1) == dict.fromkeys(("kvm-1", "kvm-2", "kvm-3"), "running")
    assert column(printed, 2) == dict.fromkeys(("kvm-1", "kvm-2", "kvm-3"), "Ready")
    assert "get hypervisors" in printed
    assert f"cobalt lab down --data {data}" in printed

    vms = await cobalt("vm", "list", data=data)
    assert all(f"vm-{number} " in vms for number in range(1, 7))
    await cobalt("vm", "move", "vm-1", "kvm-2", data=data)
    assert "vm-1" in await cobalt("exec", "kvm-2", "virsh", "list", data=data)
    await cobalt("vm", "remove", "vm-1", data=data)

    await cobalt("host", "freeze", "kvm-1", data=data)
    assert power(await cobalt("status", data=data))["kvm-1"] == "frozen"
    await cobalt("host", "thaw", "kvm-1", data=data)
    await cobalt("host", "crash", "kvm-1", data=data)
    assert power(await cobalt("status", data=data))["kvm-1"] == "off"
    await cobalt("host", "start", "kvm-1", data=data)
    for vm in ("vm-2", "vm-3"):
        await cobalt("vm", "move", vm, "kvm-1", data=data)
    await cobalt("host", "shutdown", "kvm-1", data=data)
    vms = await cobalt("vm", "list", data=data)  # the operator has emptied the host first
    assert [vm for vm in ("vm-2", "vm-3") if f"{vm} " not in vms] == []
    assert power(await cobalt("status", data=data))["kvm-1"] == "off"
    await cobalt("host", "remove", "kvm-1", data=data)
    assert "kvm-1 is up on 10.77." in await cobalt("host", "add", "kvm-1", data=data)

    await cobalt("net", "cut", "kvm-2", data=data)
    await cobalt("net", "restore", "kvm-2", data=data)
    await cobalt("net", "delay", "kvm-2", "5", "--loss", "1", data=data)

    state = records.load(Layout.at(data))
    assert state is not None
    assert "everything is gone" in await cobalt("down", data=data)
    assert leftovers(state, data) == []
    assert not data.exists()


@pytest.mark.parametrize(
    "arguments",
    ["status", "host crash kvm-1", "net cut kvm-1", "exec kvm-1 true", "vm list", "host add"],
)
async def test_without_a_lab_every_command_names_the_one_that_makes_it(
    data: Path, arguments: str
) -> None:
    printed = await cobalt(*arguments.split(), data=data, code=2)
    assert "there is no lab in" in printed
    assert "cobalt lab up" in printed
    assert "Traceback" not in printed
    assert not (data / "state.json").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        ("up --hosts 0", 2, "--hosts 0: must be 1 or more"),
        ("up --hosts 100000", 1, "MiB of memory are needed for 100000 hosts"),
        ("up --vms -1", 2, "--vms -1: must be 0 or more"),
        ("up --port 65536", 2, "Must be <= 65535"),
        ("up --port -1", 2, "Must be >= 0"),
    ],
)
async def test_an_impossible_lab_is_refused(
    data: Path, arguments: str, code: int, complaint: str
) -> None:
    printed = await cobalt(*arguments.split(), data=data, code=code)
    assert complaint in printed
    assert not data.exists()


async def test_without_root_up_reports_it_and_serves_the_api(data: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-all"),
        *(COBALT, "lab", "up", "--port", "0", "--data", str(data)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    lines: list[str] = []
    async with asyncio.timeout(60):
        async for line in process.stdout:
            lines.append(line.decode())
            if "Ctrl-C stops it." in lines[-1]:
                process.send_signal(signal.SIGINT)
    printed = "".join(lines)

    assert await process.wait() == 0
    assert "No host can be booted on this machine:" in printed
    assert "root rights are missing" in printed
    assert "hypervisors" in printed
    assert [entry.name for entry in data.iterdir()] == ["api"]
    assert "everything is gone" in await cobalt("down", data=data)
    assert not data.exists()


AS_NOBODY = (  # loads everything first: other users may not be able to read the programs
    "import os, sys; import hypercobalt.cli.lab_vms; from hypercobalt.cli import main\n"
    "import hypercobalt.cli.lab as lab, hypercobalt.cli.lab_hosts\n"
    "os.setgroups([]); os.setgid(65534); os.setuid(65534); main()\n"
)


async def test_user_without_root_is_refused_instead_of_shown_that_everything_is_off() -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "lab"
        try:
            lab = await Lab.make(data)
            await lab.up(Setup(hosts=1, ovn=False, control_plane=False))
            for mode in (0o755, 0o700):
                Path(folder).chmod(mode)
                for arguments in ("status", "host crash kvm-1", "host start kvm-1", "vm list"):
                    await refused(*arguments.split(), "--data", str(data))
            await refused("down", "--data", str(data))
            assert lab.host("kvm-1").power is HostPower.RUNNING
        finally:
            await down(data)


async def refused(*arguments: str) -> None:
    done = await execute((sys.executable, "-c", AS_NOBODY, "lab", *arguments))
    assert (done.code, done.stdout) == (1, ""), arguments
    assert "run this command as root" in done.stderr


async def test_a_second_up_finishes_what_a_killed_one_began_and_starts_what_died(
    data: Path,
) -> None:
    up = ("up", "--hosts", "2", "--vms", "2", "--data", str(data))
    process = await asyncio.create_subprocess_exec(
        *(COBALT, "lab", *up),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    while b"hypervisor kvm-" not in (line := await process.stdout.readline()):
        assert line, "it ended"
    process.kill()
    await process.wait()

    printed = await cobalt("up", data=data)
    assert f"cobalt lab vm move vm-1 kvm-2 --slow 16 --data {data}" in printed
    assert names(await cobalt("vm", "list", data=data)) == {"vm-1": "kvm-1", "vm-2": "kvm-2"}

    await cobalt("vm", "remove", "vm-1", data=data)
    await cobalt("host", "crash", "kvm-2", data=data)
    # What runs has its memory already: a host and its VM are all that is started.
    little = preflight.HOST_BYTES + preflight.GUEST_BYTES
    printed = await on_a_machine_with(little - 1, "up", data=data, code=1)
    assert "436 MiB of memory are needed for 1 hosts and 1 VMs" in printed
    printed = await on_a_machine_with(little, "up", data=data)
    assert power(printed) == {"kvm-1": "running", "kvm-2": "running"}
    assert names(await cobalt("vm", "list", data=data)) == {"vm-2": "kvm-2"}
    assert f"cobalt lab vm move vm-2 kvm-1 --slow 16 --data {data}" in printed
    await on_a_machine_with(0, "up", data=data)


def names(listed: str) -> dict[str, str]:
    """The host of each VM that runs."""
    rows = [line.split() for line in listed.splitlines()[1:]]
    return {row[0]: row[1] for row in rows if row[2] == "running"}


async def on_a_machine_with(memory_bytes: int, *arguments: str, data: Path, code: int = 0) -> str:
    """What `cobalt lab …` prints on both streams where so much memory is left."""
    script = (
        "from hypercobalt.cli import main; from hypercobalt.lab.machine import facts\n"
        f"facts.available_bytes = lambda: {memory_bytes}; main()\n"
    )
    command = (sys.executable, "-c", script, "lab", *arguments, "--data", str(data))
    done = await execute(command, within=timedelta(seconds=UP_SECONDS))
    assert done.code == code, done
    return done.stdout + done.stderr


async def test_an_up_that_is_interrupted_takes_its_lab_down(data: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(COBALT, "lab", "up", "--hosts", "1", "--data", str(data)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    while b"shared directory" not in (line := await process.stdout.readline()):
        assert line, "it ended"
    state = records.load(Layout.at(data))
    assert state is not None
    process.send_signal(signal.SIGINT)
    shown, printed = await process.communicate()

    assert process.returncode == 130, printed
    assert b": failed" not in shown
    assert f"removed the unfinished lab in {data}" in shown.decode()
    assert leftovers(state, data) == []
    assert not data.exists()


async def test_status_shows_that_the_renewal_of_tokens_has_died(data: Path) -> None:
    made = await Lab.make(data, api_port=0)
    await made.control.start()
    assert "renewal of tokens" not in await cobalt("status", data=data)
    await processes.kill(made.state.id, lambda process: process.role == TOKENS)
    assert "The renewal of tokens does not run" in await cobalt("status", data=data)


async def test_up_on_a_terminal_ends_on_the_live_table_and_ctrl_c_leaves_the_lab(
    data: Path,
) -> None:
    screen, terminal = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(COBALT, "lab", "up", "--hosts", "1", "--vms", "0", "--data", str(data)),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
        start_new_session=True,
    )
    os.close(terminal)
    try:
        shown = await asyncio.to_thread(_read_until, screen, b"NODE")
        assert b"host kvm-1" in shown
        await asyncio.to_thread(_read_until, screen, b"NODE")  # drawn again: it is live
        process.send_signal(signal.SIGINT)
        await asyncio.to_thread(_read_until, screen, None)
        assert await process.wait() == 0
    finally:
        os.close(screen)
    assert power(await cobalt("status", data=data)) == {"kvm-1": "running"}


async def test_live_table_ends_when_the_lab_is_taken_down(data: Path) -> None:
    made = await Lab.make(data, api_port=0)
    await made.control.start()
    screen, terminal = pty.openpty()
    console = Console(file=os.fdopen(terminal, "w"), force_terminal=True)
    shown = asyncio.create_task(show_table(made, console=console))
    try:
        await asyncio.to_thread(_read_until, screen, b"NODE")
        assert "everything is gone" in await cobalt("down", data=data)
        async with asyncio.timeout(10):
            await shown
    finally:
        console.file.close()
        os.close(screen)


def _read_until(screen: int, text: bytes | None) -> bytes:
    """What a terminal shows until a text, or to its end."""
    shown = b""
    while text is None or text not in shown:
        try:
            read = os.read(screen, 4096)
        except OSError:  # Linux: no process writes to the terminal any more
            break
        shown += read
    return shown


async def test_lab_whose_directory_was_removed_is_still_taken_down(data: Path) -> None:
    await cobalt("up", "--hosts", "1", "--vms", "0", "--port", "0", "--yes", data=data)
    state = records.load(Layout.at(data))
    assert state is not None
    kubeconfig = Layout.at(data).kubeconfig
    seen = await execute((COBALT, "explain", "kvm-1", "--kubeconfig", str(kubeconfig)))
    assert f"Lease default/{LEASE}, held by" in seen.stdout
    await execute(("rm", "-rf", "--one-file-system", str(data)))  # fails: hosts are mounted there
    assert not (data / "state.json").exists()

    for command in (("status",), ("up", "--hosts", "1", "--vms", "0")):
        printed = await cobalt(*command, data=data, code=1)
        assert f"`cobalt lab down --data {data}`" in printed
    assert "everything is gone" in await cobalt("down", data=data)
    assert leftovers(state, data) == []
    assert "there is no lab in" in await cobalt("down", data=data)
