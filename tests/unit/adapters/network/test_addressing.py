"""Names and addresses of pods, and what is refused."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface, IPv4Network

import pytest

from hypercobalt.adapters.network.addressing import (
    PodRange,
    PodRecord,
    check_uid,
    choose_address,
    decode_record,
    host_link,
    local_mac,
)
from hypercobalt.adapters.network.model import (
    NetworkError,
    NetworkValueError,
    check_link_name,
    check_mac,
)
from hypercobalt.errors import ConfigurationError

NETWORK = IPv4Network("10.1.2.0/28")


def test_every_address_but_that_of_network_host_and_broadcast_is_given() -> None:
    taken = set[IPv4Address]()
    for _ in range(13):
        taken.add(choose_address(NETWORK, "one", taken).ip)
    assert taken == {NETWORK[number] for number in range(2, 15)}
    with pytest.raises(NetworkError, match="all 13"):
        choose_address(NETWORK, "one", taken)


def test_an_address_follows_from_the_uid() -> None:
    network = IPv4Network("10.1.0.0/16")
    assert choose_address(network, "a", ()) == choose_address(network, "a", ())
    assert choose_address(network, "a", ()) != choose_address(network, "b", ())
    assert choose_address(network, "a", ()).network == network


def test_names_of_links_are_those_that_the_kernel_takes() -> None:
    names = {host_link(str(number)) for number in range(500)}
    assert len(names) == 500
    for name in names:
        check_link_name(name)


def test_a_given_mac_address_is_local_and_of_one_nic() -> None:
    assert local_mac("a") == local_mac("a") != local_mac("b")
    check_mac(local_mac("a"))
    assert local_mac("a").startswith("06:")


def test_a_record_is_read_as_it_was_written() -> None:
    record = PodRecord("a-1", IPv4Interface("10.1.2.3/28"))
    assert decode_record(record.encode()) == record


@pytest.mark.parametrize(
    "alias", ["", "uplink", "pod=a", "pod=a,address=10.1.2.300/28", "pod=a,address=10.1.2.3/28 "]
)
def test_an_alias_of_others_is_no_record(alias: str) -> None:
    assert decode_record(alias) is None


@pytest.mark.parametrize("uid", ["", "..", "a/b", "a b", "-a", "a" * 64, "a\n"])
def test_what_cannot_be_a_file_name_is_no_uid(uid: str) -> None:
    with pytest.raises(NetworkValueError, match="UID"):
        check_uid(uid)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "-a", "a" * 16, "a.b", 'a"b'])
def test_what_ip_or_nft_would_not_take_is_no_name(name: str) -> None:
    with pytest.raises(NetworkValueError, match="link"):
        check_link_name(name)


@pytest.mark.parametrize("mac", ["", "02:00:00:00:00", "03:00:00:00:00:00", "02:00:00:00:00:0A"])
def test_what_no_nic_can_have_is_no_mac_address(mac: str) -> None:
    with pytest.raises(NetworkValueError, match="MAC"):
        check_mac(mac)


def test_a_range_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="/29 or wider"):
        PodRange(IPv4Network("10.0.0.0/30"))
    for mtu in (575, 65522):
        with pytest.raises(ConfigurationError, match="MTU"):
            PodRange(NETWORK, mtu=mtu)
    with pytest.raises(NetworkValueError):
        PodRange(NETWORK, bridge="a b")


def test_the_host_has_the_first_address() -> None:
    assert PodRange(NETWORK).gateway == IPv4Interface("10.1.2.1/28")
    assert PodRange(NETWORK).mac != PodRange(IPv4Network("10.1.3.0/28")).mac
