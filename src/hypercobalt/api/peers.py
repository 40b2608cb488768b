"""Probes of silent hosts by the agents of other hosts: an annotation of the agent's Hypervisor.

The agent answers in `status.peerReports`. So no agent watches the fleet, and a probe costs as many
writes as there are hosts that probe.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import force_setattr

from hypercobalt.api.hypervisor import Hypervisor

PROBE: Final = "kvm.cloud.sap/probe-peers"
"""Annotation of a Hypervisor: the hosts that its agent is to reach, as JSON."""

MOST: Final = 5
"""Hosts that one agent probes at most: of a longer list the last, which are the newest."""


class PeerProbe(msgspec.Struct, frozen=True):
    """A host that an agent has to probe.

    Args:
        name: of its Hypervisor.
        address: where its programs answer.
        request: name of the request; the report has it, too.
        asked: its former name: older agents and operators read and write only that.
    """

    name: str
    address: str
    request: str = ""
    asked: str = ""

    def __post_init__(self) -> None:
        name = self.request or self.asked
        if not name:
            raise ValueError("a probe needs a request")
        force_setattr(self, "request", name)
        force_setattr(self, "asked", name)


def probes(hypervisor: Hypervisor) -> tuple[PeerProbe, ...]:
    """The probes that are requested of an agent; text that cannot be read counts as none."""
    text = hypervisor.metadata.annotations.get(PROBE, "[]")
    try:
        return msgspec.json.decode(text, type=tuple[PeerProbe, ...])[-MOST:]
    except msgspec.DecodeError:
        return ()
