"""What an agent reports of the operator, by the operator's Lease."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace
from tests.integration.runtime.scripted import eventually

from hypercobalt.api.coordination import OPERATOR_LEASE, Lease, LeaseSpec
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.times import micro_time
from hypercobalt.errors import TransientError
from hypercobalt.node_agent.operator_lease import OperatorLease, judge
from hypercobalt.node_agent.status.parts import Board
from hypercobalt.operator.election import lease_name
from hypercobalt.runtime import FakeClock
from hypercobalt.runtime.tasks import first

SEEN = micro_time(datetime(2026, 11, 28, 3, 4, 5, tzinfo=UTC))
HELD = LeaseSpec(holderIdentity="operator-1", leaseDurationSeconds=15, renewTime=SEEN)
FREE = LeaseSpec(holderIdentity="", leaseDurationSeconds=1, renewTime=SEEN)


@pytest.mark.parametrize(
    ("spec", "seconds", "reason"),
    [
        pytest.param(HELD, None, "Renewed", id="just-renewed"),
        pytest.param(HELD, 0, None, id="seen-for-the-first-time"),
        pytest.param(HELD, 15, None, id="as-long-as-it-lasts"),
        pytest.param(HELD, 16, "Silent", id="run-out"),
        pytest.param(FREE, None, None, id="just-released"),
        pytest.param(FREE, 60, "NoLeader", id="nobody-took-it"),
        pytest.param(LeaseSpec(holderIdentity="x"), 16, "Silent", id="without-a-duration"),
        pytest.param(LeaseSpec(), 16, "NoLeader", id="empty"),
    ],
)
def test_the_lease_shows_whether_the_operator_lives(
    spec: LeaseSpec, seconds: int | None, reason: str | None
) -> None:
    found = judge(spec, None if seconds is None else timedelta(seconds=seconds))
    assert (found.reason if found else None) == reason


class Server:
    """What an API server shows of the Lease."""

    def __init__(self) -> None:
        self.spec: LeaseSpec | None = HELD
        self.away = False
        self.looks = 0

    async def read(self) -> Lease | None:
        self.looks += 1
        if self.away:
            raise TransientError("away")
        if self.spec is None:
            return None
        return Lease(metadata=ObjectMeta(name=OPERATOR_LEASE), spec=self.spec)

    def renew(self) -> None:
        self.spec = replace(HELD, renewTime=micro_time(SEEN + timedelta(seconds=self.looks)))


def test_it_is_the_lease_that_operators_without_shards_take() -> None:
    assert lease_name("") == OPERATOR_LEASE


async def test_the_condition_follows_the_lease() -> None:
    server, clock = Server(), FakeClock()
    board = Board(clock)
    looking = OperatorLease(server.read, board, clock, every=timedelta(milliseconds=1))

    def shown() -> str | None:
        found = board.parts.conditions.get(HypervisorConditionType.OPERATOR_REPORTING)
        return found.reason if found else None

    async def look(times: int = 2) -> None:
        until = server.looks + times
        await first(looking.run(), eventually(lambda: server.looks >= until, seconds=1.5))

    await look()
    assert shown() is None, "an old Lease proves nothing at first sight"
    server.renew()
    await look()
    assert shown() == "Renewed"
    clock.advance(timedelta(seconds=20))
    await look()
    assert shown() == "Silent"
    server.away = True
    clock.advance(timedelta(seconds=60))
    await look()
    assert shown() == "Silent", "what was seen last stays"
    server.away = False
    server.renew()
    await look()
    server.renew()
    await look()
    assert shown() == "Renewed"
    server.spec = FREE
    await look()
    clock.advance(timedelta(seconds=20))
    await look()
    assert shown() == "NoLeader"
    server.spec = None
    await look()
    assert shown() is None
