"""The fence agents and BMCs that others have written, on a guest: the same cases for both.

What the lab's own BMC answers was written after the specifications by those who wrote its callers;
sushy-tools and virtualbmc are OpenStack's, and switch a domain of libvirt.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from hypercobalt.adapters.fencing.agents import AgentDevice
from hypercobalt.adapters.fencing.port import FenceError, PowerState
from hypercobalt.lab.bmc.boards import Protocol
from tests.lab.kit import emulators
from tests.lab.kit.bmc import PASSWORD
from tests.lab.kit.bmc import device as bmc_device
from tests.lab.kit.libvirtd import Daemon

pytestmark = [pytest.mark.timeout(180), pytest.mark.usefixtures("able_machine")]

DOMAIN = "kvm-1"
WITHIN = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Guest:
    """A guest that stands for a host, and its BMC."""

    libvirtd: Daemon
    protocol: Protocol
    port: int

    def device(self, password: str = PASSWORD) -> AgentDevice:
        return bmc_device(self.protocol, self.port, password)

    def virsh(self, *words: str) -> str:
        command = ("virsh", f"--connect={self.libvirtd.uri}", "--quiet", *words)
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    @property
    def runs(self) -> bool:
        return self.virsh("domstate", DOMAIN) == "running"


@pytest.fixture
async def environment() -> Path:
    return await emulators.ready()


@pytest.fixture(params=Protocol)
def guest(
    environment: Path, libvirtd: Daemon, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Guest]:
    document = tmp_path / "domain.xml"
    document.write_text(libvirtd.guest(DOMAIN))
    with ExitStack() as stack:
        if request.param is Protocol.REDFISH:
            bmc = emulators.redfish(environment, libvirtd.uri, tmp_path)
        else:
            bmc = emulators.ipmi(environment, libvirtd.uri, DOMAIN)
        made = Guest(libvirtd, request.param, stack.enter_context(bmc))
        made.virsh("define", str(document))
        made.virsh("start", DOMAIN)
        yield made


async def test_a_guest_is_switched_off_and_on(guest: Guest) -> None:
    device = guest.device()
    assert await device.power(within=WITHIN) is PowerState.ON
    await device.off(within=WITHIN)
    assert not guest.runs
    assert await device.power(within=WITHIN) is PowerState.OFF
    await device.on(within=WITHIN)
    assert guest.runs


async def test_a_bmc_that_has_the_uuid_of_its_guest_reports_it(guest: Guest) -> None:
    """No UUID is read from virtualbmc; whether it may switch a host is the site's to decide."""
    found = guest.device().systems(within=WITHIN)
    if guest.protocol is Protocol.REDFISH:
        assert await found == {guest.virsh("domuuid", DOMAIN)}
    else:
        with pytest.raises(FenceError, match="UUID of the system"):
            await found


async def test_a_wrong_password_switches_nothing(guest: Guest) -> None:
    with pytest.raises(FenceError):
        await guest.device("wrong").off(within=WITHIN)
    assert guest.runs


async def test_a_bmc_that_cannot_read_the_power_gives_no_result(guest: Guest) -> None:
    """The libvirtd of the BMC has ended, while the guest runs on."""
    guest.libvirtd.stop()
    with pytest.raises(FenceError):
        await guest.device().off(within=timedelta(seconds=10))
    guest.libvirtd.start()
    assert guest.runs
