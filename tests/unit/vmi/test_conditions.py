"""Conditions of a VMI, as tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hypercobalt.api.core import NodeCondition
from hypercobalt.api.kubevirt.devices import DevicesSpec, InterfaceSpec, Present
from hypercobalt.api.kubevirt.machine import CPUSpec
from hypercobalt.api.kubevirt.names import VMIConditionReason, VMIPhase
from hypercobalt.api.kubevirt.spec import DomainSpec, VMISpec
from hypercobalt.api.kubevirt.status import VMICondition
from hypercobalt.api.kubevirt.volumes import (
    ContainerDisk,
    EmptyDisk,
    NetworkSpec,
    PodNetwork,
    VolumeSpec,
)
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.pods import ContainerState, ContainerStateTerminated, ContainerStatus
from hypercobalt.api.quantity import Quantity
from hypercobalt.api.workloads import Pod, PodSpec, PodStatus
from hypercobalt.vmi.conditions import (
    ALLOWS_BRIDGE_MIGRATION,
    Aspect,
    get,
    live_migratable,
    migration_method,
    paused,
    pod_scheduled,
    put,
    ready,
    unpaused_gate,
)

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
OLD = NOW - timedelta(hours=1)
MOVED = VMICondition(type="Ready", status="False", reason="A", lastTransitionTime=OLD)


@pytest.mark.parametrize(
    ("aspect", "since"),
    [(Aspect("False", "B", "why"), OLD), (Aspect("True", "B"), NOW), (Aspect("Unknown", ""), NOW)],
)
def test_transition_moves_only_with_the_status(aspect: Aspect, since: datetime) -> None:
    other = VMICondition(type="Paused", status="True")
    (kept, changed) = put((other, MOVED), "Ready", aspect, NOW)
    assert kept is other
    assert (changed.status, changed.reason, changed.message) == (
        aspect.status,
        aspect.reason,
        aspect.message,
    )
    assert changed.lastTransitionTime == since


def test_condition_that_is_right_already_leaves_the_same_tuple() -> None:
    given = (MOVED,)
    assert put(given, "Ready", Aspect("False", "A"), NOW) is given
    assert put(given, "Synchronized", None, NOW) is given


def test_condition_is_added_at_the_end_and_removed() -> None:
    two = put((MOVED,), "Synchronized", Aspect("False", "FailedCreate"), NOW)
    assert [one.type for one in two] == ["Ready", "Synchronized"]
    assert put(two, "Synchronized", None, NOW) == (MOVED,)


def test_of_two_conditions_of_one_type_the_first_stays() -> None:
    doubled = (MOVED, VMICondition(type="Ready", status="True"))
    assert put(doubled, "Ready", Aspect("False", "A"), NOW) == (MOVED,)
    assert get(doubled, "Ready") is MOVED


def test_probe_time_of_other_writers_stays() -> None:
    probed = VMICondition(type="Ready", status="True", lastProbeTime=OLD)
    (changed,) = put((probed,), "Ready", Aspect("False", "A"), NOW)
    assert changed.lastProbeTime == OLD


def pod(
    *conditions: NodeCondition, phase: str = "Running", node: str = "a", deleted: bool = False
) -> Pod:
    return Pod(
        metadata=ObjectMeta(deletionTimestamp=NOW if deleted else None),
        spec=PodSpec(nodeName=node),
        status=PodStatus(phase=phase, conditions=conditions),
    )


READY = NodeCondition(type="Ready", status="True", reason="R", message="m")
ENDED = Pod(
    status=PodStatus(
        phase="Running",
        containerStatuses=(
            ContainerStatus(
                name="compute", state=ContainerState(terminated=ContainerStateTerminated())
            ),
        ),
    )
)


@pytest.mark.parametrize(
    ("phase", "given", "expected"),
    [
        (VMIPhase.PENDING, None, ("False", "PodNotExists")),
        (VMIPhase.RUNNING, None, ("False", "PodNotExists")),
        (VMIPhase.RUNNING, pod(READY, deleted=True), ("False", "PodTerminating")),
        (VMIPhase.RUNNING, pod(READY, phase="Failed"), ("False", "PodTerminating")),
        (VMIPhase.RUNNING, ENDED, ("False", "PodTerminating")),
        (VMIPhase.SCHEDULED, pod(READY), ("False", "GuestNotRunning")),
        (VMIPhase.FAILED, pod(READY), ("False", "GuestNotRunning")),
        (VMIPhase.RUNNING, pod(), ("False", "PodConditionMissing")),
        (VMIPhase.RUNNING, pod(READY), ("True", "R")),
        (
            VMIPhase.RUNNING,
            pod(NodeCondition(type="Ready", status="False", reason="ReadinessGatesNotReady")),
            ("False", "ReadinessGatesNotReady"),
        ),
        (
            VMIPhase.RUNNING,
            pod(NodeCondition(type="Ready", status="yes; drop")),
            ("Unknown", ""),
        ),
    ],
)
def test_ready(phase: VMIPhase, given: Pod | None, expected: tuple[str, str]) -> None:
    found = ready(phase, given)
    assert (found.status, found.reason) == expected


UNSCHEDULABLE = NodeCondition(
    type="PodScheduled", status="False", reason="Unschedulable", message="0/3"
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        (pod(node=""), None),
        (pod(UNSCHEDULABLE, node=""), Aspect("False", "Unschedulable", "0/3")),
        (pod(UNSCHEDULABLE, node="a"), None),
        (pod(NodeCondition(type="PodScheduled", status="True"), node=""), None),
    ],
)
def test_pod_scheduled_is_shown_while_it_is_false(
    given: Pod | None, expected: Aspect | None
) -> None:
    assert pod_scheduled(given) == expected


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ((), ("True", "NotPaused")),
        ((VMICondition(type="Paused", status="False"),), ("True", "NotPaused")),
        ((VMICondition(type="Paused", status="True"),), ("False", "Paused")),
    ],
)
def test_gate_of_the_pod_follows_paused(
    conditions: tuple[VMICondition, ...], expected: tuple[str, str]
) -> None:
    found = unpaused_gate(conditions)
    assert (found.status, found.reason) == expected


@pytest.mark.parametrize("reason", [one for one in VMIConditionReason if "PAUSED" in one.name])
def test_paused_condition_has_a_reason(reason: VMIConditionReason) -> None:
    found = paused(reason)
    assert (found.status, found.reason) == ("True", reason)
    assert found.message


BRIDGE = InterfaceSpec(name="default", bridge=Present())
MASQUERADE = InterfaceSpec(name="default", masquerade=Present())
POD = NetworkSpec(name="default", pod=PodNetwork())
OTHER = NetworkSpec(name="default")


@pytest.mark.parametrize(
    ("interface", "network", "model", "known", "reason"),
    [
        (MASQUERADE, POD, "host-model", True, ""),
        (None, None, "", True, ""),
        (BRIDGE, OTHER, "", True, ""),
        (BRIDGE, POD, "", True, "InterfaceNotLiveMigratable"),
        (InterfaceSpec(name="default"), POD, "", True, "InterfaceNotLiveMigratable"),
        (MASQUERADE, POD, "host-model", False, "CPUModeLiveMigratable"),
        (MASQUERADE, POD, "Nehalem", False, ""),
        (BRIDGE, POD, "host-model", False, "InterfaceNotLiveMigratable"),
    ],
)
def test_live_migratable(
    interface: InterfaceSpec | None,
    network: NetworkSpec | None,
    *,
    model: str,
    known: bool,
    reason: str,
) -> None:
    devices = DevicesSpec(interfaces=(interface,) if interface else ())
    spec = VMISpec(
        domain=DomainSpec(cpu=CPUSpec(model=model), devices=devices),
        networks=(network,) if network else (),
    )
    found = live_migratable(spec, {}, host_model_known=known)
    assert (found.status, found.reason) == ("False" if reason else "True", reason)


def test_bridge_migrates_with_the_annotation() -> None:
    spec = VMISpec(domain=DomainSpec(devices=DevicesSpec(interfaces=(BRIDGE,))), networks=(POD,))
    found = live_migratable(spec, {ALLOWS_BRIDGE_MIGRATION: ""}, host_model_known=True)
    assert found.status == "True"


def test_annotation_helps_no_interface_without_a_bridge() -> None:
    unbound = DevicesSpec(interfaces=(InterfaceSpec(name="default"),))
    spec = VMISpec(domain=DomainSpec(devices=unbound), networks=(POD,))
    found = live_migratable(spec, {ALLOWS_BRIDGE_MIGRATION: ""}, host_model_known=True)
    assert found.status == "False"


@pytest.mark.parametrize(
    ("volumes", "method"),
    [
        ((), "LiveMigration"),
        ((VolumeSpec(name="a"),), "LiveMigration"),
        ((VolumeSpec(name="a", containerDisk=ContainerDisk(image="i")),), "BlockMigration"),
        ((VolumeSpec(name="a", emptyDisk=EmptyDisk(capacity=Quantity("1Gi"))),), "BlockMigration"),
    ],
)
def test_local_disks_move_with_the_guest(volumes: tuple[VolumeSpec, ...], method: str) -> None:
    assert migration_method(VMISpec(volumes=volumes)) == method
