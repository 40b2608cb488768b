"""Networks have one source and an interface each; interfaces a binding that suits their network."""

from __future__ import annotations

import pytest

from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.defaults import networks as defaults
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import Json, JsonObject
from hypercobalt.vmi.rules import networks

NIC = "spec.domain.devices.interfaces"
POD: JsonObject = {"pod": {}}
MULTUS: JsonObject = {"multus": {"networkName": "n"}}
DEFAULT: JsonObject = {"multus": {"networkName": "n", "default": True}}
CLAIM: JsonObject = {"resourceClaim": {"claimName": "c"}}
PLAIN = ClusterConfig()
NO_BRIDGE = ClusterConfig(bridge_on_pod_network=False)
GATED = ClusterConfig(feature_gates=frozenset({"NetworkDevicesWithDRA", "PortRangesSpec"}))


def spec(nics: list[JsonObject], nets: list[JsonObject]) -> At:
    """Interfaces and networks, named a, b, … in pairs unless they have names."""
    interfaces: list[Json] = [{"name": chr(97 + at), **one} for at, one in enumerate(nics)]
    listed: list[Json] = [{"name": chr(97 + at), **one} for at, one in enumerate(nets)]
    devices: JsonObject = {"interfaces": interfaces}
    return At({"domain": {"devices": devices}, "networks": listed}, "spec")


def of_networks(*nets: JsonObject, cluster: ClusterConfig = PLAIN) -> list[str]:
    found = spec([{} for _ in nets], list(nets))
    return [cause.field.removeprefix("spec.") for cause in networks.networks(found, cluster)]


def of_nic(
    nic: JsonObject, network: JsonObject | None = POD, cluster: ClusterConfig = PLAIN
) -> list[str]:
    found = spec([nic], [] if network is None else [network])
    causes = networks.interfaces(found, cluster)
    return [cause.field.removeprefix(f"{NIC}[0]") for cause in causes]


@pytest.mark.parametrize(
    ("nets", "named"),
    [
        ((POD,), []),
        ((POD, MULTUS), []),
        ((POD, POD), ["interfaces"]),
        ((DEFAULT, MULTUS), []),
        ((DEFAULT, DEFAULT), ["networks"]),
        ((DEFAULT, POD), ["networks"]),
        ((CLAIM, MULTUS), ["networks"]),
        (({},), ["networks[0]"]),
        (({**POD, **MULTUS},), ["networks[0]"]),
        (({"multus": {}},), ["networks[0]"]),
        ((MULTUS, {**MULTUS, "name": "a"}), ["networks[1].name"]),
        (({**POD, "name": "z"},), ["networks[0].name"]),
    ],
)
def test_network_has_one_source_and_an_interface(
    nets: tuple[JsonObject, ...], named: list[str]
) -> None:
    assert of_networks(*nets) == named


def test_claims_are_allowed_by_their_gate() -> None:
    assert of_networks(CLAIM, cluster=GATED) == []


@pytest.mark.parametrize(
    ("nic", "network", "named"),
    [
        ({"masquerade": {}}, POD, []),
        ({"bridge": {}}, POD, []),
        ({"bridge": {}}, MULTUS, []),
        ({"bridge": {}}, None, [".name"]),
        ({"masquerade": {}}, None, [".name"]),
        ({"masquerade": {}}, MULTUS, [".name"]),
        ({"passtBinding": {}}, POD, []),
        ({"passtBinding": {}}, MULTUS, [".name"]),
        ({"passtBinding": {}}, None, [".name"]),
        ({}, POD, [""]),
        ({"bridge": {}, "masquerade": {}}, POD, [""]),
        ({"slirp": {}}, POD, [".slirp", ""]),
        ({"masquerade": {}, "macAddress": "02:00:00:00:00:00"}, POD, [".macAddress"]),
        ({"bridge": {}, "macAddress": "02:00:00:00:00:00"}, POD, []),
        ({"bridge": {}, "macAddress": "02-00-00-00-00-01"}, POD, []),
        ({"bridge": {}, "macAddress": "0200.0000.0001"}, POD, []),
        ({"bridge": {}, "macAddress": "02:00:00:00:00"}, POD, [".macAddress"]),
        ({"bridge": {}, "pciAddress": "0000:81:11.1"}, POD, []),
        ({"bridge": {}, "pciAddress": "81:11.1"}, POD, [".pciAddress"]),
        ({"bridge": {}, "model": "e1000"}, POD, []),
        ({"bridge": {}, "model": "tulip"}, POD, [".model"]),
        ({"bridge": {}, "portRanges": [{"start": 1}]}, POD, [".name"]),
        ({"bridge": {}, "state": "up"}, POD, []),
        ({"bridge": {}, "state": "gone"}, POD, [".state"]),
        ({"bridge": {}, "state": "absent"}, MULTUS, []),
        ({"bridge": {}, "state": "absent"}, POD, [".state"]),
        ({"bridge": {}, "state": "absent"}, DEFAULT, [".state"]),
        ({"binding": {"name": "x"}, "state": "absent"}, MULTUS, [".state"]),
        ({"sriov": {}, "state": "down"}, MULTUS, [".state"]),
        ({"sriov": {}}, MULTUS, []),
        ({"bridge": {}, "state": "absent"}, None, [".name"]),
    ],
)
def test_interface_has_one_binding_that_suits_its_network(
    nic: JsonObject, network: JsonObject | None, named: list[str]
) -> None:
    assert of_nic(nic, network) == named


