"""Completes the packet of a trace, so that a person gives no more than where it goes.

What is missing is taken from the logical ports: the source's own addresses, those of the target,
and the router's MAC address for a target elsewhere. What was given always stays. Pure.

Source: ovn-sb(5), `mac` of Port_Binding; ovs-vswitchd.conf.db(5), `attached-mac`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface
from typing import Final

from hypercobalt.adapters.ovn.logical import LogicalPort
from hypercobalt.agent.diagnostics.use import RefusedUseError

BROADCAST: Final = "ff:ff:ff:ff:ff:ff"
Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class Ends:
    """What is known of both ends of a trace.

    Args:
        source: the logical port that the packet comes from; None if it has none, or it is unknown.
        source_mac: of the device, as Nova wrote it; "" if unknown.
        target: the logical port that it is to reach; None without one.
        gateways: routers' ports on the source's switch.
        unknown: why logical ports are not known; "" if they are.
    """

    source: LogicalPort | None = None
    source_mac: str = ""
    target: LogicalPort | None = None
    gateways: tuple[LogicalPort, ...] = ()
    unknown: str = ""


def completed(given: Mapping[str, str], ends: Ends) -> dict[str, str]:
    """The fields with what is missing.

    Args:
        given: fields that the person gave.
        ends: of the trace.

    Raises:
        RefusedUseError: it is open where the packet goes.
    """
    fields = dict(given)
    target_macs, target_ips = _addresses(ends.target)
    source_macs, source_ips = _addresses(ends.source)
    if "proto" not in fields and (ends.target or "ip_dst" in fields) and _may_be_icmp(fields):
        fields["proto"] = "icmp"
    is_arp = fields.get("proto") == "arp" or any(one.startswith("arp_") for one in fields)
    is_ip = not is_arp and fields.get("proto", "eth") != "eth"
    version = _version(fields, target_ips, source_ips)
    _default(fields, "eth_src", ends.source_mac or next(iter(source_macs), ""))
    names = ("arp_spa", "arp_tpa") if is_arp else ("ip_src", "ip_dst")
    if is_arp or is_ip:
        _default(fields, names[0], _of_version(source_ips, version))
        _default(fields, names[1], _of_version(target_ips, version))
    if is_arp:
        _default(fields, "arp_sha", fields.get("eth_src", ""))
        _default(fields, "eth_dst", BROADCAST)
    if "eth_dst" not in fields:
        fields["eth_dst"] = _next_hop(fields, ends, target_macs)
    return fields


def _may_be_icmp(fields: Mapping[str, str]) -> bool:
    others = ("arp_", "icmp_", "src_port", "dst_port")
    return not any(name.startswith(others) for name in fields)


def _next_hop(fields: Mapping[str, str], ends: Ends, target_macs: list[str]) -> str:
    """The MAC address that the instance would send to."""
    if ends.target and ends.source and ends.target.datapath == ends.source.datapath and target_macs:
        return target_macs[0]
    destination = _address(fields.get("ip_dst", ""))
    if ends.target is None and destination is None:
        raise RefusedUseError("the destination is missing: give to, ip_dst or eth_dst")
    if ends.unknown:
        raise RefusedUseError(f"eth_dst is missing and cannot be looked up: {ends.unknown}")
    if ends.source is None:
        raise RefusedUseError(
            "eth_dst is missing: the port that the packet comes from has no logical port, so its "
            "network is unknown"
        )
    if destination is not None and destination.is_multicast:
        raise RefusedUseError(f"eth_dst is missing: {destination} is a multicast address")
    if ends.target is None and destination and _is_near(destination, ends.gateways):
        raise RefusedUseError(
            f"eth_dst is missing: {destination} is on the network that the packet comes from; "
            "give its MAC address, or its port with to"
        )
    macs = sorted({mac for one in ends.gateways for mac in _addresses(one)[0]})
    if len(macs) == 1:
        return macs[0]
    if not macs:
        raise RefusedUseError("eth_dst is missing, and the network has no router; give eth_dst")
    routers = ", ".join(f"{one.name} {' '.join(_addresses(one)[0])}" for one in ends.gateways)
    raise RefusedUseError(f"eth_dst is missing, and there are several routers: {routers}")


def _is_near(destination: Address, gateways: Iterable[LogicalPort]) -> bool:
    """Whether an address is on a network that a router's port is on."""
    for gateway in gateways:
        for address in _words(gateway):
            with suppress(ValueError):  # its MAC address
                if destination in ip_interface(address).network:
                    return True
    return False


def _addresses(port: LogicalPort | None) -> tuple[list[str], list[Address]]:
    """MAC addresses and IP addresses of a logical port, in order."""
    macs: list[str] = []
    ips: list[Address] = []
    for word in _words(port):
        if word.count(":") == 5 and "/" not in word and len(word) == len(BROADCAST):  # noqa: PLR2004
            macs.append(word)
        elif (found := _address(word.partition("/")[0])) is not None:
            ips.append(found)
    return macs, ips


def _words(port: LogicalPort | None) -> list[str]:
    return [word for entry in (port.addresses if port else ()) for word in entry.split()]


def _address(text: str) -> Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _version(fields: Mapping[str, str], target: list[Address], source: list[Address]) -> int:
    """Return the version of IP: of a given address, else one that both ends have."""
    for name in ("ip_dst", "ip_src"):
        if (found := _address(fields.get(name, ""))) is not None:
            return found.version
    versions = [one.version for one in target or source]
    both = [one for one in versions if any(other.version == one for other in source)]
    return (both or versions or [4])[0]


def _of_version(found: list[Address], version: int) -> str:
    return next((str(one) for one in found if one.version == version), "")


def _default(fields: dict[str, str], name: str, value: str) -> None:
    if value and name not in fields:
        fields[name] = value
