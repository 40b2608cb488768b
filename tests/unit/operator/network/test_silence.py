"""Passes over the Lease of a host's OVS agent: when `Ready` is taken from it, and for how long."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import cast

import pytest
from msgspec.structs import replace as with_fields
from tests.unit.operator.network.switch import NAMESPACE, switch
from tests.unit.operator.samples import NOW, condition

from hypercobalt.api.conditions import Condition
from hypercobalt.api.meta import Object, ObjectMeta
from hypercobalt.api.ovsnode import NodeReference, OVSNode, OVSNodeSpec, OVSNodeStatus
from hypercobalt.api.ovsnode_glance import OVSNodeGlance, OVSNodeReady
from hypercobalt.operator.agent_leases import AgentLeases, LeaseState, Sighting
from hypercobalt.operator.network.silence import AGAIN, SilenceReconciler, silence, unknown
from hypercobalt.operator.network.switches import Switches
from hypercobalt.runtime import FakeClock, Kube, NotFoundError, Recorder, Result
from hypercobalt.runtime.client.errors import Status

NAME = "kvm-a"
LEASE = "ovn-system/ovs-agent-kvm-a"
RENEWED = Sighting(LeaseState.RENEWED, LEASE, "7", renewed_at="2026-11-20T23:59:00Z")
EXPIRED = replace(RENEWED, state=LeaseState.EXPIRED)
ABSENT = Sighting(LeaseState.ABSENT)
READY = condition("Ready", "True", "AllChecksPassed", "The switch is in order")
BRIDGES = condition("AllBridgesHealthy", "True", "AllBridgesActive")


class Around:
    """All that the reconciler reads and writes, in memory."""

    namespace = NAMESPACE

    def __init__(self, seen: Sighting | None, *stored: Condition, there: bool = True) -> None:
        self.seen, self.stored, self.there, self.deleted = seen, stored, there, False
        self.applied: list[OVSNodeReady] = []
        self.events: list[str] = []
        self.clock = FakeClock(NOW)
        self.reconciler = SilenceReconciler(
            cast("Kube", self),
            cast("AgentLeases", self),
            cast("Switches", Known(self)),
            clock=self.clock,
            events=cast("Recorder", self),
        )

    def as_manager(self, _name: str) -> Around:
        return self

    async def of(self, _name: str) -> Sighting | None:
        return self.seen

    async def get(self, _type: type[Object], name: str, namespace: str) -> OVSNode:
        meta = ObjectMeta(name=name, namespace=namespace, resourceVersion="33")
        spec = OVSNodeSpec(nodeRef=NodeReference(name=name))
        return OVSNode(metadata=meta, spec=spec, status=OVSNodeStatus(conditions=self.stored))

    async def apply(self, obj: OVSNodeReady, *, force: bool, subresource: str) -> OVSNodeReady:
        assert force
        assert subresource == "status"
        if self.deleted:
            raise NotFoundError("apply OVSNode kvm-a", Status(message="gone", code=404))
        self.applied.append(obj)
        self.stored = obj.status.conditions
        return obj

    def record(self, _about: Object, type_: str, reason: str, *_: str, action: str) -> None:
        self.events.append(f"{type_} {reason}")

    async def passes(self) -> Result:
        return await self.reconciler.reconcile(NAME)


class Known:
    """The cache: the OVSNode is there."""

    namespace = NAMESPACE

    def __init__(self, around: Around) -> None:
        self._around = around

    def get(self, _name: str) -> OVSNodeGlance | None:
        return switch() if self._around.there else None


@pytest.mark.parametrize(
    ("seen", "again"),
    [
        pytest.param(None, None, id="Leases cannot be read yet"),
        pytest.param(RENEWED, None, id="it lives"),
        pytest.param(replace(RENEWED, state=LeaseState.UNRENEWED), None, id="restart"),
        pytest.param(
            replace(RENEWED, state=LeaseState.RELEASED, released=True), None, id="an update"
        ),
        pytest.param(replace(ABSENT, left=timedelta(seconds=9)), 9, id="it may be made yet"),
    ],
)
async def test_ready_is_kept_while_the_agent_may_be_reporting(
    seen: Sighting | None, again: int | None
) -> None:
    around = Around(seen, READY)
    assert await around.passes() == Result(timedelta(seconds=again) if again else None)
    assert (around.applied, around.events) == ([], [])


async def test_ready_alone_is_applied_to_the_version_that_was_read() -> None:
    around = Around(EXPIRED, BRIDGES, READY)
    assert await around.passes() == Result(AGAIN)
    (applied,) = around.applied
    assert (applied.metadata.namespace, applied.metadata.name) == (NAMESPACE, NAME)
    assert applied.metadata.resourceVersion == "33"
    (made,) = applied.status.conditions
    assert (made.type, made.status, made.reason) == ("Ready", "Unknown", "AgentSilent")
    assert made.message == (
        f"The OVS agent of kvm-a has not renewed its Lease {LEASE} for 40 s; last renewed at "
        "2026-11-20T23:59:00Z by the host's clock; Ready was True/AllChecksPassed before"
    )
    assert around.events == ["Warning OVSAgentSilent"]


async def test_ready_is_replaced_once_for_each_state_of_the_lease() -> None:
    around = Around(EXPIRED, READY)
    await around.passes()
    around.stored = (READY,)  # it writes all the same
    assert await around.passes() == Result(AGAIN)
    assert len(around.applied) == 1
    around.seen = replace(EXPIRED, version="8")
    await around.passes()
    assert len(around.applied) == 2


async def test_agent_that_writes_without_a_lease_is_believed_for_ten_minutes() -> None:
    around = Around(EXPIRED, READY)
    await around.passes()
    around.stored = (READY,)
    around.clock.advance(AGAIN - timedelta(seconds=1))
    assert await around.passes() == Result(timedelta(seconds=1))
    around.clock.advance(timedelta(seconds=2))
    await around.passes()
    assert len(around.applied) == 2


async def test_condition_replaced_already_is_not_applied_again() -> None:
    around = Around(EXPIRED, condition("Ready", "Unknown", "AgentSilent"))
    await around.passes()
    assert (around.applied, around.events) == ([], [])


async def test_agent_that_is_back_is_recorded_and_can_fall_silent_again() -> None:
    around = Around(EXPIRED, READY)
    await around.passes()
    around.seen, around.stored = replace(RENEWED, version="8"), (READY,)
    await around.passes()
    await around.passes()
    around.seen = replace(EXPIRED, version="8")
    await around.passes()
    assert around.events == [
        "Warning OVSAgentSilent",
        "Normal OVSAgentReporting",
        "Warning OVSAgentSilent",
    ]


async def test_ovsnode_that_is_deleted_meanwhile_is_no_error() -> None:
    around = Around(EXPIRED, READY)
    around.deleted = True
    assert await around.passes() == Result()
    assert around.events == []


async def test_ovsnode_that_is_gone_is_forgotten() -> None:
    around = Around(EXPIRED, READY)
    await around.passes()
    around.there = False
    assert await around.passes() == Result()
    around.there, around.stored = True, (READY,)
    await around.passes()
    assert len(around.applied) == 2


@pytest.mark.parametrize(
    ("seen", "part"),
    [
        (ABSENT, "keeps no Lease"),
        (replace(EXPIRED, released=True), "stopped and released its Lease"),
        (EXPIRED, "has not renewed its Lease"),
    ],
)
def test_message_names_why_the_agent_counts_as_silent(seen: Sighting, part: str) -> None:
    assert part in silence(NAME, seen)


def test_time_of_the_transition_stays_where_it_was_unknown_before() -> None:
    stale = with_fields(
        condition("Ready", "Unknown", "Stale"), lastTransitionTime=NOW - timedelta(hours=1)
    )
    assert unknown(stale, "silent", NOW).lastTransitionTime == NOW - timedelta(hours=1)
    assert unknown(READY, "silent", NOW + timedelta(hours=1)).lastTransitionTime > NOW
    assert unknown(None, "silent", NOW).message == "silent"
