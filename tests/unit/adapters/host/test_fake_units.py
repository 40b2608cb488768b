"""The fake host keeps the contracts that real ones keep."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from tests.contracts.units import BAD, CONTRACTS, GOOD

from hypercobalt.adapters.host.fake import FakeUnits
from hypercobalt.adapters.host.model import UnitState
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
async def test_fake_units_keep(contract: Callable[[Units], Awaitable[None]]) -> None:
    await contract(units())
