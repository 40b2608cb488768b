"""`NetworkHealthy`: verdict about a host's switch by its OVSNode. Pure.

What is broken on the host itself closes it: its switch does not answer, or its integration bridge
is down, so that no port can be added. The agent shows that bridge Down also while it is missing or
without flows, so its own status decides: a condition names one fault of one bridge. What OVN's
southbound database has is shared by all hosts: without it a host keeps its flows and its traffic,
and only binds no new ports.

Good news needs proof: an OVSNode whose agent is silent is never True. Bad news needs proof of its
end: such a host stays as broken as it was reported last.

Source: docs/decisions/0034-whose-fault-a-broken-network-is.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from hypercobalt.api.conditions import Condition, ConditionStatus, get_condition, next_condition
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType, NetworkHealthyReason
from hypercobalt.api.ovsnode import BridgeStatus, OVSNodeConditionType
from hypercobalt.api.ovsnode_glance import ConditionGlance, OVSNodeGlance
from hypercobalt.api.ovsnode_reasons import (
    ControllerReason,
    OVSDBReason,
    OVSReadyReason,
    VswitchdReason,
)

_Type = HypervisorConditionType
_Of = OVSNodeConditionType
_Why = NetworkHealthyReason
_SHARED: Final = frozenset({ControllerReason.SB_DISCONNECTED, ControllerReason.SB_STALE})
"""Reasons of `OVNControllerConnected` False about the database that all hosts share."""
_OF_THE_AGENT: Final = frozenset(
    {
        OVSDBReason.NOT_PERMITTED,
        OVSDBReason.SCHEMA_UNSUPPORTED,
        OVSDBReason.MONITOR_FAILED,
        VswitchdReason.NOT_PERMITTED,
    }
)
"""Reasons for daemons that answer, but not the agent: no fault of the switch."""
_CLOSES_NOTHING: Final = (
    _Of.ALL_BRIDGES_HEALTHY,
    _Of.ALL_BONDS_HEALTHY,
    _Of.PORTS_HEALTHY,
    _Of.FLOWS_IN_SYNC,
)
"""Conditions whose faults leave the host open; its `NetworkHealthy` does not contradict `Ready`."""
_FEW: Final = 2  # tunnels that have to be down before their common end is suspected
_LONGEST: Final = 300  # characters of an agent's message


@dataclass(frozen=True, slots=True)
class NetworkVerdict:
    """Verdict about the switch of a host.

    Args:
        status: True, False or Unknown.
        reason: reason of the gravest fault.
        message: that fault, for a person.
    """

    status: ConditionStatus
    reason: NetworkHealthyReason
    message: str


def judge(switch: OVSNodeGlance | None, bridge: str) -> NetworkVerdict:
    """Judge a host by its OVSNode; without one nothing is known of its switch.

    Args:
        switch: the OVSNode of the host.
        bridge: name of the integration bridge.
    """
    if switch is None:
        text = "The host has no OVSNode: no OVS agent reports its switch"
        return NetworkVerdict(ConditionStatus.UNKNOWN, _Why.NOT_REPORTED, text)
    where = f"OVSNode {switch.metadata.namespace}/{switch.metadata.name}"
    silent = is_silent(switch)
    wrong = next(_wrong(switch, bridge), None)
    if wrong is not None:
        reason, text = wrong
        since = "; its OVS agent is silent, so this is its last report" if silent else ""
        return NetworkVerdict(ConditionStatus.FALSE, reason, f"{where}: {text}{since}")
    if silent:
        ready = switch.status.condition(_Of.READY)
        text = f"{where}: {_cut(ready.message) if ready else 'its agent is silent'}"
        return NetworkVerdict(ConditionStatus.UNKNOWN, _Why.AGENT_SILENT, text)
    unknown = _unknown(switch, bridge)
    if unknown:
        return NetworkVerdict(ConditionStatus.UNKNOWN, _Why.NOT_REPORTED, f"{where}: {unknown}")
    return NetworkVerdict(ConditionStatus.TRUE, _Why.HEALTHY, f"{where} shows a healthy switch")


def is_silent(switch: OVSNodeGlance) -> bool:
    """Whether the operator has found the agent's Lease run out, and the agent not written since."""
    ready = switch.status.condition(_Of.READY)
    return ready is not None and ready.reason == OVSReadyReason.AGENT_SILENT


def condition(
    hypervisor: Hypervisor, switch: OVSNodeGlance | None, bridge: str, now: datetime
) -> tuple[Condition, ...]:
    """Return the condition as it should be; none for a host that has never had an OVSNode.

    Args:
        hypervisor: as it is going to be written.
        switch: the OVSNode of the host.
        bridge: name of the integration bridge.
        now: the only clock that this function sees.
    """
    stored = get_condition(hypervisor.conditions, _Type.NETWORK_HEALTHY)
    if switch is None and stored is None:
        return ()
    found = judge(switch, bridge)
    made = next_condition(
        stored, _Type.NETWORK_HEALTHY, found.status, found.reason, found.message, now=now
    )
    return (made,)


