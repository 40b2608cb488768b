"""Which texts are addresses of hosts."""

from __future__ import annotations

import pytest

from hypercobalt.api.addresses import is_host_address, parse_host_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:DB8:0::1", "2001:db8::1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("fd00::1", "fd00::1"),
    ],
)
def test_address_is_given_in_its_one_form(text: str, address: str) -> None:
    assert str(parse_host_address(text)) == address


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not an IP address"),
        ("kvm-1", "not an IP address"),
        ("10.0.0.1/system?no_verify=1&x=", "not an IP address"),
        ("10.0.0.1:16509", "not an IP address"),
        ("[2001:db8::1]", "not an IP address"),
        (" 10.0.0.1", "not an IP address"),
        ("10.0.0.01", "not an IP address"),
        ("\u0661\u0660.0.0.1", "not an IP address"),
        ("2001:db8::1%/system?no_verify=1", "not an IP address"),
        ("2001:db8::1%x?no_verify=1", "scope"),
        ("fe80::1%eth0", "scope"),
        ("127.0.0.1", "loopback"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("0.0.0.0", "unspecified"),  # noqa: S104 - refused here
        ("::", "unspecified"),
        ("224.0.0.1", "multicast"),
        ("ff02::1", "multicast"),
        ("169.254.169.254", "link-local"),
        ("fe80::1", "link-local"),
        ("255.255.255.255", "reserved"),
    ],
)
def test_text_that_is_no_address_of_a_host_is_refused(text: str, why: str) -> None:
    assert not is_host_address(text)
    with pytest.raises(ValueError, match=why):
        parse_host_address(text)


def test_refused_text_is_not_shown_whole() -> None:
    with pytest.raises(ValueError, match="is not an IP address") as caught:
        parse_host_address("9" * 10_000)

    assert len(str(caught.value)) < 120
