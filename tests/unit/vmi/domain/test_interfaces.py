"""NICs of the guest on the taps of its pod."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element

import pytest
from tests.unit.vmi.domain.reading import CONTEXT, made, one, refused
from tests.unit.vmi.guests import guest, with_nic

from hypercobalt.vmi.domain import DomainContext, Tap

Json = Any


TAP = Tap(device="tap0", mac="02:00:00:00:00:09", mtu=1400)


def nic_of(nic: Json, context: DomainContext = CONTEXT, **devices: Json) -> Element:
    return one(made(with_nic(nic, **devices), context), "devices/interface")


def test_an_interface_is_on_the_tap_of_its_pod() -> None:
    found = nic_of({"macAddress": "02:00:00:00:00:01"}, DomainContext(taps={"default": TAP}))
    assert one(found, "target").attrib == {"dev": "tap0", "managed": "no"}
    assert one(found, "mac").get("address") == "02:00:00:00:00:09"
    assert one(found, "mtu").get("size") == "1400"
    bare_tap = DomainContext(taps={"default": Tap(device="tap0")})
    bare = nic_of({"macAddress": "02:00:00:00:00:01"}, bare_tap)
    assert one(bare, "mac").get("address") == "02:00:00:00:00:01"
    assert bare.find("mtu") is None
    assert nic_of({}).find("target") is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("DE:AD:00:00:00:6A", "DE:AD:00:00:00:6A"),
        ("02-1a-2B-3c-4d-5e", "02:1a:2B:3c:4d:5e"),
        ("021a.2B3c.4d5e", "02:1a:2B:3c:4d:5e"),
    ],
)
def test_a_mac_address_is_written_with_colons(given: str, expected: str) -> None:
    assert one(nic_of({"macAddress": given}), "mac").get("address") == expected


@pytest.mark.parametrize(
    "mac", ["02:00:00:00:00", "02:00:00:00:00:00:00", "02-00:00:00:00:00", "x"]
)
def test_a_mac_address_that_is_none_is_refused(mac: str) -> None:
    with refused("spec.domain.devices.interfaces[0].macAddress: "):
        nic_of({"macAddress": mac})


@pytest.mark.parametrize(
    ("nic", "element_", "attributes"),
    [
        ({"bootOrder": 2}, "boot", {"order": "2"}),
        ({}, "rom", {"enabled": "no"}),
        ({"state": "down"}, "link", {"state": "down"}),
        ({"state": "up"}, "link", None),
        ({"acpiIndex": 1}, "acpi", {"index": "1"}),
        ({"acpiIndex": -1}, "acpi", None),
        ({"bootOrder": 2}, "rom", None),
        ({"model": "e1000"}, "model", {"type": "e1000"}),
        ({"model": "virtio"}, "model", {"type": "virtio-non-transitional"}),
        ({"pciAddress": "0000:07:00.0"}, "address",
         {"type": "pci", "domain": "0x0000", "bus": "0x07", "slot": "0x00", "function": "0x0"}),
        ({}, "driver", None),
    ],
)  # fmt: skip
def test_an_interface_has_what_its_spec_requests(
    nic: Json, element_: str, attributes: Json
) -> None:
    found = nic_of(nic).find(element_)
    assert (None if found is None else found.attrib) == attributes


@pytest.mark.parametrize(
    ("nic", "context", "cores", "expected"),
    [
        ({}, CONTEXT, 4, {"name": "vhost", "queues": "4"}),
        ({}, DomainContext(vhost_net=False), 4, {"queues": "4"}),
        ({}, CONTEXT, 300, {"name": "vhost", "queues": "256"}),
        ({"model": "e1000"}, CONTEXT, 4, None),
    ],
)
def test_virtio_has_a_queue_for_each_vcpu(
    nic: Json, context: DomainContext, cores: int, expected: Json
) -> None:
    nics = [{"name": "default", "bridge": {}} | nic]
    vmi = guest(
        {"networks": [{"name": "default", "pod": {}}]},
        domain={
            "cpu": {"cores": cores},
            "devices": {"interfaces": nics, "networkInterfaceMultiqueue": True},
        },
    )
    found = one(made(vmi, context), "devices/interface").find("driver")
    assert (None if found is None else found.attrib) == expected


@pytest.mark.parametrize(
    ("nic", "networks", "message"),
    [
        ({"masquerade": {}}, [], ".name: 'default' is no pod network"),
        ({"masquerade": {}}, [{"name": "default"}], ".name: 'default' is no pod network"),
        ({}, [{"name": "default", "pod": {}}], ": has neither masquerade nor bridge"),
        ({"bridge": {}, "model": "x"}, [{"name": "default", "pod": {}}], ".model: 'x' is unknown"),
    ],
)
def test_interfaces_that_cannot_be_are_refused(nic: Json, networks: Json, message: str) -> None:
    vmi = guest({"networks": networks}, devices={"interfaces": [{"name": "default"} | nic]})
    with refused(f"spec.domain.devices.interfaces[0]{message}"):
        made(vmi)
