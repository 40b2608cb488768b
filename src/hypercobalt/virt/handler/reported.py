"""The status of a VMI as its domain and its pod show it. Pure.

Everything in a report may have been made up by a launcher that was broken into, and a pod's status
by whoever may write it. What reaches the status is checked in form, and says nothing of another
object: names come from the VMI.

Source: KubeVirt, pkg/virt-handler/vm.go (updateVMIStatus) and its network setup.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final

from msgspec.structs import replace

from hypercobalt.api.kubevirt.names import FINAL_PHASES, VMIPhase
from hypercobalt.api.kubevirt.names import VMIConditionReason as Reason
from hypercobalt.api.kubevirt.names import VMIConditionType as Type
from hypercobalt.api.kubevirt.status import (
    InterfaceStatus,
    MachineStatus,
    VMIStatus,
    VolumeStatus,
)
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.workloads import Pod
from hypercobalt.text import printable
from hypercobalt.virt.handler.model import Contact, HandlerCall, HandlerFacts
from hypercobalt.virt.wire.messages import DomainReport, PausedBy
from hypercobalt.vmi import conditions
from hypercobalt.vmi.conditions import Aspect, Conditions
from hypercobalt.vmi.domain.targets import guest_disks
from hypercobalt.vmi.phases import LifeCycle, entered
from hypercobalt.vmi.unfit import UnfitVMIError

OUT_OF_MEMORY: Final = "OOMKilled"
"""Reason of a VMI whose guest the kernel killed at its pod's limit, as kubelets have it of pods."""
UNRESPONSIVE: Final = "LauncherUnresponsive"
"""Reason of a VMI whose launcher has not made the guest run in time."""
_MACHINE: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}", re.ASCII)
_MAC: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", re.ASCII)
_MOST_ADDRESSES: Final = 8
_SHOWN: Final = 1024  # characters
_BY_DOMAIN: Final = "domain"  # infoSource
_UP: Final = "up"
_PAUSED: Final = {
    PausedBy.USER: Reason.PAUSED_BY_USER,
    PausedBy.MIGRATION: Reason.PAUSED_BY_MIGRATION_MONITOR,
    PausedBy.IO_ERROR: Reason.PAUSED_IO_ERROR,
}


def reported(facts: HandlerFacts, phase: VMIPhase) -> VMIStatus:
    """The status in a phase.

    What only a launcher knows stays as it was while that cannot be reached.
    """
    vmi, now = facts.vmi, facts.now
    status = entered(vmi.status, phase, now)
    report = facts.launcher.report if facts.launcher.contact is Contact.CONNECTED else None
    shown = conditions.put(status.conditions, Type.SYNCHRONIZED, _synchronized(facts, phase), now)
    if report is not None and phase is VMIPhase.RUNNING:
        shown = _of_domain(shown, report, facts)
        status = _running(status, vmi, report, facts.pod)
    if phase in FINAL_PHASES:
        shown = conditions.put(shown, Type.PAUSED, None, now)
    if facts.out_of_memory and phase is VMIPhase.FAILED:
        status = replace(status, reason=OUT_OF_MEMORY)
    return replace(status, conditions=shown)


def _of_domain(shown: Conditions, report: DomainReport, facts: HandlerFacts) -> Conditions:
    spec, annotations = facts.vmi.spec, facts.vmi.metadata.annotations
    emulated = conditions.SOFTWARE_EMULATION if report.emulated else None
    migratable = conditions.live_migratable(spec, annotations, host_model_known=True)
    wanted: tuple[tuple[str, Aspect | None], ...] = (
        (Type.PAUSED, _paused(report)),
        (Type.SOFTWARE_EMULATION, emulated),
        (Type.LIVE_MIGRATABLE, migratable),
    )
    for type_, aspect in wanted:
        shown = conditions.put(shown, type_, aspect, facts.now)
    return shown


def _paused(report: DomainReport) -> Aspect | None:
    reason = _PAUSED.get(report.paused_by) if report.state is LifeCycle.PAUSED else None
    return conditions.paused(reason) if reason is not None else None


def _synchronized(facts: HandlerFacts, phase: VMIPhase) -> Aspect | None:
    """What keeps the guest from running; None once it runs."""
    if facts.unconnectable:
        return conditions.synchronized(Reason.SYNC_FAILED, printable(facts.unconnectable))
    if phase in FINAL_PHASES:
        return None
    error = trouble(facts)
    if error and phase is VMIPhase.SCHEDULED:
        return conditions.synchronized(Reason.SYNC_FAILED, error)
    return None


def trouble(facts: HandlerFacts) -> str:
    """Why the guest does not run yet, for people; "" for no reason that is known."""
    launcher = facts.launcher
    unreached = launcher.trouble if launcher.contact is Contact.UNKNOWN else ""
    return printable(unreached or facts.call(HandlerCall.SYNC).error)[:_SHOWN]


def _running(
    status: VMIStatus, vmi: VirtualMachineInstance, report: DomainReport, pod: Pod | None
) -> VMIStatus:
    machine = report.machine if _MACHINE.fullmatch(report.machine) else ""
    return replace(
        status,
        machine=MachineStatus(type=machine) if machine else status.machine,
        interfaces=_interfaces(status.interfaces, vmi, report, pod),
        volumeStatus=_volumes(status.volumeStatus, vmi),
        migrationMethod=conditions.migration_method(vmi.spec),
    )


def _interfaces(
    known: tuple[InterfaceStatus, ...],
    vmi: VirtualMachineInstance,
    report: DomainReport,
    pod: Pod | None,
) -> tuple[InterfaceStatus, ...]:
    """Each NIC of the VMI with what the domain shows of it, and the pod's addresses."""
    on_pod = {network.name for network in vmi.spec.networks if network.pod is not None}
    macs = {one.name: one.mac for one in report.interfaces if _MAC.fullmatch(one.mac)}
    addresses = _addresses(pod)
    found: list[InterfaceStatus] = []
    for one in known:
        shown, mac = one, macs.get(one.name)
        if mac is not None:
            shown = replace(shown, mac=mac, infoSource=_BY_DOMAIN, queueCount=1, linkState=_UP)
        if addresses and one.name in on_pod:
            shown = replace(shown, ipAddress=addresses[0], ipAddresses=addresses)
        found.append(shown)
    return tuple(found)


def _addresses(pod: Pod | None) -> tuple[str, ...]:
    if pod is None:
        return ()
    given = (pod.status.podIP, *(one.ip for one in pod.status.podIPs[:_MOST_ADDRESSES]))
    return tuple(dict.fromkeys(one for one in given if _is_address(one)))


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _volumes(
    known: tuple[VolumeStatus, ...], vmi: VirtualMachineInstance
) -> tuple[VolumeStatus, ...]:
    """Each volume with the name that its disk has in the guest."""
    try:
        targets = {one.spec.name: one.name for one in guest_disks(vmi.spec.domain.devices.disks)}
    except UnfitVMIError:
        return known
    return tuple(replace(one, target=targets.get(one.name, one.target)) for one in known)
