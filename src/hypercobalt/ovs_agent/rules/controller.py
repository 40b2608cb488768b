"""Whether ovn-controller is connected, by five legs; and the tunnels that it made. Pure.

That it answers `connected` is one leg: it stays so when the server hangs, when ovn-controller is
paused, and when ovs-vswitchd is dead. The legs are the process, not being paused, the session with
the southbound database, the connections to ovs-vswitchd, and the end-to-end witness: the server
answers the agent's own probe, and has this chassis.

Source: ovn-controller(8); OVN, northd and controller sources for `nb_cfg`.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Final

from msgspec.structs import replace

from hypercobalt.adapters.ovs.port import ProducerFault
from hypercobalt.adapters.ovs.rows import InterfaceRow
from hypercobalt.api.conditions import ConditionStatus
from hypercobalt.api.ovsnode import (
    MOST_BROKEN_TUNNELS,
    BridgeMapping,
    IssueSeverity,
    OVNController,
    Tunnels,
)
from hypercobalt.api.ovsnode_reasons import ControllerReason, IssueCode
from hypercobalt.ovs_agent.facts import SwitchFacts, bridge_named, interfaces_of, is_unsupported
from hypercobalt.ovs_agent.ovn_settings import OvnSettings
from hypercobalt.ovs_agent.rules.findings import Assessed, Finding

CODES: Final = (
    IssueCode.NOT_CONFIGURED,
    IssueCode.NOT_RUNNING,
    IssueCode.UNRESPONSIVE,
    IssueCode.PAUSED,
    IssueCode.SB_DISCONNECTED,
    IssueCode.SB_STALE,
    IssueCode.OPENFLOW_DISCONNECTED,
    IssueCode.CHASSIS_MISMATCH,
)
"""Codes, in the order in which they become the condition's reason."""

PEER_GRACE: Final = timedelta(seconds=5)
"""How long ovn-controller may be without a connection to the switch, which it makes again."""

CHASSIS_GRACE: Final = timedelta(seconds=30)
"""How long the southbound database may be without this chassis, which registers at its start."""

_OBJECT: Final = "ovn-controller"
_OF_OVN: Final = ("ovn-", "ct-zone-")
"""Prefixes of external IDs: of those that people set for OVN, and that ovn-controller sets."""

TUNNELS: Final = frozenset({"geneve", "vxlan", "stt"})


class Leg(StrEnum):
    """The proofs that ovn-controller works, for `/metrics`."""

    PROCESS = "process"
    RUNNING = "running"
    SOUTHBOUND = "southbound"
    OPENFLOW = "openflow"
    END_TO_END = "end_to_end"


def legs(facts: SwitchFacts) -> dict[Leg, bool]:
    """Each leg that could be measured."""
    found: dict[Leg, bool] = {}
    if not uses_ovn(facts):
        return found
    if facts.ovn_controller.is_down or facts.ovn_controller.value is not None:
        found[Leg.PROCESS] = not facts.ovn_controller.is_down
    state = facts.controller.proven if facts.ovn_controller.proven else None
    if state is not None:
        found[Leg.SOUTHBOUND] = state.connected
        if state.paused is not None:
            found[Leg.RUNNING] = not state.paused
    peers = facts.openflow_peers.proven
    if peers is not None:
        found[Leg.OPENFLOW] = peers > 0
    if facts.southbound.answers is not None and not is_unsupported(facts.southbound):
        answer = facts.southbound.proven
        found[Leg.END_TO_END] = answer is not None and answer.chassis_nb_cfg is not None
    return found


