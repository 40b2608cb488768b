"""Probes of silent hosts by the agents of other hosts: an annotation of the agent's Hypervisor.

The agent answers in `status.peerReports`. So no agent watches the fleet, and a probe costs as many
writes as there are hosts that are asked.
"""

from __future__ import annotations

from typing import Final

import msgspec

from hypercobalt.api.hypervisor import Hypervisor

PROBE: Final = "kvm.cloud.sap/probe-peers"
"""Annotation of a Hypervisor: the hosts that its agent is to reach, as JSON."""

MOST: Final = 5
"""Hosts that one agent reaches; what is listed beyond them is not asked."""


class Probe(msgspec.Struct, frozen=True):
    """One host that an agent is to reach.

    Args:
        name: of its Hypervisor.
        address: where its programs answer.
        asked: name of the question; the answer has it.
    """

    name: str
    address: str
    asked: str


def probes(hypervisor: Hypervisor) -> tuple[Probe, ...]:
    """What an agent is asked; text that is no question counts as none."""
    text = hypervisor.metadata.annotations.get(PROBE, "[]")
    try:
        return msgspec.json.decode(text, type=tuple[Probe, ...])[:MOST]
    except msgspec.DecodeError:
        return ()
