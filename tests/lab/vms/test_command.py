"""`cobalt lab vm` as a person uses it."""

from __future__ import annotations

import asyncio
import signal

import pytest

from hypercobalt.lab.lab import Lab
from tests.lab.conftest import TakeFleet
from tests.lab.kit.command import COBALT, cobalt

pytestmark = pytest.mark.timeout(240)


async def test_a_person_makes_orders_and_moves_a_vm(fleet: TakeFleet, switched: Lab) -> None:
    await fleet(2)
    data = switched.layout.data

    printed = await cobalt("vm", "add", "web", "--host", "kvm-1", "--disk", "local", data=data)
    assert printed == "VM web runs on kvm-1 (linux 10.78.0.10)\n"
    assert "in the lab already" in await cobalt("vm", "add", "web", data=data, code=2)
    written = await cobalt("vm", "order", "web", "write-disk", "1", data=data)
    await cobalt("vm", "move", "web", "kvm-2", "--slow", "200", data=data)
    assert await cobalt("vm", "order", "web", "read-disk", "1", data=data) == written
    assert "refused 'rm x'" in await cobalt("vm", "order", "web", "rm", "x", data=data, code=1)
    await cobalt("vm", "stop", "web", data=data)
    assert "shut off" in await cobalt("vm", "list", data=data)
    await cobalt("vm", "start", "web", data=data)
    await cobalt("vm", "remove", "web", data=data)
    assert "web" not in await cobalt("vm", "list", data=data)


async def test_a_console_is_followed_until_ctrl_c(fleet: TakeFleet, switched: Lab) -> None:
    vms = await fleet(1)
    vms.log("a").parent.mkdir(exist_ok=True)
    vms.log("a").write_text("of a namesake whose host was thrown away\n")
    data = switched.layout.data
    await cobalt("vm", "add", "a", "--kind", "boot", "--program", "reset", data=data)

    process = await asyncio.create_subprocess_exec(
        *(COBALT, "lab", "vm", "console", "a", "--data", str(data)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout
    async with asyncio.timeout(60):
        lines = [await process.stdout.readline() for _ in range(2)]  # before and after its reset
    process.send_signal(signal.SIGINT)
    _, errors = await process.communicate()

    assert lines == [b"boot reset: up\n"] * 2
    assert (process.returncode, errors) == (130, b"cobalt lab: interrupted\n")


async def test_there_is_no_console_of_a_vm_that_is_not_there(
    fleet: TakeFleet, switched: Lab
) -> None:
    await fleet(1)
    printed = await cobalt("vm", "console", "none", data=switched.layout.data, code=2)
    assert "check the name of the VM" in printed
