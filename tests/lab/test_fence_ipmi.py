"""The fence-agents adapter with the real fence_ipmilan and ipmitool, and a BMC by pyghmi."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from hypercobalt.adapters.fencing.agents import AgentDevice
from hypercobalt.adapters.fencing.devices import Device
from hypercobalt.adapters.fencing.port import Credentials, FenceError, PowerState

pytestmark = [pytest.mark.timeout(180), pytest.mark.usefixtures("able_machine")]

PASSWORD = "s3cret-ipmi"  # IPMI takes 20 bytes
WITHIN = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Bmc:
    port: int
    file: Path

    def device(self, password: str = PASSWORD) -> AgentDevice:
        where = {"ip": "127.0.0.1", "ipport": str(self.port), "lanplus": "1"}
        return AgentDevice(Device("bmc", "fence_ipmilan", where), Credentials("admin", password))


@pytest.fixture
def bmc(tmp_path: Path) -> Iterator[Bmc]:
    file = tmp_path / "power"
    file.write_text("on")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    program = Path(__file__).with_name("kit") / "ipmi_bmc.py"
    command = [sys.executable, str(program), str(port), PASSWORD, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield Bmc(port, file)
        process.kill()


async def test_a_host_is_switched_off_and_on(bmc: Bmc) -> None:
    device = bmc.device()
    assert await device.power(within=WITHIN) is PowerState.ON
    await device.off(within=WITHIN)
    assert bmc.file.read_text() == "off"
    assert await device.power(within=WITHIN) is PowerState.OFF
    await device.on(within=WITHIN)
    assert bmc.file.read_text() == "on"


async def test_a_wrong_password_gives_no_result(bmc: Bmc) -> None:
    with pytest.raises(FenceError):
        await bmc.device("wrong").off(within=WITHIN)
    assert bmc.file.read_text() == "on"


async def test_the_password_is_in_nobodys_arguments(bmc: Bmc) -> None:
    """Of any process of the machine, while ipmitool runs: it is watched all the while."""
    asking = asyncio.create_task(bmc.device().off(within=WITHIN))
    seen: set[str] = set()
    while not asking.done():
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if "ipmitool" in words and "ipmi_bmc" not in words:
                seen.add(words)
        await asyncio.sleep(0)
    await asking
    assert any("power" in words for words in seen)
    assert not [words for words in seen if PASSWORD in words]
