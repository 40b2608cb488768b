"""Calls of a pass to a compute service that lacks some of them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.unit.operator.eviction.made import server

from hypercobalt.compute.fake import FakeCompute
from hypercobalt.operator.eviction.act import Actions
from hypercobalt.operator.eviction.model.actions import (
    Accepted,
    Action,
    Recover,
    Refused,
    Restart,
    Start,
)
from hypercobalt.operator.eviction.model.states import Mode
from hypercobalt.operator.shared.proofs import Proofs


class Proven(Proofs):
    def __init__(self) -> None:
        """Read nothing."""

    async def missing(self, host: str) -> str:
        return ""


def service(*features: str) -> FakeCompute:
    made = FakeCompute(lambda: datetime(2026, 1, 1, tzinfo=UTC), has=features)
    made.moves.hosts = {"here": server().size, "there": server().size}
    made.moves.add(server())
    return made


@pytest.mark.parametrize(
    "action", [Restart(server()), Recover(server()), Start(server(), Mode.EVACUATE, "there")]
)
async def test_service_without_recovery_refuses_it_and_names_itself(action: Action) -> None:
    made = await Actions(service("owners"), Proven()).perform("here", {"a": action})
    assert made == {"a": Refused("fake recovers no instances")}


async def test_instance_is_evacuated_unlocked_where_servers_have_no_owners() -> None:
    compute = service("recovery")
    compute.moves.dead.add("here")
    start = Start(server(), Mode.EVACUATE, "there", lock="a lock")
    assert await Actions(compute, Proven()).perform("here", {"a": start}) == {"a": Accepted()}
    assert not compute.moves.calls["lock"]
