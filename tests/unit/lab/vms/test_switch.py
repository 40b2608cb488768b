from __future__ import annotations

import ipaddress

import pytest

from hypercobalt.lab.errors import LabError
from hypercobalt.lab.vms.switch import Address, free_address


def test_an_address_is_written_in_each_readers_form() -> None:
    address = Address(ipaddress.IPv4Address("10.78.0.10"))
    assert address.mac == "52:54:0a:4e:00:0a"
    assert address.ovn == "52:54:0a:4e:00:0a 10.78.0.10"
    assert address.with_prefix == "10.78.0.10/24"


def test_the_lowest_free_address_is_taken() -> None:
    first = free_address([])
    second = free_address([first.ovn, "unknown", ""])
    assert (str(first.ip), str(second.ip)) == ("10.78.0.10", "10.78.0.11")
    assert free_address([second.ovn]) == first


def test_a_full_network_is_an_error() -> None:
    taken = [Address(ipaddress.IPv4Address(f"10.78.0.{n}")).ovn for n in range(256)]
    with pytest.raises(LabError, match="remove a VM"):
        free_address(taken)
