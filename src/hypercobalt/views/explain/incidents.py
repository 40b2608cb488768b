"""The open incidents of a host, their recoveries, and what needs a person. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.incident import SEEN, Incident, IncidentType, Reaction, Severity
from hypercobalt.views.explain.model import Finding, Group, Remedy, age, command
from hypercobalt.views.explain.reporters import AGENT

_Type = IncidentType
_KERNEL: Final = "cobalt logs {node} --unit kernel"
_MOVED: Final = Remedy(
    "find the compute service's record of the migration; destroy the instance, then start it on "
    "the host where its disks are intact"
)

REMEDIES: Final[Mapping[str, Remedy]] = {
    _Type.RECOVERY_EXHAUSTED: Remedy(
        "check the evidence and the instance's console, remove the cause, then start the instance "
        "in the compute service"
    ),
    _Type.EVENT_STORM: Remedy(
        "look for a cause that the instances share: storage, memory, a kernel message", _KERNEL
    ),
    _Type.STORAGE_DEGRADED: Remedy(
        "repair the storage, or the host's connection to it; the node agent then resumes paused "
        "instances"
    ),
    _Type.POSTCOPY_FAILED: _MOVED,
    _Type.PAUSED: Remedy(
        "find out on the host why libvirt paused the instance; hypercobalt does not resume it",
        "journalctl -u libvirtd -u virtqemud -n 100",
    ),
    _Type.OUT_OF_BAND: Remedy(
        "find out why the instance is off, and start it in the compute service if it should run; "
        "an incident that needs no more is closed by its id",
        f"kubectl annotate hypervisor {{node}} --overwrite {SEEN}=ID",
    ),
    _Type.MEMORY_FAILURE: Remedy("look for memory errors of the host", _KERNEL),
    _Type.REBOOT_LOOP: Remedy("check the instance's console; the loop does not end by itself"),
    _Type.RUNS_AFTER_BOOT: Remedy(
        "check that the instance runs on no other host, and what started it: autostart or "
        "libvirt-guests",
        "virsh list --all --autostart",
    ),
}
"""What to do about incidents that do not end by themselves.

docs/operations.md, Incidents, has the long form.
"""

_WORTH_A_LINE: Final = frozenset({Severity.WARNING, Severity.CRITICAL})


def details(host: Hypervisor, now: datetime) -> Iterable[Group]:
    """The open incidents, as its node agent has ordered them: the gravest first."""
    lines = tuple(_line(one, now) for one in host.status.incidents if one.severity in _WORTH_A_LINE)
    if lines:
        yield Group("Incidents", lines)
    if host.status.failingStorage:
        yield Group("Storage that fails on other hosts, too", host.status.failingStorage)


def findings(host: Hypervisor) -> Iterable[Finding]:
    """The incidents that need a person, by type; `details` has each."""
    for type_, remedy in REMEDIES.items():
        found = [one for one in host.status.incidents if one.type == type_ and _needs_person(one)]
        if not found:
            continue
        began = (one.firstSeen for one in found if one.firstSeen is not None)
        yield Finding(
            message=", ".join(dict.fromkeys(_who(one) for one in found)),
            condition=f"incident {type_}",
            since=min(began, default=None),
            reporter=AGENT,
            remedies=(Remedy(remedy.text, command(remedy.command, node=host.metadata.name)),),
        )


def _needs_person(one: Incident) -> bool:
    """An instance that a client has ended is shown for a while, and needs no person."""
    return one.type != _Type.OUT_OF_BAND or one.severity in _WORTH_A_LINE


def _who(one: Incident) -> str:
    return one.name or one.instance or "the host"


def _line(one: Incident, now: datetime) -> str:
    since = f" for {age(one.firstSeen, now)}" if one.firstSeen else ""
    often = f", seen {one.count} times" if one.count and one.count > 1 else ""
    reaction = one.reaction or Reaction.REPORT
    done = f"{reaction} by Eviction {one.eviction}" if one.eviction else reaction
    why = f": {one.evidence[-1]}" if one.evidence else ""
    return f"{one.type} of {_who(one)}{since}{often}, {one.severity}, {done}{why}"
