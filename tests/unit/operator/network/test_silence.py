"""Passes over the Lease of a host's OVS agent: what is taken from it, and for how long."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import cast

import pytest
from msgspec.structs import replace as with_fields
from tests.unit.operator.network.switch import NAMESPACE, Cache, switch
from tests.unit.operator.samples import NOW, condition

from hypercobalt.api.conditions import Condition
from hypercobalt.api.meta import Object, ObjectMeta
from hypercobalt.api.ovsnode import NodeReference, OVSNode, OVSNodeSpec, OVSNodeStatus
from hypercobalt.api.ovsnode_glance import OVSNodeConditions
from hypercobalt.operator.agents.leases import AgentLeases, LeaseSighting, LeaseState
from hypercobalt.operator.network.silence import AGAIN, SilenceReconciler, silence, unknown
from hypercobalt.operator.network.switches import Switches
from hypercobalt.runtime import FakeClock, Kube, NotFoundError, Recorder, Result
from hypercobalt.runtime.client.errors import Status

NAME = "kvm-a"
LEASE = "ovn-system/ovs-agent-kvm-a"
RENEWED = LeaseSighting(LeaseState.RENEWED, LEASE, "7", renewed_at="2026-11-20T23:59:00Z")
EXPIRED = replace(RENEWED, state=LeaseState.EXPIRED)
ABSENT = LeaseSighting(LeaseState.ABSENT)
READY = condition("Ready", "True", "AllChecksPassed", "The switch is in order")
BRIDGES = condition("AllBridgesHealthy", "True", "AllBridgesActive")


CONTROLLER = condition("OVNControllerConnected", "True", "Connected")
BROKEN = condition("VswitchdResponding", "False", "Timeout")


def replace_status(one: Condition, status: str) -> Condition:
    return with_fields(one, status=status)


class Around:
    """All that the reconciler reads and writes, in memory."""

    namespace = NAMESPACE

    def __init__(self, seen: LeaseSighting | None, *stored: Condition) -> None:
        self.seen, self.stored, self.deleted = seen, stored, False
        self.cache = Cache(switch())
        self.applied: list[OVSNodeConditions] = []
        self.events: list[str] = []
        self.clock = FakeClock(NOW)
        self.reconciler = SilenceReconciler(
            cast("Kube", self),
            cast("AgentLeases", self),
            cast("Switches", self.cache),
            clock=self.clock,
            events=cast("Recorder", self),
        )

    def as_manager(self, _name: str) -> Around:
        return self

    async def of(self, _name: str) -> LeaseSighting | None:
        return self.seen

    async def get(self, _type: type[Object], name: str, namespace: str) -> OVSNode:
        meta = ObjectMeta(name=name, namespace=namespace, resourceVersion="33")
        spec = OVSNodeSpec(nodeRef=NodeReference(name=name))
        status = OVSNodeStatus(conditions=self.stored, lastProbeTime=NOW)
        return OVSNode(metadata=meta, spec=spec, status=status)

    async def apply(
        self, obj: OVSNodeConditions, *, force: bool, subresource: str
    ) -> OVSNodeConditions:
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
    seen: LeaseSighting | None, again: int | None
) -> None:
    around = Around(seen, READY)
    assert await around.passes() == Result(timedelta(seconds=again) if again else None)
    assert (around.applied, around.events) == ([], [])


async def test_what_a_silent_agent_reported_as_in_order_is_unknown_with_the_age_of_its_report() -> (
    None
):
    around = Around(EXPIRED, BRIDGES, CONTROLLER, READY)
    assert await around.passes() == Result(AGAIN)
    (applied,) = around.applied
    assert (applied.metadata.namespace, applied.metadata.name) == (NAMESPACE, NAME)
    assert applied.metadata.resourceVersion == "33"
    assert [(one.type, one.status, one.reason) for one in applied.status.conditions] == [
        ("AllBridgesHealthy", "Unknown", "AgentSilent"),
        ("OVNControllerConnected", "Unknown", "AgentSilent"),
        ("Ready", "Unknown", "AgentSilent"),
    ]
    for made, before in zip(applied.status.conditions, (BRIDGES, CONTROLLER, READY), strict=True):
        assert made.message == (
            f"The OVS agent of kvm-a has not renewed its Lease {LEASE} for 40 s; last renewed at "
            "2026-11-20T23:59:00Z by the host's clock; it wrote its counters last at "
            f"2026-11-21T00:00:00Z; {made.type} was True/{before.reason} before"
        )
    assert around.events == ["Warning OVSAgentSilent"]


async def test_fault_that_a_silent_agent_reported_last_holds() -> None:
    """Else a host would take instances again as its agent dies with the switch."""
    around = Around(EXPIRED, BRIDGES, BROKEN, replace_status(READY, "False"))
    await around.passes()
    (applied,) = around.applied
    assert [one.type for one in applied.status.conditions] == ["AllBridgesHealthy", "Ready"]


async def test_condition_that_is_unknown_already_stays_applied() -> None:
    silent = condition("Ready", "Unknown", "AgentSilent", "as of an older operator")
    around = Around(EXPIRED, BRIDGES, silent)
    await around.passes()
    (applied,) = around.applied
    assert [one.type for one in applied.status.conditions] == ["AllBridgesHealthy", "Ready"]
    assert applied.status.conditions[1] == silent


async def test_condition_of_a_type_that_no_agent_writes_is_left_alone() -> None:
    around = Around(EXPIRED, condition("OfAnother", "True", "Theirs"), READY)
    await around.passes()
    (applied,) = around.applied
    assert [one.type for one in applied.status.conditions] == ["Ready"]


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
    around.cache.shown = None
    assert await around.passes() == Result()
    around.cache.shown, around.stored = switch(), (READY,)
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
def test_message_names_why_the_agent_counts_as_silent(seen: LeaseSighting, part: str) -> None:
    assert part in silence(NAME, seen)


def test_time_of_the_transition_stays_where_it_was_unknown_before() -> None:
    stale = with_fields(
        condition("Ready", "Unknown", "Stale"), lastTransitionTime=NOW - timedelta(hours=1)
    )
    assert unknown("Ready", stale, "silent", NOW).lastTransitionTime == NOW - timedelta(hours=1)
    assert unknown("Ready", READY, "silent", NOW + timedelta(hours=1)).lastTransitionTime > NOW
    assert unknown("Ready", None, "silent", NOW).message == "silent"