def assess_controller(facts: SwitchFacts) -> Assessed[OVNController | None]:
    """Return ovn-controller's state, and what is wrong with it and its tunnels.

    Whether it is connected follows from its condition, see `connected`.
    """
    rows = facts.rows
    if rows is None:
        return Assessed(_without_rows(facts), (), frozenset({*CODES, IssueCode.TUNNEL_DOWN}))
    settings = facts.ovn
    tunnels, broken = _tunnels(facts, settings)
    findings, unmeasured = _verdicts(facts, settings)
    value = OVNController(
        sbConnection=settings.remote or None,
        chassisId=settings.system_id or None,
        encapIP=settings.encap_ip or None,
        encapType=settings.encap_type or None,
        bridgeMappings=tuple(
            BridgeMapping(network=network, bridge=bridge)
            for network, bridge in sorted((settings.mappings or {}).items())
        ),
        tunnels=tunnels,
    )
    if tunnels is None:
        unmeasured |= {IssueCode.TUNNEL_DOWN}
    return Assessed(value, (*findings, *broken), unmeasured)


def uses_ovn(facts: SwitchFacts) -> bool:
    """Whether anything on the host is OVN's; a host without is complete without ovn-controller.

    What OVN has once made stays in the database when its settings and ovn-controller are gone, so
    that a broken chassis is no fault without OVN.
    """
    daemon, rows = facts.ovn_controller, facts.rows
    if rows is None or not daemon.is_down or daemon.fault is not ProducerFault.SOCKET_MISSING:
        return True
    of_rows = (
        rows.switch.external_ids,
        *(one.external_ids for one in rows.bridges.values()),
        *(one.external_ids for one in rows.ports.values()),
        *(one.external_ids for one in rows.interfaces.values()),
    )
    return any(key.startswith(_OF_OVN) for ids in of_rows for key in ids)


def connected(
    value: OVNController | None, status: ConditionStatus, reason: str
) -> OVNController | None:
    """The state with `connected` as `OVNControllerConnected` has it, None while that is Unknown."""
    if value is None or reason == ControllerReason.NOT_USED:
        return None
    shown = {ConditionStatus.TRUE: True, ConditionStatus.FALSE: False}
    return replace(value, connected=shown.get(status))


def _without_rows(facts: SwitchFacts) -> OVNController | None:
    """State without OVN's settings: only that ovn-controller is down; None while it runs."""
    return OVNController() if facts.ovn_controller.is_down else None


def _verdicts(
    facts: SwitchFacts, settings: OvnSettings
) -> tuple[tuple[Finding, ...], frozenset[IssueCode]]:
    """The legs that fail, and the codes of those that cannot be measured."""
    daemon = facts.ovn_controller
    if not settings.is_configured:
        if not daemon.is_down and (daemon.value is None or facts.start.value is None):
            return (), frozenset(CODES)  # its own name of the chassis is not read yet
        if not uses_ovn(facts):
            return (), frozenset()
        missing = "ovn-remote" if settings.system_id else "system-id"
        message = f"OVN is not configured: external_ids:{missing} of Open_vSwitch is not set"
        return (_critical(IssueCode.NOT_CONFIGURED, message),), frozenset()
    if daemon.is_down:
        hangs = daemon.fault in (
            ProducerFault.TIMEOUT,
            ProducerFault.CLOSED,
            ProducerFault.MALFORMED,
        )
        code = IssueCode.UNRESPONSIVE if hangs else IssueCode.NOT_RUNNING
        what = "does not answer" if hangs else "does not run"
        message = f"ovn-controller {what}: {daemon.message}; flows stay unchanged"
        return (_critical(code, message),), frozenset()
    if daemon.value is None:
        return (), frozenset(CODES)
    of_sessions, unknown = _sessions(facts, settings)
    of_switch, unknown_too = _switch_leg(facts, settings)
    return (*of_sessions, *of_switch), unknown | unknown_too


