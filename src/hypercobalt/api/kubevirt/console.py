"""The serial console of a VirtualMachineInstance: its path, its right, and where its handler is.

Source: kubevirt, pkg/virt-api/api.go (subresources) and client-go (`plain.kubevirt.io`).
"""

from __future__ import annotations

from typing import Final

import msgspec

from hypercobalt.api.access import ResourceAttributes
from hypercobalt.api.diagnostics import DiagnosticsEndpoint

PROTOCOL: Final = "plain.kubevirt.io"
"""Subprotocol of the websocket: bytes of the port, both ways."""
HANDLER: Final = "virt-handler"
"""Kind of agent, in the audience of tokens for the handler of one node."""
SUBRESOURCES: Final = "subresources.kubevirt.io"
"""API group of what is done to a running instance."""
VERSION: Final = f"{SUBRESOURCES}/v1"
"""Group and version of the API that consoles are in."""
API_SERVICE: Final = f"v1.{SUBRESOURCES}"
"""Name of the APIService that leads an API server to virt-api."""
CONSOLE_PATH: Final = (
    f"/apis/{VERSION}/namespaces/{{namespace}}/virtualmachineinstances/{{name}}/console"
)
CONSOLE_RIGHT: Final = ResourceAttributes(
    verb="get", group=SUBRESOURCES, resource="virtualmachineinstances", subresource="console"
)
"""What a person needs, on one instance; namespace and name are those of the path."""
ENDPOINT: Final = "kubevirt.io/console-endpoint"
"""Annotation of a Node: where its virt-handler serves consoles, a DiagnosticsEndpoint in JSON."""


def console_path(namespace: str, name: str) -> str:
    """Path of the console of one instance."""
    return CONSOLE_PATH.format(namespace=namespace, name=name)


def read_endpoint(annotation: str) -> DiagnosticsEndpoint | None:
    """The endpoint in the annotation of a Node; None for an annotation without one."""
    try:
        return msgspec.json.decode(annotation, type=DiagnosticsEndpoint)
    except msgspec.DecodeError:
        return None
