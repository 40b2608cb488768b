from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from hypercobalt.agent.settings import decode_settings, encode_settings
from hypercobalt.errors import ConfigurationError
from hypercobalt.node_agent.settings import (
    DEFAULT_UNITS,
    MigrationNames,
    Retention,
    Settings,
    settings,
    uri_from,
)
from hypercobalt.runtime import Address


def test_the_environment_of_the_existing_agent_is_read() -> None:
    env = {
        "HOSTNAME": "kvm-a",
        "NODE_LABEL": "rack-1-a",
        "NAMESPACE": "agents",
        "PKI_PATH": "/pki",
        "ISSUER_NAME": "libvirt",
        "HOST_IP_ADDRESS": "192.0.2.1",
        "LIBVIRT_DEFAULT_URI": "ch:///system",
        "LIBVIRT_SOCKET": "/run/libvirt/libvirt-sock",
        "EMULATE": "1",
    }

    assert settings(env, hostname="os") == Settings(
        node="kvm-a",
        label="rack-1-a",
        libvirt_uri="ch+unix:///system?socket=/run/libvirt/libvirt-sock",
        namespace="agents",
        pki=Path("/pki"),
        issuer="libvirt",
        addresses=("192.0.2.1",),
        emulate=True,
    )


def test_flags_go_first_and_nothing_is_needed() -> None:
    env = {"HOSTNAME": "kvm-a", "NAMESPACE": "agents", "PKI_PATH": "/pki"}
    told = settings(env, hostname="os", node="kvm-b", namespace="ns", units=[], pki_path=Path("/x"))

    assert (told.node, told.label, told.namespace, told.units) == ("kvm-b", "kvm-b", "ns", ())
    assert told.pki == Path("/x")
    bare = settings({}, hostname="os")
    assert (bare.node, bare.namespace, bare.units) == ("os", "monsoon3", DEFAULT_UNITS)
    assert bare.libvirt_uri == "qemu:///system"


@pytest.mark.parametrize(
    ("uri", "socket", "expected"),
    [
        ("qemu:///system", "", "qemu:///system"),
        ("qemu:///system", "/a b", "qemu+unix:///system?socket=/a%20b"),
        ("qemu+tcp://host/system", "/run/sock", "qemu+tcp://host/system"),
        ("qemu+unix:///system?socket=/x", "/y", "qemu+unix:///system?socket=/x"),
        ("", "/run/sock", "qemu+unix:///system?socket=/run/sock"),
    ],
)
def test_uri_and_socket_together(uri: str, socket: str, expected: str) -> None:
    assert uri_from({"LIBVIRT_DEFAULT_URI": uri, "LIBVIRT_SOCKET": socket}) == expected


def test_settings_survive_the_way_to_the_agents_process() -> None:
    told = Settings(
        "kvm-a",
        "label",
        units=(),
        pki=Path("/pki"),
        kubeconfig=Path("/k"),
        names=MigrationNames.SERVER,
        retention=Retention(timedelta(hours=12), 3),
        health=Address("::1", 1),
    )

    assert decode_settings(encode_settings(told), Settings) == told
    with pytest.raises(ConfigurationError):
        decode_settings("{}", Settings)
