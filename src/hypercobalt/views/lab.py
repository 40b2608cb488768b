"""The lab at a glance: one row a host, from its Hypervisor and from the machine.

A host that is off, frozen or cut off, or whose agent is silent, is not shown as fine: what it
reported last is stale.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.duration import human_duration
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.lab.control import ROLE as API_SERVER
from hypercobalt.lab.control import TOKENS
from hypercobalt.lab.host import HostPower
from hypercobalt.lab.network.rack import SWITCH
from hypercobalt.lab.operator import ROLE as OPERATOR
from hypercobalt.lab.ovn import Part
from hypercobalt.lab.supervision.rules import RestartRecord, Restarts

UNKNOWN = "-"
CUT = "cut"
STALE = "Stale"
"""State of a host that the API shows as Ready, while the lab sees that the host cannot report."""
_UNITS = ("libvirtd.service", "openvswitch-switch.service")

_CONTROL_PLANE: Final = {
    API_SERVER: "The API server does not run: nothing is reported or reconciled",
    OPERATOR: "The operator does not run: hosts are neither onboarded nor emptied",
    TOKENS: "The renewal of tokens does not run: within an hour the API server refuses the "
    "operator and the agents",
    SWITCH: "The top of rack does not run: the bonds of all hosts are down, and so are tunnels",
}
_OVN: Final = {
    Part.SB: "no port is bound, so live moves wait; flows and traffic continue",
    Part.NB: "no port of a VM is made, changed or removed; flows and traffic continue",
    Part.NORTHD: "ports of VMs that start or move stay cut off",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One host, everything as text."""

    node: str
    power: str
    state: str
    version: str
    instances: str
    libvirt: str
    ovs: str
    network: str
    hardware: str
    kernel: str
    age: str


def rows(
    power: Mapping[str, HostPower],
    hypervisors: Iterable[Hypervisor],
    now: datetime,
    *,
    cut: Collection[str] = (),
) -> tuple[Row, ...]:
    """One row a host, in the lab's order; a value that is not written yet is a dash.

    Args:
        power: what each host of the lab is doing.
        hypervisors: objects of the API; those of other hosts count for nothing.
        now: the time to count ages from.
        cut: hosts whose cable is pulled.
    """
    known = {hypervisor.metadata.name: hypervisor for hypervisor in hypervisors}
    return tuple(
        _row(name, CUT if name in cut else state, known.get(name), now)
        for name, state in power.items()
    )


def stopped(roles: Mapping[str, bool], awaited: Collection[str] = ()) -> tuple[str, ...]:
    """Parts of the control plane that do not work on the machine, a sentence each.

    Args:
        roles: of the lab's processes, and whether each hangs.
        awaited: roles that the supervisor starts again.
    """
    away = [
        f"{text}; {'the supervisor' if role in awaited else '`cobalt lab up`'} starts it"
        for role, text in _CONTROL_PLANE.items()
        if role not in roles
    ]
    for part, text in _OVN.items():
        what = "does not run" if part.role not in roles else "hangs" if roles[part.role] else ""
        if what:
            by = f"`cobalt lab ovn start {part}` repairs it"
            remedy = "the supervisor starts it" if part.role in {*awaited} - {*roles} else by
            away.append(f"{part.full_name} {what}: {text}; {remedy}")
    return tuple(away)


def restarted(record: RestartRecord) -> tuple[str, ...]:
    """What the supervisor has started again or is about to, a sentence each."""
    return tuple(_restarted(role, one) for role, one in sorted(record.items()) if _has_died(one))


def _has_died(one: Restarts) -> bool:
    return bool(one.times or one.due)


def _restarted(role: str, one: Restarts) -> str:
    often = f"{one.times} time" + ("s" if one.times != 1 else "")
    last = f"; it ended at {one.died:%H:%M:%S} UTC: {one.how}" if one.died else ""
    if one.due is not None:
        due = f"next start {one.due:%H:%M:%S} UTC"
        return f"Process {role} does not run, restarted {often}, {due}{last}"
    return f"Process {role} was restarted {often}{last}"


UNSUPERVISED: Final = (
    "The supervisor does not run: a process of the lab that dies stays dead; `cobalt lab up` "
    "starts the supervisor"
)


def _row(name: str, power: str, hypervisor: Hypervisor | None, now: datetime) -> Row:
    if hypervisor is None:
        return Row(name, power, *[UNKNOWN] * 9)
    system = hypervisor.status.operatingSystem
    can_report = power == HostPower.RUNNING
    current = hypervisor.conditions if can_report and _agent_reports(hypervisor) else ()
    reasons = {condition.type: condition.reason for condition in current}
    libvirt, ovs = (reasons.get(unit, UNKNOWN) for unit in _UNITS)
    count = hypervisor.status.numInstances
    created = hypervisor.metadata.creationTimestamp
    return Row(
        node=name,
        power=power,
        state=_state(hypervisor, can_report=can_report),
        version=(system.prettyVersion if system else "") or UNKNOWN,
        instances=UNKNOWN if count is None else str(count),
        libvirt=libvirt,
        ovs=ovs,
        network=_network(hypervisor) if can_report else UNKNOWN,
        hardware=(system.hardwareModel if system else "") or UNKNOWN,
        kernel=(system.kernelRelease if system else "") or UNKNOWN,
        age=human_duration(max(now - created, timedelta(0))) if created else UNKNOWN,
    )


def _state(hypervisor: Hypervisor, *, can_report: bool) -> str:
    ready = get_condition(hypervisor.conditions, HypervisorConditionType.READY)
    if ready is None:
        return UNKNOWN
    return STALE if ready.status == "True" and not can_report else ready.reason


def _network(hypervisor: Hypervisor) -> str:
    found = get_condition(hypervisor.conditions, HypervisorConditionType.NETWORK_HEALTHY)
    return found.reason if found is not None else UNKNOWN


def _agent_reports(hypervisor: Hypervisor) -> bool:
    found = get_condition(hypervisor.conditions, HypervisorConditionType.AGENT_REPORTING)
    return found is None or found.status != "False"


def is_taken_up(hypervisor: Hypervisor) -> bool:
    """Whether its agent has reported and its onboarding has come to an end."""
    onboarding = get_condition(hypervisor.conditions, HypervisorConditionType.ONBOARDING)
    reported = get_condition(hypervisor.conditions, HypervisorConditionType.LIBVIRT_CONNECTION)
    return reported is not None and onboarding is not None and onboarding.status != "True"


def is_watched(hypervisor: Hypervisor) -> bool:
    """Whether its OVS agent has reported its switch, as sound or as broken."""
    network = get_condition(hypervisor.conditions, HypervisorConditionType.NETWORK_HEALTHY)
    return network is not None and network.status != "Unknown"
