"""Flags and environment of the node agent."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from hypercobalt.api.address import Address
from hypercobalt.api.host_certificate import CertificateSource
from hypercobalt.api.hypervisor_conditions import MOST_UNITS
from hypercobalt.cli.node_agent import NodeAgentFlags, uri_from
from hypercobalt.errors import ConfigurationError
from hypercobalt.launch import decode_settings, encode_settings
from hypercobalt.node_agent.settings import (
    DEFAULT_UNITS,
    MigrationNames,
    NodeAgentSettings,
    Retention,
    SelfFencingSettings,
)


def settings(env: dict[str, str], hostname: str = "os", **flags: object) -> NodeAgentSettings:
    return NodeAgentFlags(**flags).settings(env, hostname)  # type: ignore[arg-type]


def self_fencing(
    window: float, witnesses: str, storage: Path | None, watchdog: Path | None
) -> SelfFencingSettings | None:
    return settings(
        {},
        self_fence_window=window,
        self_fence_witnesses=witnesses,
        self_fence_storage=storage,
        self_fence_watchdog=watchdog,
    ).self_fencing


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

    assert settings(
        env, metrics_bind_address="0", health_probe_bind_address="0"
    ) == NodeAgentSettings(
        node="kvm-a",
        label="rack-1-a",
        libvirt_uri="ch+unix:///system?socket=/run/libvirt/libvirt-sock",
        namespace="agents",
        pki=Path("/pki"),
        issuer="libvirt",
        addresses=("192.0.2.1",),
        ha_config="agents/hypercobalt-ha",
        operator_namespace="agents",
        emulate=True,
        host_address="192.0.2.1",
        metrics_secure=True,
    )


def test_flags_go_first_and_nothing_is_needed() -> None:
    env = {"HOSTNAME": "kvm-a", "NAMESPACE": "agents", "PKI_PATH": "/pki"}
    made = settings(env, node="kvm-b", namespace="ns", units="", pki_path=Path("/x"))

    assert (made.node, made.label, made.namespace, made.units) == ("kvm-b", "kvm-b", "ns", ())
    assert made.pki == Path("/x")
    bare = settings({})
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
def test_uri_and_socket_give_one_address(uri: str, socket: str, expected: str) -> None:
    assert uri_from({"LIBVIRT_DEFAULT_URI": uri, "LIBVIRT_SOCKET": socket}) == expected


def test_settings_survive_the_way_to_the_agents_process() -> None:
    made = NodeAgentSettings(
        "kvm-a",
        "label",
        units=(),
        pki=Path("/pki"),
        kubeconfig=Path("/k"),
        names=MigrationNames.SERVER,
        retention=Retention(timedelta(hours=12), 3),
        health=Address("::1", 1),
    )

    assert decode_settings(encode_settings(made), NodeAgentSettings) == made
    with pytest.raises(ConfigurationError):
        decode_settings(b"{}", NodeAgentSettings)


def test_self_fencing_is_off_without_a_window() -> None:
    assert self_fencing(0, "192.0.2.1:8081", Path("/shared"), None) is None


def test_self_fencing_survives_the_way_to_the_agents_process() -> None:
    fencing = self_fencing(90, "192.0.2.1:8081,[2001:db8::1]:8081", Path("/shared"), Path("/w"))
    assert fencing == SelfFencingSettings(
        timedelta(seconds=90),
        (("192.0.2.1", 8081), ("2001:db8::1", 8081)),
        Path("/shared"),
        Path("/w"),
    )
    whole = NodeAgentSettings("kvm-a", "kvm-a", self_fencing=fencing)
    assert decode_settings(encode_settings(whole), NodeAgentSettings) == whole


@pytest.mark.parametrize(
    ("window", "witnesses", "storage", "named"),
    [
        (59, "192.0.2.1:8081", Path("/shared"), "--self-fence-window"),
        (-1, "192.0.2.1:8081", Path("/shared"), "--self-fence-window"),
        (float("nan"), "192.0.2.1:8081", Path("/shared"), "--self-fence-window"),
        (float("inf"), "192.0.2.1:8081", Path("/shared"), "--self-fence-window"),
        (60, "", Path("/shared"), "--self-fence-witnesses"),
        (60, ":8081", Path("/shared"), "--self-fence-witnesses"),
        (60, "192.0.2.1", Path("/shared"), "--self-fence-witnesses"),
        (60, "192.0.2.1:8081", None, "--self-fence-storage"),
    ],
)
def test_self_fencing_needs_all_that_shows_that_a_host_is_not_cut_off(
    window: float, witnesses: str, storage: Path | None, named: str
) -> None:
    with pytest.raises(ConfigurationError, match=named):
        self_fencing(window, witnesses, storage, None)


def test_the_config_map_of_the_ha_agent_is_named_whole_or_not_at_all() -> None:
    assert settings({}).ha_config == "monsoon3/hypercobalt-ha"
    assert settings({}, ha_config="x/y").ha_config == "x/y"
    assert settings({}, ha_config="").ha_config == ""


@pytest.mark.parametrize("text", ["name", "/name", "space/", "a/b/c"])
def test_a_config_map_without_namespace_or_name_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="NAMESPACE/NAME"):
        settings({}, ha_config=text)


def test_more_units_than_the_policy_takes_conditions_of_are_refused() -> None:
    units = ",".join(f"u{number}.service" for number in range(MOST_UNITS + 1))
    with pytest.raises(ConfigurationError, match="--units: 33 units, must be at most 32"):
        settings({}, units=units)


def test_keys_from_secrets_are_refused_with_the_way_over() -> None:
    for given, flag in (({"CERTIFICATE_SOURCE": "secret"}, None), ({}, CertificateSource.SECRET)):
        with pytest.raises(ConfigurationError, match=r"read no Secrets; docs/host\.md"):
            settings(given, certificate_source=flag)
    for env in ({}, {"CERTIFICATE_SOURCE": ""}, {"CERTIFICATE_SOURCE": "request"}):
        assert settings(env).node == "os"
