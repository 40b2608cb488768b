"""Which libvirt URIs are accepted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.adapters.libvirt.uri import parse
from hypercobalt.errors import ConfigurationError


@pytest.mark.parametrize(
    ("uri", "host"),
    [
        ("qemu:///system", ""),
        ("qemu+unix:///system", ""),
        ("qemu+unix:///system?socket=/run/libvirt/libvirt-sock", ""),
        ("qemu+tcp://192.0.2.7/system", "192.0.2.7"),
        ("qemu+tcp://[2001:db8::7]:16510/system", "2001:db8::7"),
        ("qemu+tls://kvm-1.example.org/system?pkipath=/etc/pki", "kvm-1.example.org"),
        ("qemu+tcp:///system", "localhost"),
        ("ch+tcp://192.0.2.7/system", "192.0.2.7"),
        ("ch+unix:///system", ""),
        ("test:///default", ""),
        ("qemu+unix:///session?socket=/run/user/107/libvirt/libvirt-sock", ""),
    ],
)
def test_daemons_of_hosts_are_accepted(uri: str, host: str) -> None:
    address = parse(uri)

    assert (address.uri, address.host) == (uri, host)


@pytest.mark.parametrize(
    ("uri", "port"),
    [
        ("qemu:///system", None),
        ("qemu+tcp://192.0.2.7/system", 16509),
        ("qemu+tls://192.0.2.7/system", 16514),
        ("ch+tcp://192.0.2.7:1234/system", 1234),
    ],
)
def test_the_port_is_libvirts_own_unless_given(uri: str, port: int | None) -> None:
    assert parse(uri).port == port


@pytest.mark.parametrize(
    ("uri", "sockets", "name"),
    [
        (
            "qemu:///system",
            ("/run/libvirt/virtqemud-sock", "/run/libvirt/libvirt-sock"),
            "qemu:///system",
        ),
        ("qemu+unix:///system?socket=/a/b", ("/a/b",), "qemu:///system"),
        ("test+unix:///default?socket=/a/b", ("/a/b",), "test:///default"),
        ("ch+tcp://192.0.2.7/system", (), "ch:///system"),
    ],
)
def test_sockets_and_name_are_those_of_the_driver(
    uri: str, sockets: tuple[str, ...], name: str
) -> None:
    assert (parse(uri).sockets, parse(uri).name) == (sockets, name)


def test_tls_and_its_certificates_are_in_the_uri() -> None:
    address = parse("qemu+tls://kvm-1/system?pkipath=/etc/own")

    assert (address.tls, address.pki) == (True, "/etc/own")
    assert not parse("qemu+tcp://kvm-1/system").tls


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("", "driver"),
        ("xen:///system", "driver must be one of qemu, ch, test"),
        ("http://192.0.2.7/system", "driver"),
        ("qemu+ssh://root@192.0.2.7/system", "transport 'ssh'"),
        ("qemu://192.0.2.7/system", r"qemu\+tcp://"),
        ("qemu+unix://192.0.2.7/system", "transport"),
        ("qemu:///session", "/session needs its socket"),
        ("qemu+unix:///session?socket=", "/session needs its socket"),
        ("qemu+tcp://192.0.2.7/session?socket=/a", "/session needs its socket"),
        ("ch+unix:///session?socket=/a", "/session needs its socket"),
        ("qemu+tcp://192.0.2.7", "path is not /system"),
        ("qemu+tcp://192.0.2.7:99999/system", "Port out of range"),
        ("qemu+tcp://[::1/system", "Invalid IPv6"),
        (
            "qemu+tls://192.0.2.7/system?no_verify=1",
            "parameter 'no_verify' is unknown: must be one of socket",
        ),
        ("qemu+unix:///system?socket=/a&command=/bin/sh", "parameter 'command'"),
    ],
)
def test_other_uris_are_refused_with_the_remedy(uri: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as refused:
        parse(uri)
    assert "Examples: qemu:///system" in str(refused.value)


def test_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigurationError, match="password") as refused:
        parse("qemu+tcp://admin:hunter2@192.0.2.7/system")
    assert "hunter2" not in str(refused.value)
    assert "qemu+tcp://192.0.2.7/system" in str(refused.value)


@given(st.text())
def test_any_text_is_a_uri_or_a_configuration_error(text: str) -> None:
    try:
        parse(text)
    except ConfigurationError:
        return


@pytest.mark.parametrize(
    ("uri", "local"),
    [
        ("qemu:///system", True),
        ("qemu+tcp://127.0.0.1/system", True),
        ("qemu+tcp://[::1]/system", True),
        ("qemu+tcp://localhost/system", True),
        ("qemu+tcp://192.0.2.7/system", False),
    ],
)
def test_a_daemon_on_this_machine_is_known_as_such(uri: str, *, local: bool) -> None:
    assert parse(uri).is_local() is local
