"""The fence-agents adapter, its real programs, and the lab's BMC: what each fault gives.

The machine behind the BMC is one in memory here; `test_drills.py` has hosts.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from hypercobalt.adapters.fencing.agents import AgentDevice
from hypercobalt.adapters.fencing.devices import Device
from hypercobalt.adapters.fencing.port import Credentials, FenceError, FenceFailure, PowerState
from hypercobalt.apiserver.access import pki
from hypercobalt.lab.bmc.faults import SLOW_SECONDS, Fault
from hypercobalt.lab.bmc.redfish import USER, Board, RedfishServer

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("able_machine")]

PASSWORD = "s3cret with a space"
WITHIN = timedelta(seconds=60)


@dataclass(slots=True)
class Chassis:
    """A machine in memory; `orders` is what was done to it."""

    power: bool = True
    orders: list[str] = field(default_factory=list)

    def is_on(self) -> bool:
        return self.power

    def off(self) -> None:
        self.orders.append("off")
        self.power = False

    def on(self) -> None:
        self.orders.append("on")
        self.power = True


class Bmc:
    """A BMC that serves on a free port."""

    def __init__(self, files: pki.Pki) -> None:
        self.chassis, self.fault = Chassis(), Fault.NONE
        board = Board("kvm-1", PASSWORD, self.chassis, lambda: self.fault)
        self._server = RedfishServer(board, ("127.0.0.1", 0), pki.server_context(files))
        self._thread = threading.Thread(target=self._server.serve_forever, name="bmc")
        self._thread.start()

    def device(self, password: str = PASSWORD) -> AgentDevice:
        where = {
            "ip": "127.0.0.1",
            "ipport": str(self._server.server_address[1]),
            "ssl_insecure": "1",
        }
        return AgentDevice(Device("bmc", "fence_redfish", where), Credentials(USER, password))

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> pki.Pki:
    return pki.prepare(tmp_path_factory.mktemp("bmc"), "127.0.0.1")


@pytest.fixture
def bmc(certificates: pki.Pki, tmp_path: Path) -> Iterator[Bmc]:
    served = Bmc(certificates)
    yield served
    served.close()


async def test_a_host_is_switched_off_and_on(bmc: Bmc) -> None:
    device = bmc.device()
    assert await device.power(within=WITHIN) is PowerState.ON
    await device.off(within=WITHIN)
    assert (bmc.chassis.power, bmc.chassis.orders) == (False, ["off"])
    assert await device.power(within=WITHIN) is PowerState.OFF
    await device.on(within=WITHIN)
    assert (bmc.chassis.power, bmc.chassis.orders) == (True, ["off", "on"])


async def test_a_host_that_is_off_already_counts_as_switched_off(bmc: Bmc) -> None:
    bmc.chassis.power = False
    await bmc.device().off(within=WITHIN)
    assert bmc.chassis.orders == []


async def test_a_slow_bmc_is_waited_for(bmc: Bmc) -> None:
    bmc.chassis.power, bmc.fault = False, Fault.SLOW
    await bmc.device().off(within=WITHIN)


async def test_a_bmc_that_is_slower_than_the_deadline_gives_no_result(bmc: Bmc) -> None:
    bmc.fault = Fault.SLOW
    with pytest.raises(FenceError) as failed:
        await bmc.device().off(within=timedelta(seconds=SLOW_SECONDS))
    assert failed.value.failure is FenceFailure.TIMED_OUT
    assert bmc.chassis.power


async def test_an_order_that_is_refused_is_no_success(bmc: Bmc) -> None:
    """fence_redfish does not look at the answer to its order; the state decides."""
    bmc.fault = Fault.CONFLICT
    with pytest.raises(FenceError, match="bmc 127"):
        await bmc.device().off(within=timedelta(seconds=12))
    assert bmc.chassis.power


@pytest.mark.parametrize("fault", [Fault.DENIED, Fault.DEAD])
async def test_a_bmc_that_cannot_be_asked_gives_no_result(bmc: Bmc, fault: Fault) -> None:
    bmc.fault = fault
    with pytest.raises(FenceError) as failed:
        await bmc.device().off(within=WITHIN)
    assert failed.value.failure is FenceFailure.FAILED
    assert PASSWORD not in str(failed.value)
    assert bmc.chassis.power


async def test_a_wrong_password_gives_no_result(bmc: Bmc) -> None:
    with pytest.raises(FenceError):
        await bmc.device("wrong").power(within=WITHIN)


async def test_a_bmc_that_lost_its_power_with_its_host_proves_nothing(bmc: Bmc) -> None:
    bmc.fault = Fault.DEAD_WITH_POWER
    assert await bmc.device().power(within=WITHIN) is PowerState.ON
    bmc.chassis.power = False
    with pytest.raises(FenceError):
        await bmc.device().power(within=WITHIN)


async def test_a_lying_bmc_is_believed_by_the_adapter_alone(bmc: Bmc) -> None:
    """So whoever takes its answer for a proof looks for signs of life."""
    bmc.fault = Fault.LYING
    await bmc.device().off(within=WITHIN)
    assert bmc.chassis.power
