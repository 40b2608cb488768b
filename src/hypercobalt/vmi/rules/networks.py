"""Rules about networks and interfaces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Address, ip_address
from typing import Final

from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import FieldCause
from hypercobalt.vmi.rules.causes import duplicate, invalid, required, unsupported

PCI_ADDRESS: Final = re.compile(r"[\da-fA-F]{4}:[\da-fA-F]{2}:[\da-fA-F]{2}\.[0-7]", re.ASCII)

_BINDINGS: Final = ("bridge", "masquerade", "sriov", "passtBinding", "binding")
_GONE: Final = ("slirp", "macvtap", "passt")
_MODELS: Final = frozenset({"", "e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139", "virtio"})
_STATES: Final = frozenset({"", "up", "down", "absent"})
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_MAC: Final = re.compile(
    r"[\da-fA-F]{2}(?:(?::[\da-fA-F]{2}){5}|(?:-[\da-fA-F]{2}){5})"
    r"|[\da-fA-F]{4}(?:\.[\da-fA-F]{4}){2}",
    re.ASCII,
)
_BRIDGE_MAC: Final = "02:00:00:00:00:00"
_PORT_NAME: Final = re.compile(r"(?=.*[a-z])(?!.*--)[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_LONGEST_PORT_NAME: Final = 15
_MOST_PORTS: Final = 65535
_PROTOCOLS: Final = frozenset({"", "TCP", "UDP"})
_FIRST_PRIVATE: Final = 224
_LAST_PRIVATE: Final = 254


def networks(spec: At, cluster: ClusterConfig) -> Iterator[FieldCause]:
    """Whether each network has one source and an interface."""
    found = list(spec["networks"])
    pods = [one for one in found if one["pod"]]
    defaults = [one for one in found if one["multus.default"].flag]
    if len(pods) > 1:
        yield duplicate("spec.interfaces", "must have at most one on the pod network")
    if len(defaults) > 1 or (defaults and pods):
        yield invalid(spec["networks"], "must have one default at most")
    nameless = next((one for one in found if one["multus"] and not _is_named(one)), None)
    if nameless is not None:  # KubeVirt looks no further
        yield required(nameless, "must have a networkName")
    if any(one["resourceClaim"] for one in found) and (
        "NetworkDevicesWithDRA" not in cluster.feature_gates
    ):
        yield invalid(spec["networks"], "needs a feature gate that is off")
    used = {one["name"].text for one in spec["domain.devices.interfaces"]}
    seen = set[str]()
    for one in found:
        if len(one.holds("pod", "multus", "resourceClaim")) != 1:
            yield required(one, "must have one source")
        name = one["name"].text
        if name in seen:
            yield duplicate(one["name"], "is the name of another network")
        if name not in used:
            yield required(one["name"], "must be the name of an interface")
        seen.add(name)


def _is_named(network: At) -> bool:
    return bool(network["multus.networkName"].text)


def interfaces(spec: At, cluster: ClusterConfig) -> Iterator[FieldCause]:
    """Whether each interface has a network, a binding that suits it, and sound settings."""
    known = {one["name"].text: one for one in spec["networks"]}
    main = next((one["name"].text for one in spec["networks"] if _is_main(one)), None)
    found = list(spec["domain.devices.interfaces"])
    seen = set[str]()
    for one in found:
        name = one["name"]
        network = known.get(name.text)
        if name.text in seen:
            yield duplicate(name, "is the name of another interface")
        seen.add(name.text)
        if network is None:
            yield invalid(name, "must be the name of a network")
        if not _NAME.fullmatch(name.text):
            yield invalid(name, "must have letters, digits, - and _ only")
        yield from _binding(one, network, cluster)
        yield from _state(one, is_main=name.text == main)
        yield from _settings(one)
        if network is not None and network["pod"]:
            yield from _ports(one)
        if one["portRanges"].items and "PortRangesSpec" not in cluster.feature_gates:
            yield invalid(name, "must have no portRanges without their feature gate")
        yield from _dhcp(one)


def _binding(one: At, network: At | None, cluster: ClusterConfig) -> Iterator[FieldCause]:
    for name in one.holds(*_GONE):
        yield invalid(one[name], "is no longer supported")
    bindings = one.holds(*_BINDINGS)
    if len(bindings) != 1:
        yield invalid(one, "must have one binding")
    on_pod = network is not None and bool(network["pod"])
    if one["masquerade"] and network is not None and not on_pod:
        yield invalid(one["name"], "must be on the pod network for masquerade")
    if one["masquerade"] and one["macAddress"].text == _BRIDGE_MAC:
        yield invalid(one["macAddress"], "is the address of the bridge")
    if one["bridge"] and on_pod and not cluster.bridge_on_pod_network:
        yield invalid(one["name"], "must not be a bridge on the pod network")
    if one["passtBinding"] and network is not None and not on_pod:
        yield invalid(one["name"], "must be on the pod network for passt")


def _is_main(network: At) -> bool:
    """Whether it is the one that a pod cannot be without; the first of several counts."""
    return bool(network["pod"]) or network["multus.default"].flag


def _state(one: At, *, is_main: bool) -> Iterator[FieldCause]:
    state = one["state"]
    if state.text not in _STATES:
        yield invalid(state, "must be up, down or absent")
    elif state.text and one["sriov"]:
        yield invalid(state, "must not be set for sriov")
    elif state.text == "absent" and (is_main or not one["bridge"]):
        yield invalid(state, "must not be absent: only a bridge on a second network can be")


def _settings(one: At) -> Iterator[FieldCause]:
    if one["model"].text not in _MODELS:
        yield unsupported(one["model"], f"must be one of {', '.join(sorted(_MODELS - {''}))}")
    mac, pci = one["macAddress"].text, one["pciAddress"].text
    if mac and not _MAC.fullmatch(mac):
        yield invalid(one["macAddress"], "must be a MAC address of six bytes")
    if pci and not PCI_ADDRESS.fullmatch(pci):
        yield invalid(one["pciAddress"], "must look like 0000:81:11.1")


def _ports(one: At) -> Iterator[FieldCause]:
    seen = set[str]()
    for port in one["ports"]:
        number, name = port["port"].number, port["name"]
        if not number:
            yield required(port["port"], "is required")
        elif not 0 < number <= _MOST_PORTS:
            yield invalid(port["port"], "must be from 1 to 65535")
        if port["protocol"].text not in _PROTOCOLS:
            yield invalid(port["protocol"], "must be TCP or UDP")
        if not name.text:
            continue
        if name.text in seen:
            yield duplicate(name, "is the name of another port")
        if len(name.text) > _LONGEST_PORT_NAME or not _PORT_NAME.fullmatch(name.text):
            yield invalid(name, "must be the name of a port")
        seen.add(name.text)


def _dhcp(one: At) -> Iterator[FieldCause]:
    options = [item["option"].number for item in one["dhcpOptions.privateOptions"]]
    if any(not _FIRST_PRIVATE <= option <= _LAST_PRIVATE for option in options):
        yield invalid("spec", "has a private DHCP option outside 224 to 254")
    if len(set(options)) != len(options):
        yield invalid("spec", "has a private DHCP option twice")
    for server in one["dhcpOptions.ntpServers"]:
        if not _is_ipv4(server.text):
            yield invalid(server, "must be an IPv4 address")


def _is_ipv4(text: str) -> bool:
    """Whether it is an IPv4 address, also one that is written as an IPv6 address."""
    try:
        found = ip_address(text)
    except ValueError:
        return False
    return isinstance(found, IPv4Address) or (found.ipv4_mapped is not None and "%" not in text)
