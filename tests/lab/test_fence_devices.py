"""The fence-agents adapter, its real programs, and the lab's BMC: what each fault gives.

The same cases by Redfish and by IPMI. The machine behind the BMC is a few files here;
`test_drills.py` has hosts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest

from hypercobalt import pki
from hypercobalt.adapters.fencing.agents import AgentDevice
from hypercobalt.adapters.fencing.devices import Device, Identity
from hypercobalt.adapters.fencing.port import (
    Credentials,
    Cuts,
    FenceError,
    FenceFailure,
    PowerState,
)
from hypercobalt.compute.leadership import unguarded
from hypercobalt.lab.bmc.board import USER
from hypercobalt.lab.bmc.boards import Protocol
from hypercobalt.lab.bmc.faults import SLOW_SECONDS, BoardFault, FaultFile
from hypercobalt.operator.ha.devices.fences import switch_off
from hypercobalt.operator.ha.devices.identity import DeviceFacts, refusal
from hypercobalt.operator.ha.devices.proving import ProvenDevice
from tests.lab.kit.bmc import AGENTS, PASSWORD, SYSTEM, FileChassis, authority_of, served
from tests.lab.kit.bmc import device as bmc_device

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("able_machine")]

WITHIN = timedelta(seconds=60)
SHORT = timedelta(seconds=6)


@dataclass(frozen=True, slots=True)
class Bmc:
    """A BMC, spoken to by one protocol."""

    protocol: Protocol
    port: int
    chassis: FileChassis
    faults: FaultFile

    def device(self, password: str = PASSWORD) -> AgentDevice:
        return bmc_device(self.protocol, self.port, password)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    folder = tmp_path_factory.mktemp("bmc")
    with served(folder) as port:
        yield folder, port


@pytest.fixture
def process(server: tuple[Path, int]) -> tuple[Path, int]:
    """The server, with the power on, and without a fault or an order of another test."""
    folder, _ = server
    FaultFile(folder / "fault").forget()
    FileChassis(folder).begin()
    return server


@pytest.fixture(params=Protocol)
def bmc(process: tuple[Path, int], request: pytest.FixtureRequest) -> Bmc:
    folder, port = process
    return Bmc(request.param, port, FileChassis(folder), FaultFile(folder / "fault"))


async def test_a_host_is_switched_off_and_on(bmc: Bmc) -> None:
    device = bmc.device()
    assert await device.power(within=WITHIN) is PowerState.ON
    await device.off(within=WITHIN)
    assert (bmc.chassis.is_on(), bmc.chassis.orders) == (False, ["off"])
    assert await device.power(within=WITHIN) is PowerState.OFF
    await device.on(within=WITHIN)
    assert (bmc.chassis.is_on(), bmc.chassis.orders) == (True, ["off", "on"])


async def test_a_bmc_proves_whose_it_is_by_the_uuid_of_its_system(bmc: Bmc) -> None:
    device = bmc.device()
    assert str(SYSTEM) in await device.systems(within=WITHIN)
    bmc.faults.write(BoardFault.DENIED)
    with pytest.raises(FenceError) as failed:
        await device.systems(within=WITHIN)
    assert PASSWORD not in str(failed.value)


async def test_a_bmc_that_is_another_hosts_by_another_name_is_neither_read_nor_ordered(
    bmc: Bmc,
) -> None:
    """A document binds a host to the BMC of another, whose address has a second name."""
    question = DeviceFacts("bmc", Identity.REQUIRED, (str(UUID(int=1)),), None, lambda _: "")
    device = ProvenDevice(bmc.device(), partial(refusal, question))
    for power in ("on", "off"):
        bmc.chassis.is_now(power)
        answer = await switch_off([(device, WITHIN)], Cuts.POWER, WITHIN, unguarded)
        assert (answer.off, "another host's device" in answer.text) == (False, True)
    assert bmc.chassis.orders == []
    own = replace(question, claims=(str(SYSTEM),))
    bmc.chassis.is_now("on")
    mine = ProvenDevice(bmc.device(), partial(refusal, own))
    assert (await switch_off([(mine, WITHIN)], Cuts.POWER, WITHIN, unguarded)).off


async def test_a_bmc_whose_certificate_is_not_of_the_authority_gets_no_order(
    process: tuple[Path, int], tmp_path: Path
) -> None:
    folder, port = process
    chassis = FileChassis(folder)
    where = {"ip": "127.0.0.1", "ipport": str(port)}
    others = pki.prepare(tmp_path, "127.0.0.1").ca.decode()
    for authority, trusted in ((others, False), (authority_of(folder), True)):
        known = Device("bmc", "fence_redfish", where, authority=authority)
        device = AgentDevice(known, Credentials(USER, PASSWORD))
        if trusted:
            assert await device.systems(within=WITHIN) == {str(SYSTEM)}
            await device.off(within=WITHIN)
        else:
            for call in (device.systems, device.off):
                with pytest.raises(FenceError, match=r"(?i)certificate"):
                    await call(within=WITHIN)
        assert chassis.is_on() is not trusted


async def test_a_host_that_is_off_already_counts_as_switched_off(bmc: Bmc) -> None:
    bmc.chassis.is_now("off")
    await bmc.device().off(within=WITHIN)
    assert bmc.chassis.orders == []


async def test_a_slow_bmc_is_waited_for(bmc: Bmc) -> None:
    bmc.chassis.is_now("off")
    bmc.faults.write(BoardFault.SLOW)
    await bmc.device().off(within=WITHIN)


async def test_a_bmc_that_is_slower_than_the_deadline_gives_no_result(bmc: Bmc) -> None:
    """With IPMI the fence agent gives up by itself, shortly before."""
    bmc.faults.write(BoardFault.SLOW)
    with pytest.raises(FenceError, match=r"no answer|timed out"):
        await bmc.device().off(within=timedelta(seconds=SLOW_SECONDS))
    assert bmc.chassis.is_on()


async def test_an_order_that_is_refused_is_no_success(bmc: Bmc) -> None:
    """The agents do not look at the answer to their order; the state decides."""
    bmc.faults.write(BoardFault.CONFLICT)
    with pytest.raises(FenceError, match="bmc 127"):
        await bmc.device().off(within=timedelta(seconds=12))
    assert (bmc.chassis.is_on(), bmc.chassis.orders) == (True, [])


async def test_a_bmc_that_refuses_the_password_gives_no_result(bmc: Bmc) -> None:
    bmc.faults.write(BoardFault.DENIED)
    with pytest.raises(FenceError) as failed:
        await bmc.device().off(within=WITHIN)
    assert failed.value.failure is FenceFailure.FAILED
    assert PASSWORD not in str(failed.value)
    assert bmc.chassis.is_on()


async def test_a_bmc_that_does_not_answer_gives_no_result(bmc: Bmc) -> None:
    """A packet of ipmitool is repeated for 28 s: the deadline ends that."""
    bmc.faults.write(BoardFault.DEAD)
    with pytest.raises(FenceError):
        await bmc.device().off(within=SHORT)
    assert bmc.chassis.is_on()


async def test_a_wrong_password_gives_no_result(bmc: Bmc) -> None:
    with pytest.raises(FenceError):
        await bmc.device("wrong").power(within=WITHIN)


async def test_a_bmc_that_lost_its_power_with_its_host_proves_nothing(bmc: Bmc) -> None:
    bmc.faults.write(BoardFault.DEAD_WITH_POWER)
    assert await bmc.device().power(within=WITHIN) is PowerState.ON
    bmc.chassis.is_now("off")
    with pytest.raises(FenceError):
        await bmc.device().power(within=SHORT)


async def test_a_lying_bmc_is_believed_by_the_adapter_alone(bmc: Bmc) -> None:
    """A caller that needs proof has to check for signs of life."""
    bmc.faults.write(BoardFault.LYING)
    await bmc.device().off(within=WITHIN)
    assert bmc.chassis.is_on()


async def test_the_password_is_in_no_arguments(bmc: Bmc) -> None:
    """All processes of the machine are watched while the fence agent runs."""
    asking = asyncio.create_task(bmc.device().off(within=WITHIN))
    seen: set[str] = set()
    while not asking.done():
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                seen.add((folder / "cmdline").read_bytes().decode(errors="replace"))
            except OSError:
                continue
        await asyncio.sleep(0)  # the call goes on between two looks at the processes
    await asking
    agent, _ = AGENTS[bmc.protocol]
    assert any(agent in words for words in seen)
    assert bmc.protocol is Protocol.REDFISH or any("ipmitool" in words for words in seen)
    assert not [words for words in seen if PASSWORD in words]
