"""Passes over OVSNodes whose host may have left: which of them are deleted."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import cast

import pytest
from tests.unit.operator.network.switch import NAMESPACE, Cache, switch

from hypercobalt.api.core import Node
from hypercobalt.api.meta import Object, ObjectMeta
from hypercobalt.operator.agents.leases import AgentLeases, LeaseSighting, LeaseState
from hypercobalt.operator.network.departed import AGAIN, SOON, DepartureReconciler
from hypercobalt.operator.network.switches import Switches
from hypercobalt.runtime import ConflictError, Kube, Result
from hypercobalt.runtime.client.errors import Status

NAME = "kvm-a"
EXPIRED = LeaseSighting(LeaseState.EXPIRED, "ovn-system/ovs-agent-kvm-a", "7")
ABSENT = LeaseSighting(LeaseState.ABSENT)


class Around:
    """All that the reconciler reads and writes, in memory."""

    namespace = NAMESPACE

    def __init__(
        self, seen: LeaseSighting | None, *, node: bool = False, there: bool = True
    ) -> None:
        self.seen, self.node, self.written = seen, node, False
        self.deleted: list[tuple[str, str, str | None]] = []
        cache = Cache(switch(version="33") if there else None)
        self.reconciler = DepartureReconciler(
            cast("Kube", self), cast("AgentLeases", self), cast("Switches", cache)
        )

    async def of(self, _name: str) -> LeaseSighting | None:
        return self.seen

    async def get(self, type_: type[Object], name: str) -> Object | None:
        assert type_ is Node
        return Node(metadata=ObjectMeta(name=name)) if self.node else None

    async def delete(
        self, type_: type[Object], name: str, namespace: str, *, uid: str, resource_version: str
    ) -> None:
        assert uid == switch().metadata.uid
        if self.written:
            raise ConflictError("delete OVSNode kvm-a", Status(message="changed", code=409))
        self.deleted.append((f"{type_.__name__} {namespace}/{name}", uid, resource_version))

    async def passes(self) -> Result:
        return await self.reconciler.reconcile(NAME)


@pytest.mark.parametrize("seen", [EXPIRED, ABSENT])
async def test_ovsnode_without_a_node_and_without_a_living_agent_is_deleted_as_it_was_read(
    seen: LeaseSighting,
) -> None:
    around = Around(seen)
    assert await around.passes() == Result()
    assert around.deleted == [("OVSNode ovn-system/kvm-a", switch().metadata.uid, "33")]


@pytest.mark.parametrize(
    ("seen", "again"),
    [
        pytest.param(None, None, id="Leases cannot be read yet"),
        pytest.param(replace(EXPIRED, state=LeaseState.RENEWED), None, id="it lives"),
        pytest.param(replace(EXPIRED, state=LeaseState.UNRENEWED), None, id="operator restarted"),
        pytest.param(replace(EXPIRED, state=LeaseState.RELEASED), None, id="an update"),
        pytest.param(replace(ABSENT, left=timedelta(seconds=9)), 9, id="it may be made yet"),
    ],
)
async def test_ovsnode_stays_while_its_agent_may_live(
    seen: LeaseSighting | None, again: int | None
) -> None:
    around = Around(seen)
    assert await around.passes() == Result(timedelta(seconds=again) if again else None)
    assert around.deleted == []


async def test_ovsnode_of_a_silent_agent_stays_while_its_node_is_there_and_is_looked_at_again() -> (
    None
):
    around = Around(EXPIRED, node=True)
    assert await around.passes() == Result(AGAIN)
    assert around.deleted == []


async def test_ovsnode_that_is_written_meanwhile_stays_and_is_looked_at_again_soon() -> None:
    """The operator itself writes the OVSNode when the agent falls silent."""
    around = Around(EXPIRED)
    around.written = True
    assert await around.passes() == Result(SOON)


async def test_ovsnode_that_is_gone_needs_no_pass() -> None:
    around = Around(EXPIRED, there=False)
    assert await around.passes() == Result()
    assert around.deleted == []