def unwatched(hypervisor: Hypervisor, now: datetime) -> tuple[Condition, ...]:
    """Return the condition while no OVSNodes are followed: a stored one proves nothing then."""
    stored = get_condition(hypervisor.conditions, _Type.NETWORK_HEALTHY)
    if stored is None:
        return ()
    text = "The operator watches no OVSNodes (--ovs-agent-namespace is empty)"
    status, reason = ConditionStatus.UNKNOWN, _Why.NOT_REPORTED
    return (next_condition(stored, _Type.NETWORK_HEALTHY, status, reason, text, now=now),)


def _wrong(switch: OVSNodeGlance, bridge: str) -> Iterator[tuple[NetworkHealthyReason, str]]:
    """Return the faults, the gravest first."""
    status = switch.status
    if (found := _gone(switch, _Of.OVSDB_CONNECTED)) is not None:
        yield _Why.SWITCH_NOT_RESPONDING, f"ovsdb-server does not answer ({_words(found)})"
    if (found := _gone(switch, _Of.VSWITCHD_RESPONDING)) is not None:
        lags = found.reason == VswitchdReason.CONFIG_LAG
        what = "takes no configuration" if lags else "does not answer"
        yield _Why.SWITCH_NOT_RESPONDING, f"ovs-vswitchd {what} ({_words(found)})"
    shown = next((one for one in status.bridges if one.name == bridge), None)
    bridges = _failed(switch, _Of.ALL_BRIDGES_HEALTHY)
    if shown is not None and shown.status == BridgeStatus.DOWN:
        yield _Why.BRIDGE_DOWN, f"bridge {bridge} is Down{_why(bridges)}"
    if (found := _failed(switch, _Of.OVN_CONTROLLER_CONNECTED)) is not None:
        if found.reason in _SHARED:
            text = "no connection to OVN's southbound database, so no port can be bound"
            yield _Why.OVN_DISCONNECTED, f"{text} ({_words(found)})"
        else:
            text = "ovn-controller does not work, so no port can be bound"
            yield _Why.OVN_CONTROLLER_FAILED, f"{text} ({_words(found)})"
    if count := _cut_off(switch):
        yield _Why.DEGRADED, f"all of its {count} tunnels are down"
    for type_ in _CLOSES_NOTHING:
        if (found := _failed(switch, type_)) is not None and found.reason not in _OF_THE_AGENT:
            yield _Why.DEGRADED, f"{type_} is False ({_words(found)})"


def _cut_off(switch: OVSNodeGlance) -> int:
    """Return how many tunnels the host has, if all of them are down; else 0.

    One that is down is no evidence about this end: a host that dies is a broken tunnel on every
    other, which must not be a write for each of them. With one tunnel in all the two cannot be
    distinguished.
    """
    controller = switch.status.ovnController
    tunnels = controller.tunnels if controller is not None else None
    if tunnels is None or tunnels.count < _FEW:
        return 0
    return tunnels.count if (tunnels.brokenTotal or 0) >= tunnels.count else 0


def _unknown(switch: OVSNodeGlance, bridge: str) -> str:
    """Return what is not proven to be in order, in words; "" when all is."""
    types = (
        _Of.OVSDB_CONNECTED,
        _Of.VSWITCHD_RESPONDING,
        _Of.ALL_BRIDGES_HEALTHY,
        _Of.OVN_CONTROLLER_CONNECTED,
        _Of.ALL_BONDS_HEALTHY,
        _Of.PORTS_HEALTHY,
        _Of.READY,
    )
    for type_ in types:
        found = switch.status.condition(type_)
        if found is not None and found.status != ConditionStatus.TRUE:
            return f"{type_} is {found.status} ({_words(found)})"
    if switch.status.condition(_Of.ALL_BRIDGES_HEALTHY) is None:
        return f"it has no condition {_Of.ALL_BRIDGES_HEALTHY} yet"
    shown = next((one for one in switch.status.bridges if one.name == bridge), None)
    if shown is None:
        return f"it shows no bridge {bridge}"
    return f"bridge {bridge} is Unknown" if shown.status == BridgeStatus.UNKNOWN else ""


def _failed(switch: OVSNodeGlance, type_: str) -> ConditionGlance | None:
    found = switch.status.condition(type_)
    return found if found is not None and found.status == ConditionStatus.FALSE else None


def _gone(switch: OVSNodeGlance, type_: str) -> ConditionGlance | None:
    """Return the condition of a daemon that no longer answers.

    An agent that has never read a bridge may look in the wrong place: that a whole fleet has
    wrong mounts must not close it.
    """
    found = _failed(switch, type_)
    if found is None or found.reason in _OF_THE_AGENT or not switch.status.bridges:
        return None
    return found


def _why(found: ConditionGlance | None) -> str:
    return f" ({_words(found)})" if found is not None else ""


def _words(found: ConditionGlance) -> str:
    return ": ".join(part for part in (found.reason, _cut(found.message)) if part)


def _cut(message: str) -> str:
    return message[:_LONGEST]
