"""Conditions of a VirtualMachineInstance: what each of them shows, and why. Pure.

Invariant: one condition per type, and `lastTransitionTime` moves only with `status`. PodScheduled
and Synchronized are there only while they are False, Paused, AgentConnected and SoftwareEmulation
only while they are True.

Source: KubeVirt, pkg/controller/conditions.go, pkg/virt-controller/watch/vmi (Ready, PodScheduled,
Synchronized) and pkg/virt-handler/vm.go (the others).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from hypercobalt.api.conditions import MAX_MESSAGE, cut
from hypercobalt.api.core import NodeCondition
from hypercobalt.api.kubevirt.names import VMIConditionReason as Reason
from hypercobalt.api.kubevirt.names import VMIConditionType as Type
from hypercobalt.api.kubevirt.names import VMIPhase
from hypercobalt.api.kubevirt.spec import VMISpec
from hypercobalt.api.kubevirt.status import VMICondition
from hypercobalt.api.workloads import Pod
from hypercobalt.vmi.launcher_pods import is_ending, pod_condition

Conditions = tuple[VMICondition, ...]

ALLOWS_BRIDGE_MIGRATION: Final = "kubevirt.io/allow-pod-bridge-network-live-migration"
"""Annotation of a VMI: its guest copes with another address after a migration."""


@dataclass(frozen=True, slots=True)
class Aspect:
    """Status, reason and message of a condition, as they should be."""

    status: str
    reason: str
    message: str = ""


def get(conditions: Conditions, type_: str) -> VMICondition | None:
    """The condition of a type; None if it is not there."""
    return next((one for one in conditions if one.type == type_), None)


def put(conditions: Conditions, type_: str, aspect: Aspect | None, now: datetime) -> Conditions:
    """Return `conditions` with the one of `type_` as it should be; without it where that is None.

    Args:
        conditions: as read; of several of one type the first counts and the others go.
        type_: of the condition.
        aspect: as it should be.
        now: aware; it becomes `lastTransitionTime` only if the status changes.

    Returns:
        The same tuple if nothing changes.
    """
    same = [one for one in conditions if one.type == type_]
    if aspect is None:
        return tuple(one for one in conditions if one.type != type_) if same else conditions
    old = same[0] if same else None
    new = _next(old, type_, aspect, now)
    if same == [new]:
        return conditions
    if old is None:
        return (*conditions, new)
    return tuple(new if one is old else one for one in conditions if one is old or one not in same)


def _next(old: VMICondition | None, type_: str, aspect: Aspect, now: datetime) -> VMICondition:
    since: datetime | None = now.astimezone(UTC).replace(microsecond=0)
    if old is not None and old.status == aspect.status:
        since = old.lastTransitionTime
    return VMICondition(
        type=type_,
        status=aspect.status,
        reason=aspect.reason,
        message=cut(aspect.message, MAX_MESSAGE),
        lastProbeTime=old.lastProbeTime if old is not None else None,
        lastTransitionTime=since,
    )


def ready(phase: VMIPhase, pod: Pod | None) -> Aspect:
    """Ready: the pod's own, while the guest runs."""
    if pod is None:
        return Aspect("False", Reason.POD_NOT_EXISTS, "launcher pod does not exist")
    if is_ending(pod):
        return Aspect("False", Reason.POD_TERMINATING, "launcher pod is terminating")
    if phase is not VMIPhase.RUNNING:
        return Aspect("False", Reason.GUEST_NOT_RUNNING, "guest is not reported as running")
    shown = pod_condition(pod, "Ready")
    if shown is None:
        return Aspect("False", Reason.POD_CONDITION_MISSING, "launcher pod has no condition Ready")
    return _as_shown(shown)


def pod_scheduled(pod: Pod | None) -> Aspect | None:
    """PodScheduled: the pod's own while it is False; None once the pod has a node."""
    shown = pod_condition(pod, "PodScheduled") if pod is not None else None
    if pod is None or shown is None or pod.spec.nodeName or shown.status != "False":
        return None
    return _as_shown(shown)


def _as_shown(shown: NodeCondition) -> Aspect:
    status = shown.status if shown.status in ("True", "False", "Unknown") else "Unknown"
    return Aspect(status, shown.reason, shown.message)


def synchronized(reason: str, message: str) -> Aspect:
    """Synchronized: what keeps the VMI from going on."""
    return Aspect("False", reason, message)


def paused(reason: Reason) -> Aspect:
    """Paused, with one of the reasons `PAUSED_…`."""
    messages = {
        Reason.PAUSED_BY_USER: "VMI was paused by user",
        Reason.PAUSED_BY_MIGRATION_MONITOR: "VMI was paused by migration monitor",
        Reason.PAUSED_IO_ERROR: "VMI was paused, IO error",
    }
    return Aspect("True", reason, messages.get(reason, ""))


def unpaused_gate(conditions: Conditions) -> Aspect:
    """Condition `kubevirt.io/virtual-machine-unpaused` of the pod, which its readiness needs."""
    found = get(conditions, Type.PAUSED)
    if found is not None and found.status == "True":
        return Aspect("False", "Paused", "the virtual machine is paused")
    return Aspect("True", "NotPaused", "the virtual machine is not paused")


AGENT_CONNECTED: Final = Aspect("True", "")
SOFTWARE_EMULATION: Final = Aspect(
    "True", "SoftwareEmulation", "the guest is emulated: its node has no usable KVM"
)


def live_migratable(
    spec: VMISpec, annotations: dict[str, str], *, host_model_known: bool
) -> Aspect:
    """LiveMigratable; of several reasons against it the first counts.

    Reasons of fields that are not honoured (host devices, SEV, virtiofs) do not occur.

    Args:
        spec: after defaulting.
        annotations: of the VMI.
        host_model_known: the node knows the CPU model that `host-model` stands for.
    """
    if not _interfaces_migrate(spec, annotations):
        message = "cannot migrate VMI which does not use masquerade to connect to the pod network"
        return Aspect("False", Reason.INTERFACE_NOT_LIVE_MIGRATABLE, message)
    model = spec.domain.cpu.model if spec.domain.cpu is not None else ""
    if model == "host-model" and not host_model_known:
        message = "cannot migrate VMI: the node does not know its host model"
        return Aspect("False", Reason.CPU_MODE_LIVE_MIGRATABLE, message)
    return Aspect("True", "")


def _interfaces_migrate(spec: VMISpec, annotations: dict[str, str]) -> bool:
    pod_networks = {network.name for network in spec.networks if network.pod is not None}
    on_pod = [one for one in spec.domain.devices.interfaces if one.name in pod_networks]
    return all(
        one.masquerade is not None
        or (one.bridge is not None and ALLOWS_BRIDGE_MIGRATION in annotations)
        for one in on_pod
    )


def migration_method(spec: VMISpec) -> str:
    """`status.migrationMethod`: whether disks move with the guest."""
    local = any(one.containerDisk or one.emptyDisk for one in spec.volumes)
    return "BlockMigration" if local else "LiveMigration"
