"""What the launcher of a VMI is given for its NIC."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path

import msgspec
import pytest

from hypercobalt.adapters.network.bridging import PodIdentity
from hypercobalt.adapters.network.fake import FakeGuestNics
from hypercobalt.adapters.network.model import NetworkError
from hypercobalt.adapters.network.port import ForwardedPort, GuestBinding, PortProtocol
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.virt.handler.kernel_taps import KernelTaps
from hypercobalt.virt.handler.resolver import Resolver, parse_resolver, pod_resolver
from hypercobalt.virt.launcher.dhcp import lease_of
from hypercobalt.vmi.unfit import UnfitVMIError

MAC = "0a:00:00:00:00:05"
POD = PodIdentity(IPv4Interface("10.1.1.5/24"), MAC, 1400, IPv4Address("10.1.1.1"))
INTERFACE = "spec.domain.devices.interfaces[0]"


def vmi(*nics: Mapping[str, object], **spec: object) -> VirtualMachineInstance:
    whole = {
        "metadata": {"name": "db.example", "namespace": "a", "uid": "7f9c"},
        "spec": {
            "domain": {"devices": {"interfaces": nics}},
            "networks": [{"name": nic["name"], "pod": {}} for nic in nics],
            **spec,
        },
    }
    return msgspec.convert(whole, VirtualMachineInstance)


class Node:
    """A node with one pod, whose root is a directory."""

    def __init__(self, proc: Path, resolv: str | None = None) -> None:
        self.nics = FakeGuestNics()
        self.namespace = proc / "ns/net"
        self.nics.pods[self.namespace] = POD
        self.taps = KernelTaps(self.nics, 107)
        etc = proc / "root/etc"
        etc.mkdir(parents=True)
        if resolv is not None:
            (etc / "resolv.conf").write_text(resolv)


async def test_a_masqueraded_guest_gets_the_private_address_and_a_mac_of_its_own(
    tmp_path: Path,
) -> None:
    node = Node(tmp_path, "nameserver 10.96.0.10\nsearch a.svc.cluster.local svc.cluster.local\n")
    nic = {
        "name": "default",
        "masquerade": {},
        "ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}],
    }
    guest = vmi(nic)
    (tap,) = (found := await node.taps.prepare(guest, None, tmp_path)).values()

    assert found.keys() == {"default"}
    assert (tap.device, tap.mtu) == ("tap0", 1400)
    assert tap.dhcp
    assert (tap.dhcp.bridge, tap.dhcp.address, tap.dhcp.server, tap.dhcp.gateway) == (
        *("k6t-eth0", "10.0.2.2/24"),
        *("10.0.2.1", "10.0.2.1"),
    )
    assert (tap.dhcp.dns, tap.dhcp.domain) == (("10.96.0.10",), "a.svc.cluster.local")
    assert tap.dhcp.host_name == "db"
    wanted = node.nics.connected[node.namespace]
    assert (wanted.binding, wanted.owner) == (GuestBinding.MASQUERADE, 107)
    assert wanted.ports == (ForwardedPort(80), ForwardedPort(53, PortProtocol.UDP))
    assert await node.taps.prepare(guest, None, tmp_path) == found
    assert lease_of("default", tap, tap.dhcp).mac == bytes.fromhex(tap.mac.replace(":", ""))


async def test_a_bridged_guest_gets_address_mac_and_routes_of_its_pod(tmp_path: Path) -> None:
    node = Node(tmp_path)
    route = (IPv4Network("10.9.0.0/16"), IPv4Address("10.1.1.9"))
    node.nics.pods[node.namespace] = PodIdentity(POD.address, MAC, 1400, None, (route,))
    (tap,) = (await node.taps.prepare(vmi({"name": "n", "bridge": {}}), None, tmp_path)).values()
    assert tap.mac == MAC
    assert tap.dhcp
    assert (tap.dhcp.address, tap.dhcp.server, tap.dhcp.gateway) == (
        *("10.1.1.5/24", "169.254.75.10"),
        "",
    )
    assert tap.dhcp.routes == (("10.9.0.0/16", "10.1.1.9"),)
    assert (tap.dhcp.dns, tap.dhcp.domain) == ((), "")
    assert lease_of("n", tap, tap.dhcp).routes == (route,)


@pytest.mark.parametrize("binding", ["masquerade", "bridge"])
async def test_a_mac_address_of_the_vmi_is_that_of_the_guest(tmp_path: Path, binding: str) -> None:
    nic = {"name": "n", binding: {}, "macAddress": "DE-AD-00-00-BE-EF"}
    (tap,) = (await Node(tmp_path).taps.prepare(vmi(nic), None, tmp_path)).values()
    assert tap.mac == "de:ad:00:00:be:ef"


async def test_a_vmi_without_nics_needs_no_network(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.nics.error = NetworkError("no")
    assert await node.taps.prepare(vmi(), None, tmp_path) == {}
    with pytest.raises(NetworkError):
        await node.taps.prepare(vmi({"name": "n", "bridge": {}}), None, tmp_path)


@pytest.mark.parametrize(
    ("nics", "field"),
    [
        (({"name": "n"},), INTERFACE),
        (({"name": "n", "bridge": {}, "macAddress": "x"},), f"{INTERFACE}.macAddress"),
        (({"name": "n", "masquerade": {}, "ports": [{"port": 0}]},), f"{INTERFACE}.ports[0].port"),
        (
            ({"name": "n", "masquerade": {}, "ports": [{"port": 1, "protocol": "x; drop"}]},),
            f"{INTERFACE}.ports[0].protocol",
        ),
        (
            ({"name": "n", "bridge": {}}, {"name": "m", "bridge": {}}),
            "spec.domain.devices.interfaces[1].name",
        ),
    ],
)
async def test_a_nic_that_can_never_be_connected_fails_the_vmi(
    tmp_path: Path, nics: tuple[Mapping[str, object], ...], field: str
) -> None:
    with pytest.raises(UnfitVMIError) as caught:
        await Node(tmp_path).taps.prepare(vmi(*nics), None, tmp_path)
    assert caught.value.field == field


async def test_a_nic_on_no_pod_network_fails_the_vmi(tmp_path: Path) -> None:
    other = vmi({"name": "n", "bridge": {}}, networks=[{"name": "m", "pod": {}}])
    with pytest.raises(UnfitVMIError, match="no pod network"):
        await Node(tmp_path).taps.prepare(other, None, tmp_path)


async def test_a_subdomain_stands_before_the_domain_of_the_pod(tmp_path: Path) -> None:
    node = Node(tmp_path, "search a.svc.cluster.local\n")
    guest = vmi({"name": "n", "bridge": {}}, subdomain="db")
    (tap,) = (await node.taps.prepare(guest, None, tmp_path)).values()
    assert tap.dhcp
    assert tap.dhcp.domain == "db.a.svc.cluster.local"


def test_only_addresses_and_domains_are_read_of_a_resolver() -> None:
    servers = "nameserver ::1\nnameserver x\nnameserver 10.0.0.1 y\n"
    text = f"# x\n{servers}search a$b c.d. \noptions ndots:5"
    assert parse_resolver(text) == Resolver(("10.0.0.1",), "c.d")
    many = "".join(f"nameserver 10.0.0.{number}\n" for number in range(9))
    assert len(parse_resolver(many).servers) == 3
    assert parse_resolver("") == Resolver()


def test_no_link_of_a_pod_is_followed(tmp_path: Path) -> None:
    secret = tmp_path / "host"
    secret.mkdir()
    (secret / "resolv.conf").write_text("nameserver 10.0.0.1\n")
    for number, linked in enumerate(("etc", "etc/resolv.conf")):
        root = tmp_path / str(number)
        root.mkdir()
        if linked == "etc":
            (root / "etc").symlink_to(secret)
        else:
            (root / "etc").mkdir()
            (root / linked).symlink_to(secret / "resolv.conf")
        assert pod_resolver(root) == Resolver()
    assert pod_resolver(tmp_path / "absent") == Resolver()
    (tmp_path / "dir/etc/resolv.conf").mkdir(parents=True)
    assert pod_resolver(tmp_path / "dir") == Resolver()
