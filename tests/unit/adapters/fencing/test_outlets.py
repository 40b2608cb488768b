"""Whether two devices are one, by all the ways in which one address is written."""

from __future__ import annotations

import pytest

from hypercobalt.adapters.fencing.devices import Device
from hypercobalt.adapters.fencing.outlets import address, connection, described, is_same


def device(text: str) -> Device:
    """A device, of `agent ip=… plug=…`."""
    agent, *options = text.split()
    return Device("bmc", agent, dict(one.split("=", 1) for one in options))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("fence_redfish ip=192.0.2.1", "fence_redfish ip=192.0.2.2", False),
        ("fence_redfish ip=192.0.2.1", "fence_redfish ip=192.0.2.1", True),
        ("fence_redfish ip=192.0.2.1", "fence_redfish ip=192.0.2.1 ipport=443", True),
        ("fence_redfish ip=192.0.2.1", "fence_redfish ip=192.0.2.1 ipport=0443", True),
        ("fence_redfish ip=192.0.2.1", "fence_redfish ip=192.0.2.1 ssl_insecure=1", True),
        ("fence_redfish ip=192.0.2.1", "fence_ipmilan ip=192.0.2.1 ipport=623", True),
        ("fence_redfish ip=192.0.2.1 ipport=7001", "fence_ipmilan ip=192.0.2.1 ipport=7003", False),
        ("fence_redfish ip=192.0.2.1", "fence_redfish ip=::ffff:192.0.2.1", True),
        ("fence_redfish ip=2001:db8::1", "fence_redfish ip=[2001:DB8:0:0::1]", True),
        ("fence_redfish ip=192.0.2.1", "fence_redfish ip=3221225985", True),
        ("fence_redfish ip=192.0.2.1", "fence_redfish ip=0xC0.0.0x201", True),
        ("fence_redfish ip=BMC.Example.com.", "fence_redfish ip=bmc.example.com", True),
        ("fence_redfish ip=bmc.example.com", "fence_redfish ip=bmc2.example.com", False),
        ("fence_apc ip=pdu plug=4", "fence_apc ip=pdu plug=5", False),
        ("fence_apc ip=pdu plug=4", "fence_apc ip=pdu plug=04", True),
        ("fence_apc ip=pdu plug=kvm-3", "fence_apc ip=pdu plug=0kvm-3", False),
        ("fence_apc ip=pdu plug=4,6", "fence_apc ip=pdu plug=5,6", True),
        ("fence_apc ip=pdu plug=4", "fence_apc_snmp ip=pdu plug=4", True),
        ("fence_apc ip=pdu plug=4", "fence_apc ip=pdu", True),
        ("fence_apc ip=pdu plug=4 switch=1", "fence_apc ip=pdu plug=4 switch=2", False),
        ("fence_apc ip=pdu plug=Outlet-A", "fence_apc ip=pdu plug=outlet-a", True),
        (
            "fence_redfish ip=c systems_uri=/redfish/v1/Systems/1",
            "fence_redfish ip=c systems_uri=/redfish/v1/Systems/1/",
            True,
        ),
        (
            "fence_redfish ip=c systems_uri=/redfish/v1/Systems/1",
            "fence_redfish ip=c systems_uri=/redfish/v1/Systems/2",
            False,
        ),
        ("fence_redfish ip=c systems_uri=/redfish/v1/Systems/1", "fence_redfish ip=c", True),
        ("fence_aws plug=i-1", "fence_aws plug=i-1", True),
        ("fence_aws plug=i-1", "fence_aws plug=i-2", False),
        ("fence_aws plug=i-1", "fence_gce plug=i-1", False),
        ("fence_apc ip=pdu plug=4", "fence_apc plug=4", False),
    ],
)
def test_devices_with_one_outlet_are_one(one: str, other: str, same: bool) -> None:
    assert is_same(device(one), device(other)) is same
    assert is_same(device(other), device(one)) is same


@pytest.mark.parametrize("text", ["bmc", "1.2.3.4.5", "99999999999", "0x", "1.2.3.999"])
def test_what_is_no_address_is_a_name(text: str) -> None:
    assert address(text) == text


def test_device_is_described_in_one_form() -> None:
    assert connection(device("fence_aws plug=i-1")) == "fence_aws"
    assert connection(device("fence_apc ip=PDU ipport=23 plug=4")) == "pdu 23"
    one = device("fence_apc ip=PDU. ipport=23 plug=04")
    assert described(one) == "bmc pdu 23 plug 4"
    assert described(device("fence_redfish ip=::ffff:192.0.2.1 ipport=443")) == "bmc 192.0.2.1"
