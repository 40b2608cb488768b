"""Finds contradictions between the switches of a fleet. Pure.

Each OVSNode can be in order by itself and the network broken all the same: an address that two
hosts have, a tunnel that one end alone has, a physical network that leads to another bridge. The
hosts of most others count as right. An OVSNode whose agent is silent, or has not reported yet,
proves nothing: it is left out, which is a finding itself. Values that an agent cannot read are
absent from its OVSNode and not compared, so that is a finding as well.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address
from typing import Final

from hypercobalt.api.conditions import ConditionStatus, get_condition
from hypercobalt.api.ovsnode import (
    MOST_BROKEN_TUNNELS,
    OVNController,
    OVSNode,
    OVSNodeConditionType,
)
from hypercobalt.api.ovsnode_reasons import OVSReadyReason

_NAMED: Final = 5
"""Hosts of one finding that its message names; `hosts` has all."""

_SOURCES: Final = (
    OVSNodeConditionType.OVSDB_CONNECTED,
    OVSNodeConditionType.VSWITCHD_RESPONDING,
)
"""Conditions that an OVSNode needs to have all values that are compared."""


class FleetCode(StrEnum):
    """Kinds of contradictions between switches; docs/operations.md has a line for each."""

    AGENT_SILENT = "AgentSilent"
    NOT_REPORTED = "NotReported"
    SWITCH_NOT_READ = "SwitchNotRead"
    ENCAP_ADDRESS_TAKEN = "EncapAddressTaken"
    CHASSIS_TAKEN = "ChassisTaken"
    ENCAP_ADDRESS_MISSING = "EncapAddressMissing"
    ENCAP_ADDRESS_INVALID = "EncapAddressInvalid"
    ENCAP_FAMILY_DIFFERS = "EncapFamilyDiffers"
    TUNNEL_DOWN = "TunnelDown"
    TUNNEL_ONE_SIDED = "TunnelOneSided"
    TUNNELS_MISSING = "TunnelsMissing"
    ENCAP_TYPE_DIFFERS = "EncapTypeDiffers"
    SOUTHBOUND_DIFFERS = "SouthboundDiffers"
    OVN_DISCONNECTED = "OVNDisconnected"
    VERSION_SKEW = "VersionSkew"
    MAPPING_DIFFERS = "MappingDiffers"
    MAPPING_MISSING = "MappingMissing"


Code = FleetCode


@dataclass(frozen=True, slots=True)
class FleetFinding:
    """A contradiction between the switches of several hosts, or a value known of none.

    Args:
        code: what kind.
        hosts: those that it is about, both ends of a tunnel among them.
        message: for a person.
    """

    code: FleetCode
    hosts: tuple[str, ...]
    message: str


def check(switches: Iterable[OVSNode]) -> tuple[FleetFinding, ...]:
    """Compare the OVSNodes of a fleet; one finding for each thing, in a fixed order."""
    every = sorted(switches, key=lambda one: one.metadata.name)
    proven = [(one, _unproven(one)) for one in every]
    known = [one for one, finding in proven if finding is None]
    return (
        *(finding for _, finding in proven if finding is not None),
        *_not_read(known),
        *_without_ovn(known),
        *_twice(Code.ENCAP_ADDRESS_TAKEN, "the encap address", known, _addresses),
        *_twice(Code.CHASSIS_TAKEN, "the chassis", known, _chassis),
        *_encapsulation(known),
        *_tunnels_down(known),
        *_tunnels_missing(known),
        *_odd(Code.ENCAP_TYPE_DIFFERS, "the encapsulation", known, _types),
        *_odd(Code.SOUTHBOUND_DIFFERS, "the southbound database", known, _southbound),
        *_odd(Code.VERSION_SKEW, "Open vSwitch", known, lambda one: one.status.ovsVersion or ""),
        *_mappings(known),
    )


def _unproven(switch: OVSNode) -> FleetFinding | None:
    """Return why an OVSNode is not compared; None when it is."""
    name = _name(switch)
    if not switch.status.conditions:
        text = f"{name} is not checked: its OVS agent has not reported yet"
        return FleetFinding(Code.NOT_REPORTED, (name,), text)
    ready = get_condition(switch.status.conditions, OVSNodeConditionType.READY)
    if ready is not None and ready.reason == OVSReadyReason.AGENT_SILENT:
        return FleetFinding(Code.AGENT_SILENT, (name,), f"{name} is not checked: {ready.message}")
    return None


def _not_read(switches: Iterable[OVSNode]) -> Iterator[FleetFinding]:
    """Switches of which their agents cannot read everything that is compared."""
    for one in switches:
        states = (get_condition(one.status.conditions, type_) for type_ in _SOURCES)
        away = [found for found in states if found and found.status != ConditionStatus.TRUE]
        if away:
            why = ", ".join(f"{found.type} {found.status}/{found.reason}" for found in away)
            text = f"{_name(one)} is compared in part: its agent cannot read the switch ({why})"
            yield FleetFinding(Code.SWITCH_NOT_READ, (_name(one),), text)


def _without_ovn(switches: Iterable[OVSNode]) -> Iterator[FleetFinding]:
    """Hosts without a working ovn-controller; one finding for each cause, as all may share it."""
    causes: dict[str, list[str]] = defaultdict(list)
    for one in switches:
        found = get_condition(one.status.conditions, OVSNodeConditionType.OVN_CONTROLLER_CONNECTED)
        if found is not None and found.status == ConditionStatus.FALSE:
            causes[found.reason].append(_name(one))
    for reason, hosts in sorted(causes.items()):
        text = f"no port can be bound on {_listed(hosts)}: OVNControllerConnected is False/{reason}"
        yield FleetFinding(Code.OVN_DISCONNECTED, tuple(hosts), text)


def _twice(
    code: FleetCode,
    what: str,
    switches: Iterable[OVSNode],
    values: Callable[[OVSNode], Sequence[str]],
) -> Iterator[FleetFinding]:
    """Return findings about a value that should belong to one host alone."""
    found: dict[str, list[str]] = defaultdict(list)
    for one in switches:
        for value in dict.fromkeys(values(one)):
            found[value].append(_name(one))
    for value, hosts in sorted(found.items()):
        if len(hosts) > 1:
            text = f"{_listed(hosts)} have {what} {value}; each host needs its own"
            yield FleetFinding(code, tuple(hosts), text)


def _encapsulation(switches: Sequence[OVSNode]) -> Iterator[FleetFinding]:
    """Hosts that no tunnel can lead to, and addresses of another family than those of most."""
    families: dict[str, str] = {}
    for one in switches:
        if _chassis(one) and not _addresses(one):
            text = f"{_name(one)} is a chassis of OVN without an encap address (ovn-encap-ip)"
            yield FleetFinding(Code.ENCAP_ADDRESS_MISSING, (_name(one),), text)
        invalid: list[str] = []
        for address in _addresses(one):
            try:
                families[_name(one)] = f"IPv{ip_address(address).version}"
            except ValueError:
                invalid.append(address)
        if invalid:
            more = f" (and {len(invalid) - 1} more)" if invalid[1:] else ""
            text = f"{_name(one)} has {invalid[0]!r} as encap address, which is not an IP address"
            yield FleetFinding(Code.ENCAP_ADDRESS_INVALID, (_name(one),), f"{text}{more}")
    yield from _odd(
        Code.ENCAP_FAMILY_DIFFERS,
        "the encap address family",
        switches,
        lambda one: families.get(_name(one), ""),
    )


def _tunnels_down(switches: Sequence[OVSNode]) -> Iterator[FleetFinding]:
    """Tunnels that an end reports as down, each once."""
    owner = {address: _name(one) for one in switches for address in _addresses(one)}
    down = {(_name(one), address) for one in switches for address in _broken(one)}
    ends = {(host, owner[address]) for host, address in down if address in owner}
    full = {_name(one) for one in switches if len(_broken(one)) >= MOST_BROKEN_TUNNELS}
    for here, address in sorted(down):
        there = owner.get(address)
        if there is None:
            text = f"{here} reports the tunnel to {address} down; no OVSNode has that address"
            yield FleetFinding(Code.TUNNEL_DOWN, (here,), text)
        elif (there, here) not in ends and there in full:
            text = (
                f"{here} reports the tunnel to {there} ({address}) down; {there} reports more than "
                "its OVSNode names"
            )
            yield FleetFinding(Code.TUNNEL_DOWN, (here, there), text)
        elif (there, here) not in ends:
            text = f"{here} reports the tunnel to {there} ({address}) down, {there} does not"
            yield FleetFinding(Code.TUNNEL_ONE_SIDED, (here, there), text)
        elif here < there:
            text = f"the tunnel between {here} and {there} ({address}) is down on both sides"
            yield FleetFinding(Code.TUNNEL_DOWN, (here, there), text)


def _tunnels_missing(switches: Sequence[OVSNode]) -> Iterator[FleetFinding]:
    """Hosts with fewer tunnels than another of the same database has."""
    groups: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for one in switches:
        tunnels = _controller(one).tunnels
        if tunnels is not None:
            groups[_southbound(one)].append((tunnels.count, _name(one)))
    for group in groups.values():
        most, fullest = max(group)
        for count, host in group:
            if count < most:
                text = f"{host} has fewer tunnels ({count}) than {fullest} ({most})"
                yield FleetFinding(Code.TUNNELS_MISSING, (host, fullest), text)


def _odd(
    code: FleetCode, what: str, switches: Sequence[OVSNode], value: Callable[[OVSNode], str]
) -> Iterator[FleetFinding]:
    """Values that are not those of most hosts; one finding for each, "" counts for nothing."""
    hosts: dict[str, list[str]] = defaultdict(list)
    for one in switches:
        if found := value(one):
            hosts[found].append(_name(one))
    if not hosts:
        return
    usual = _most(Counter({one: len(names) for one, names in hosts.items()}))
    for odd, names in sorted(hosts.items()):
        if odd != usual:
            text = f"{what} of {_listed(names)} is {odd}, of {_listed(hosts[usual])} {usual}"
            yield FleetFinding(code, (*names, hosts[usual][0]), text)


def _mappings(switches: Sequence[OVSNode]) -> Iterator[FleetFinding]:
    """Physical networks that lead to another bridge than elsewhere, or that few hosts lack."""
    chassis = [one for one in switches if _chassis(one)]
    networks = {each.network for one in chassis for each in _controller(one).bridgeMappings}
    for network in sorted(networks):

        def bridge(one: OVSNode, network: str = network) -> str:
            mappings = _controller(one).bridgeMappings
            return next((each.bridge for each in mappings if each.network == network), "")

        yield from _odd(Code.MAPPING_DIFFERS, f"the bridge for {network}", chassis, bridge)
        having = [_name(one) for one in chassis if bridge(one)]
        lacking = [_name(one) for one in chassis if not bridge(one)]
        if 0 < len(lacking) < len(having):
            text = (
                f"no bridge is mapped to {network} on {_listed(lacking)}, "
                f"one is on {_listed(having)}"
            )
            yield FleetFinding(Code.MAPPING_MISSING, (*lacking, having[0]), text)


def _controller(switch: OVSNode) -> OVNController:
    return switch.status.ovnController or OVNController()


def _addresses(switch: OVSNode) -> tuple[str, ...]:
    return _split(_controller(switch).encapIP)


def _types(switch: OVSNode) -> str:
    return ",".join(sorted(_split(_controller(switch).encapType)))


def _southbound(switch: OVSNode) -> str:
    return ",".join(sorted(_split(_controller(switch).sbConnection)))


def _chassis(switch: OVSNode) -> tuple[str, ...]:
    return _split(_controller(switch).chassisId)


def _broken(switch: OVSNode) -> tuple[str, ...]:
    tunnels = _controller(switch).tunnels
    return tunnels.broken if tunnels is not None else ()


def _split(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _name(switch: OVSNode) -> str:
    return switch.metadata.name


def _most(counts: Counter[str]) -> str:
    """The value that most hosts have; of several the last by name, as of versions the newer."""
    return max(counts, key=lambda value: (counts[value], value))


def _listed(hosts: Sequence[str]) -> str:
    more = f" and {len(hosts) - _NAMED} more" if len(hosts) > _NAMED else ""
    return ", ".join(hosts[:_NAMED]) + more