def _sessions(
    facts: SwitchFacts, settings: OvnSettings
) -> tuple[tuple[Finding, ...], frozenset[IssueCode]]:
    """Whether ovn-controller runs on, and whether the southbound database answers."""
    findings: list[Finding] = []
    unmeasured: set[IssueCode] = set()
    state = facts.controller.proven
    if state is None:
        if facts.controller.is_down:
            message = f"ovn-controller does not answer: {facts.controller.message}"
            return (_critical(IssueCode.UNRESPONSIVE, message),), frozenset()
        unmeasured |= {IssueCode.PAUSED, IssueCode.SB_DISCONNECTED}
    elif state.paused:
        message = "ovn-controller is paused: run `ovn-appctl -t ovn-controller debug/resume`"
        findings.append(_critical(IssueCode.PAUSED, message))
    if state is not None and not state.connected:
        message = (
            f"ovn-controller is not connected to the southbound database {settings.remote}; flows "
            "stay as they are"
        )
        findings.append(_warning(IssueCode.SB_DISCONNECTED, message))
    answer, probe = facts.southbound.proven, facts.southbound
    if answer is not None:
        if answer.chassis_nb_cfg is None:
            message = (
                f"Southbound database {settings.remote} has no chassis {settings.system_id}; "
                "compare system-id with the chassis there"
            )
            found = _critical(IssueCode.CHASSIS_MISMATCH, message, CHASSIS_GRACE)
            findings.append(found)
    elif probe.is_down and not is_unsupported(probe) and state and state.connected:
        message = (
            f"Southbound database {settings.remote} does not answer, though ovn-controller's "
            f"session is up: {probe.message}"
        )
        findings.append(_warning(IssueCode.SB_STALE, message))
        unmeasured.add(IssueCode.CHASSIS_MISMATCH)
    else:
        unmeasured |= {IssueCode.SB_STALE, IssueCode.CHASSIS_MISMATCH}
        if state is not None and not state.connected:
            unmeasured.discard(IssueCode.SB_STALE)  # SBDisconnected replaces it
    return tuple(findings), frozenset(unmeasured)


def _switch_leg(
    facts: SwitchFacts, settings: OvnSettings
) -> tuple[tuple[Finding, ...], frozenset[IssueCode]]:
    peers, database = facts.openflow_peers.proven, facts.effective
    if peers is None or database is None or bridge_named(database, settings.bridge) is None:
        return (), frozenset({IssueCode.OPENFLOW_DISCONNECTED})
    if peers:
        return (), frozenset()
    message = (
        f"ovn-controller has no OpenFlow connection to bridge {settings.bridge}: no flow changes"
    )
    return (_critical(IssueCode.OPENFLOW_DISCONNECTED, message, PEER_GRACE),), frozenset()


def _tunnels(
    facts: SwitchFacts, settings: OvnSettings
) -> tuple[Tunnels | None, tuple[Finding, ...]]:
    """The tunnels of the integration bridge, and one finding for all that are broken."""
    database = facts.effective
    bridge = bridge_named(database, settings.bridge) if database else None
    if database is None or bridge is None:
        return None, ()
    rows = [one for one in interfaces_of(database, bridge) if one.type in TUNNELS]
    down = [row for row in rows if _is_broken(row)]
    broken = sorted({_remote(row) for row in down})
    shown = tuple(broken[:MOST_BROKEN_TUNNELS])
    if not down:
        return Tunnels(count=len(rows), brokenTotal=0), ()
    more = f" and {len(broken) - len(shown)} more" if len(broken) > len(shown) else ""
    message = f"Tunnels are down, to {', '.join(shown)}{more}"
    finding = Finding(
        IssueCode.TUNNEL_DOWN, settings.bridge, IssueSeverity.WARNING, message, PEER_GRACE
    )
    return Tunnels(count=len(rows), broken=shown, brokenTotal=len(down)), (finding,)


def _is_broken(row: InterfaceRow) -> bool:
    """Whether a tunnel cannot carry: not made, or down by BFD where OVN runs it."""
    bfd = row.bfd_status.get("state")
    return row.ofport == -1 or bool(row.error) or (bfd is not None and bfd != "up")


def _remote(row: InterfaceRow) -> str:
    return row.options.get("remote_ip") or row.name


def _critical(code: IssueCode, message: str, grace: timedelta = timedelta()) -> Finding:
    return Finding(code, _OBJECT, IssueSeverity.CRITICAL, message, grace)


def _warning(code: IssueCode, message: str) -> Finding:
    return Finding(code, _OBJECT, IssueSeverity.WARNING, message)
