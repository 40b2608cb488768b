"""The fake host keeps the contracts that real ones keep."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from tests.contracts import shutdown, system
from tests.contracts.units import BAD, CONTRACTS, GOOD

from hypercobalt.adapters.host.fake import FakeShutdown, FakeSystem, FakeUnits
from hypercobalt.adapters.host.model import OperatingSystem, UnitState
from hypercobalt.adapters.host.port import HostError, Units


def units() -> FakeUnits:
    made = FakeUnits(*(UnitState(name, load="loaded", active="inactive") for name in (GOOD, BAD)))

    def work(job: str) -> None:
        verb, name = job.split()
        if verb == "stop":
            made.set(name, "inactive")
        elif verb != "restart":
            made.set(name, "failed" if name == BAD else "active")
            if verb == "start" and name == BAD:
                raise HostError(f"StartUnit {name}: the job ended with failed")

    made.on_job = work
    return made


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.__name__)
async def test_fake_units_keep_the_contract(contract: Callable[[Units], Awaitable[None]]) -> None:
    await contract(units())


class ShutdownInMemory(shutdown.World):
    def __init__(self) -> None:
        self.fake = FakeShutdown()
        super().__init__(self.fake)

    async def inhibitors(self) -> list[str]:
        return [who for who, _ in self.fake.delays]

    async def begin(self) -> None:
        self.fake.prepare()


class SystemInMemory(system.World):
    def __init__(self) -> None:
        self.fake = FakeSystem(OperatingSystem())
        super().__init__(self.fake)

    async def update(self, pretty_version: str) -> None:
        self.fake.set(OperatingSystem(pretty_version=pretty_version, kernel_name="Linux"))


@pytest.mark.parametrize("contract", shutdown.CONTRACTS, ids=lambda contract: contract.__name__)
async def test_fake_shutdown_keeps_the_contract(
    contract: Callable[[shutdown.World], Awaitable[None]],
) -> None:
    await contract(ShutdownInMemory())


@pytest.mark.parametrize("contract", system.CONTRACTS, ids=lambda contract: contract.__name__)
async def test_fake_system_keeps_the_contract(
    contract: Callable[[system.World], Awaitable[None]],
) -> None:
    await contract(SystemInMemory())