def test_settings_of_the_cluster_allow_and_forbid() -> None:
    ranges: JsonObject = {"bridge": {}, "portRanges": [{"start": 1}]}
    assert of_nic(ranges, cluster=GATED) == []
    assert of_nic({"bridge": {}}, cluster=NO_BRIDGE) == [".name"]
    assert of_nic({"bridge": {}}, MULTUS, NO_BRIDGE) == []
    assert of_nic({"masquerade": {}}, cluster=NO_BRIDGE) == []


def test_names_of_interfaces_are_their_own_and_of_few_letters() -> None:
    twice = spec([{"bridge": {}}, {"bridge": {}, "name": "a"}], [POD])
    causes = networks.interfaces(twice, PLAIN)
    assert [cause.field for cause in causes] == [f"{NIC}[1].name"]
    for name, fits in (("A-b_9", True), ("a.b", False)):
        nic: JsonObject = {"bridge": {}, "name": name}
        assert of_nic(nic, {**POD, "name": name}) == ([] if fits else [".name"])


@pytest.mark.parametrize(
    ("port", "named"),
    [
        ({"port": 1}, []),
        ({"port": 65535, "protocol": "UDP", "name": "x" * 15}, []),
        ({"port": 65536}, [".port"]),
        ({"port": -1}, [".port"]),
        ({"port": 0}, [".port"]),
        ({}, [".port"]),
        ({"port": 80, "protocol": "SCTP"}, [".protocol"]),
        ({"port": 80, "name": "http"}, []),
        ({"port": 80, "name": "x" * 16}, [".name"]),
        ({"port": 80, "name": "80"}, [".name"]),
        ({"port": 80, "name": "a--b"}, [".name"]),
    ],
)
def test_ports_have_numbers_protocols_and_names(port: JsonObject, named: list[str]) -> None:
    nic: JsonObject = {"masquerade": {}, "ports": [port]}
    assert of_nic(nic) == [f".ports[0]{name}" for name in named]
    assert of_nic({"bridge": {}, "ports": [port]}, MULTUS) == []  # they mean the pod's


def test_names_of_ports_are_their_own() -> None:
    ports: list[Json] = [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}, {"port": 82}]
    assert of_nic({"masquerade": {}, "ports": ports}) == [".ports[1].name"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"privateOptions": [{"option": 224}, {"option": 254}]}, []),
        ({"privateOptions": [{"option": 223}]}, ["spec"]),
        ({"privateOptions": [{"option": 255}]}, ["spec"]),
        ({"privateOptions": [{"option": 240}, {"option": 240}]}, ["spec"]),
        ({"ntpServers": ["10.0.0.1", "::ffff:10.0.0.1", "::ffff:a00:1"]}, []),
        ({"ntpServers": ["::ffff:10.0.0.1%eth0"]}, [".dhcpOptions.ntpServers[0]"]),
        ({"ntpServers": ["time.lab"]}, [".dhcpOptions.ntpServers[0]"]),
        ({"ntpServers": ["10.0.0.1", "fd00::1"]}, [".dhcpOptions.ntpServers[1]"]),
    ],
)
def test_options_of_dhcp(options: JsonObject, named: list[str]) -> None:
    assert of_nic({"bridge": {}, "dhcpOptions": options}) == named


FRONT: list[Json] = [{"name": "front", "pod": {}}]
ON_POD: list[Json] = [{"name": "default", "pod": {}}]
BRIDGED: list[Json] = [{"name": "default", "bridge": {}}]
MASQUERADED: list[Json] = [{"name": "default", "masquerade": {}}]


@pytest.mark.parametrize(
    ("devices", "nets", "nics_after", "nets_after"),
    [
        ({}, None, BRIDGED, ON_POD),
        ({"interfaces": []}, [], BRIDGED, ON_POD),
        ({"autoattachPodInterface": True}, None, BRIDGED, ON_POD),
        ({"autoattachPodInterface": False}, None, None, None),
        ({}, FRONT, None, FRONT),
        ({"interfaces": MASQUERADED}, None, MASQUERADED, None),
    ],
)
def test_guest_that_names_no_network_gets_an_interface_on_that_of_its_pod(
    devices: JsonObject, nets: Json, nics_after: Json, nets_after: Json
) -> None:
    given: JsonObject = {"domain": {"devices": dict(devices)}, "networks": nets}
    defaults.apply(given, PLAIN)
    assert At(given)["domain.devices.interfaces"].value == nics_after
    assert given["networks"] == nets_after


def test_binding_of_the_interface_that_is_added_is_that_of_the_cluster() -> None:
    given: JsonObject = {}
    defaults.apply(given, ClusterConfig(binding="masquerade"))
    assert At(given)["domain.devices.interfaces"].value == MASQUERADED
