"""Every listening port of ours is served by the one listener that bounds connections.

A new listener fails here until it uses that, or the table says why it needs not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import hypercobalt
from hypercobalt.runtime import endpoints
from hypercobalt.virt.api import pages, subresource_server, subresources

SOURCE = Path(hypercobalt.__file__).parent
BY_HAND = {
    *("start_server", "start_unix_server", "create_server", "create_unix_server"),
    *("create_datagram_endpoint", "connect_accepted_socket", "serve_forever", "accept"),
    *("HTTPServer", "ThreadingHTTPServer", "TCPServer", "ThreadingTCPServer", "UnixStreamServer"),
}
"""Calls that serve a port by some other way."""

SERVED_BY_HAND = {
    "runtime/listener.py": "the listener",
    "virt/wire/server.py": "no port: a pod's Unix socket, for few peers whose user it checks",
    "virt/launcher/dhcp.py": "DHCP of a pod's one guest, on its own bridge: 67",
    "lab/bmc/ipmi.py": "test only: a BMC of the lab, in its own network",
    "lab/bmc/server.py": "test only: a BMC of the lab, in its own network",
    "lab/bmc/__main__.py": "test only: a BMC of the lab, in its own network",
}
BOUND = {
    "runtime/bind.py": "every port, for the listener",
    "lab/bmc/server.py": "test only: a BMC of the lab",
}
"""Modules that make a socket listen."""

PORTS = {
    "apiserver/http.py": ("Listener", "the API: 6443"),
    "runtime/endpoints.py": ("Listener", "pages, below"),
    "runtime/manager.py": ("Endpoints", "health: 8081, 8082, 8083; metrics: 8443, 9177, 9178"),
    "operator/ha/contract.py": ("Endpoints", "high availability, switched by others: 8444"),
    "agent/diagnostics/pinned_server.py": ("Endpoints", "diagnostics: 9187, 9188; consoles: 9189"),
    "virt/api/process.py": ("Endpoints", "webhooks of virt-api: 8443"),
    "virt/api/subresource_server.py": ("Endpoints", "consoles, for the API server: 8445"),
}
"""Who opens ports, with what."""


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Every call with the last part of what it calls."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    yield name, node


MODULES = {
    str(file.relative_to(SOURCE)): ast.parse(file.read_text()) for file in SOURCE.rglob("*.py")
}


def modules_that(*names: str) -> set[str]:
    return {
        module for module, tree in MODULES.items() if any(name in names for name, _ in calls(tree))
    }


def test_no_port_is_served_past_the_listener() -> None:
    assert modules_that(*BY_HAND) <= SERVED_BY_HAND.keys()


def test_sockets_listen_in_one_place() -> None:
    found = {
        module
        for module, tree in MODULES.items()
        for name, call in calls(tree)
        if name == "listen" and len(call.args) <= 1 and not call.keywords and _is_of_socket(tree)
    }
    assert found <= BOUND.keys()


def _is_of_socket(tree: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Import) and any(alias.name == "socket" for alias in node.names)
        for node in ast.walk(tree)
    )


@pytest.mark.parametrize("door", ["Listener", "Endpoints"])
def test_table_names_who_opens_ports(door: str) -> None:
    assert modules_that(door) == {module for module, (used, _) in PORTS.items() if used == door}


def test_pages_are_bounded_wherever_they_are_made() -> None:
    """No caller lifts the bounds of pages but one: virt-api has fewer places, for longer bodies.

    Consoles have more of them: an API server is one address, and sessions last for hours.
    """
    given = {
        module
        for module, tree in MODULES.items()
        for name, call in calls(tree)
        if name == "Endpoints" and any(one.arg == "bounds" for one in call.keywords)
    }
    assert given == {"virt/api/process.py", "virt/api/subresource_server.py"}
    assert pages.BOUNDS.places < endpoints.BOUNDS.places
    assert subresource_server.BOUNDS.places // 2 > subresources.SESSIONS
