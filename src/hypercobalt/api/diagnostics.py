"""Where people reach an agent of a host, and how both sides name what is used there.

Decision: docs/decisions/0033-access-to-agents.md.
"""

from __future__ import annotations

from typing import Annotated

from hypercobalt.api.meta import Object, Struct
from hypercobalt.api.schema import Field


class DiagnosticsEndpoint(Struct, frozen=True):
    """The HTTPS server of an agent, for people with the rights to its uses."""

    url: Annotated[str, Field("Where it listens, as in `https://10.0.0.1:9188`.")]
    certificateSHA256: Annotated[
        str,
        Field(
            "SHA-256 of its certificate, in hexadecimal digits. The certificate is made when the "
            "agent starts, and clients go by this alone."
        ),
    ]


def audience(agent: str, node: str) -> str:
    """The audience of tokens for the agent of one host, which are good for no other.

    Args:
        agent: kind of agent, such as `ovs-agent`.
        node: name of the Node.
    """
    return f"hypercobalt-{agent}/{node}"


def path(type_: type[Object], node: str, use: str) -> str:
    """Path of a use, such as `/v1/ovsnodes/kvm-1/capture`.

    It names the object, so that a request that was led to another host's agent finds nothing there.
    """
    return f"/v1/{type_.resource.plural}/{node}/{use}"
