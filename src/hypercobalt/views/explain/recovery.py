"""What high availability does about a host that has failed, and what it does next. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.fencing import FencingPhase
from hypercobalt.api.ha_switch import PAUSE
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType, RecoveryBlockedReason
from hypercobalt.api.recovery import Recovery, RecoveryPhase
from hypercobalt.ha.host_failure.guard import SEPARATOR
from hypercobalt.views.explain.model import Finding, Group, Remedy, age, command

_Phase = RecoveryPhase

_DUE: Final[Mapping[str, tuple[str, str]]] = {
    _Phase.SUSPECTED: (
        "No component of the host answers: high availability fences the host {at} and then starts "
        "its instances elsewhere, unless it answers before",
        "once the other hosts have tried to reach it",
    ),
    _Phase.UNWELL: (
        "The host is alive, but its Node is not Ready: its instances migrate {at}, unless the Node "
        "is Ready before",
        "soon",
    ),
    _Phase.REBOOT_GRACE: (
        "The host was shutting down: high availability fences it {at}, unless it is back by then",
        "soon",
    ),
    _Phase.BLOCKED: ("High availability waits, because a gate is closed", ""),
    _Phase.FENCING: (
        "High availability fences the host; the present attempt ends {at}",
        "soon",
    ),
    _Phase.RECOVERING: ("An Eviction starts or moves the host's instances elsewhere", ""),
    _Phase.RECOVERED: (
        "None of its instances is left on the host; it returns to service by itself after a boot",
        "",
    ),
    _Phase.RETURNING: (
        "The host is back; it takes instances again {at}, if it stays healthy",
        "once kubelet, node agent and libvirt have reported",
    ),
}
"""Text by phase, and the word for `{at}` while the time is not known."""

_HOLD: Final = Remedy(
    "nothing; if the host must not be fenced, pause its recovery",
    f"kubectl annotate hypervisor {{node}} {PAUSE}=REASON",
)
REMEDIES: Final[Mapping[str, Remedy]] = {
    _Phase.SUSPECTED: _HOLD,
    _Phase.REBOOT_GRACE: _HOLD,
    _Phase.UNWELL: Remedy("find out why the Node is not Ready", "kubectl describe node {node}"),
    _Phase.BLOCKED: Remedy("check RecoveryBlocked and the gates below"),
    _Phase.FENCING: Remedy("nothing, unless the attempt fails: then see Fenced below"),
    _Phase.RECOVERING: Remedy("nothing; its Eviction below has each instance"),
    _Phase.RECOVERED: Remedy("repair the host, then start it"),
    _Phase.RETURNING: Remedy("nothing, unless a condition below is wrong"),
}

_GATED: Final = frozenset(_Phase) - {_Phase.RECOVERED, _Phase.RETURNING}


_LATE: Final = (
    "The host answers; an attempt to fence it that was begun before may still switch it off: it "
    "takes instances again after that, {at}",
    "soon",
)


def next_step(host: Hypervisor, now: datetime) -> Iterable[Finding]:
    """What is waited for, where the host is in recovery."""
    recovery = host.status.recovery
    if recovery is None or recovery.phase not in _DUE:
        return
    late = recovery.phase == _Phase.FENCING and host.status.unhealthySince is None
    text, unknown = _LATE if late else _DUE[recovery.phase]
    remedy = REMEDIES[recovery.phase]
    filled = command(remedy.command, node=host.metadata.name)
    yield Finding(
        text.format(at=_due(recovery, now, unknown)), remedies=(Remedy(remedy.text, filled),)
    )


def closed_gates(message: str) -> str:
    """The answers of closed gates; the group of `details` lists all gates."""
    closed = [one for one in message.split(SEPARATOR) if " closed: " in one]
    return SEPARATOR.join(closed) or message


def details(host: Hypervisor) -> Iterable[Group]:
    """Each gate's answer for a host that has failed, and how its fencing went."""
    blocked = get_condition(host.conditions, HypervisorConditionType.RECOVERY_BLOCKED)
    recovery, fencing = host.status.recovery, host.status.fencing
    gated = recovery is None or recovery.phase in _GATED
    if gated and blocked is not None and blocked.reason != RecoveryBlockedReason.NOT_NEEDED:
        yield Group("Gates of its recovery", tuple(blocked.message.split(SEPARATOR)))
    if fencing is not None and fencing.phase != FencingPhase.RELEASED:
        boot = f"Fencing of boot {fencing.bootID}: {fencing.phase}"
        if fencing.livesSince is not None:
            boot = f"{boot}, but the host has shown life since {fencing.livesSince:%H:%M:%S} UTC"
        yield Group(boot, fencing.evidence)


def _due(recovery: Recovery, now: datetime, unknown: str) -> str:
    """`at 13:03:53 UTC (in 42s)`."""
    if recovery.until is None:
        return unknown
    if recovery.until <= now:
        return "now"
    return f"at {recovery.until:%H:%M:%S} UTC (in {age(now, recovery.until)})"
