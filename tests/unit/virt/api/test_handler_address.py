"""Where a Node may lead virt-api."""

from __future__ import annotations

import json

import pytest

from hypercobalt.api.core import Node, NodeAddress, NodeStatus
from hypercobalt.api.kubevirt.console import ENDPOINT
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.virt.api.handler_address import (
    ANYWHERE,
    ForeignEndpointError,
    HandlerNetwork,
    handler_of,
)

SOME = HandlerNetwork(networks=("10.1.0.0/16", "fd00::/8"))


def node(url: str, *addresses: str, kind: str = "InternalIP") -> Node:
    annotation = json.dumps({"url": url, "certificateSHA256": "ab"})
    return Node(
        metadata=ObjectMeta(name="kvm-1", annotations={ENDPOINT: annotation}),
        status=NodeStatus(addresses=tuple(NodeAddress(kind, one) for one in addresses)),
    )


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://10.0.0.1:9189", "10.0.0.1"),
        ("https://[fd00::1]:9189", "fd00::1"),
        ("https://[FD00:0::1]:9189", "fd00::1"),
    ],
)
def test_handler_at_an_address_of_its_node_is_found(url: str, address: str) -> None:
    found = handler_of(node(url, "192.168.0.1", address), ANYWHERE)
    shown = f"[{address}]" if ":" in address else address
    assert (found.url, found.certificateSHA256) == (f"https://{shown}:9189", "ab")


@pytest.mark.parametrize(
    ("url", "address", "why"),
    [
        pytest.param("https://10.0.0.2:9189", "10.0.0.1", "status.addresses", id="other-host"),
        pytest.param("https://10.0.0.1:6443", "10.0.0.1", "port 9189", id="other-port"),
        pytest.param("https://10.0.0.1", "10.0.0.1", "port 9189", id="no-port"),
        pytest.param("https://10.0.0.1:99999", "10.0.0.1", "Port out of range", id="bad-port"),
        pytest.param("http://10.0.0.1:9189", "10.0.0.1", "https://", id="no-tls"),
        pytest.param("https://a@10.0.0.1:9189", "10.0.0.1", "https://", id="user"),
        pytest.param("https://kubernetes.default.svc:9189", "", "not an IP", id="name"),
        pytest.param("https://127.0.0.1:9189", "127.0.0.1", "loopback", id="loopback"),
        pytest.param("https://[::ffff:127.0.0.1]:9189", "127.0.0.1", "loopback", id="mapped"),
        pytest.param("https://169.254.169.254:9189", "169.254.169.254", "link-local", id="cloud"),
        pytest.param("https://0.0.0.0:9189", "0.0.0.0", "unspecified", id="all"),  # noqa: S104
        pytest.param("https://[fe80::1%eth0]:9189", "fe80::1", "scope", id="scope"),
        pytest.param("https://2130706433:9189", "127.0.0.1", "not an IP", id="number"),
        pytest.param("https://:9189", "", "not an IP", id="no-host"),
        pytest.param("https://[:9189", "", "Invalid IPv6", id="no-url"),
        pytest.param("", "", "https://", id="empty"),
    ],
)
def test_handler_elsewhere_is_not_connected_to(url: str, address: str, why: str) -> None:
    with pytest.raises(ForeignEndpointError, match=why) as found:
        handler_of(node(url, address), ANYWHERE)
    assert "kvm-1" in str(found.value)


def test_name_of_a_node_counts_as_no_address() -> None:
    with pytest.raises(ForeignEndpointError, match=r"status\.addresses"):
        handler_of(node("https://10.0.0.1:9189", "10.0.0.1", kind="Hostname"), ANYWHERE)


def test_networks_bound_the_addresses_that_a_host_claims() -> None:
    for url, address in (
        ("https://10.1.0.1:9189", "10.1.0.1"),
        ("https://[fd00::1]:9189", "fd00::1"),
    ):
        assert handler_of(node(url, address), SOME).url == url
    for address in ("10.2.0.1", "127.0.0.1"):
        with pytest.raises(ForeignEndpointError, match="--handler-networks"):
            handler_of(node(f"https://{address}:9189", address), SOME)


@pytest.mark.parametrize("annotation", ["", "no JSON", "[]", '{"url": 7}'])
def test_node_without_a_handler_is_named(annotation: str) -> None:
    made = Node(metadata=ObjectMeta(name="kvm-1", annotations={ENDPOINT: annotation}))
    with pytest.raises(ForeignEndpointError, match="Node kvm-1 has no annotation"):
        handler_of(made, ANYWHERE)
