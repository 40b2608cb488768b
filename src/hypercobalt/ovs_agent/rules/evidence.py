"""Which probe's answer a finding rests on, and how long a finding is proven. Pure.

Time alone confirms nothing: what was true at the last answer of a probe may have ended right after
it. So a finding has lasted for its grace when an answer that was begun that long after the first
one still shows it. Until then, its probe is repeated more often. Codes that are not listed follow
from rows, which are pushed, or from a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from hypercobalt.api.ovsnode_reasons import IssueCode


class EvidenceSource(StrEnum):
    """Names of the probes that findings with a grace rest on."""

    BRIDGES = "bridges"
    BONDS = "bonds"
    KERNEL_BONDS = "kernel-bonds"
    FLOWS = "flows"
    TRAFFIC = "traffic"
    LINKS = "links"
    BINDINGS = "bindings"
    PEERS = "openflow-peers"
    SOUTHBOUND = "southbound"


_BONDS: Final = (EvidenceSource.BONDS, EvidenceSource.KERNEL_BONDS)

EVIDENCE: Final[Mapping[IssueCode, tuple[EvidenceSource, ...]]] = {
    IssueCode.BRIDGE_DOWN: (EvidenceSource.BRIDGES,),
    IssueCode.NO_FLOWS: (EvidenceSource.FLOWS,),
    IssueCode.STALE_FLOW_IN_PORT: (EvidenceSource.TRAFFIC,),
    IssueCode.FLOWS_LAGGING: (EvidenceSource.SOUTHBOUND,),
    IssueCode.CHASSIS_MISMATCH: (EvidenceSource.SOUTHBOUND,),
    IssueCode.OPENFLOW_DISCONNECTED: (EvidenceSource.PEERS,),
    IssueCode.LACP_NOT_NEGOTIATED: _BONDS,
    IssueCode.MEMBER_DOWN: _BONDS,
    IssueCode.BOND_DOWN: _BONDS,
    IssueCode.ORPHAN_PORT_NO_DEVICE: (EvidenceSource.LINKS,),
    IssueCode.INSTANCE_DEVICE_LOST: (EvidenceSource.LINKS,),
    IssueCode.ORPHAN_PORT_NO_BINDING: (EvidenceSource.BINDINGS,),
    IssueCode.PORT_NOT_INSTALLED: (EvidenceSource.BINDINGS,),
    IssueCode.PORT_SILENTLY_DEAD: (EvidenceSource.TRAFFIC,),
}


def proven_until(code: IssueCode, read_at: Mapping[str, float], monotonic: float) -> float:
    """Until when a finding of now is proven, in seconds of the monotonic clock.

    Args:
        code: of the finding.
        read_at: when the last answer of each probe was begun, by its name.
        monotonic: now.
    """
    times = (read_at[source] for source in EVIDENCE.get(code, ()) if source in read_at)
    return min(times, default=monotonic)


def sources_of(codes: Iterable[IssueCode]) -> frozenset[str]:
    """Names of the probes that findings of these codes rest on."""
    return frozenset(source for code in codes for source in EVIDENCE.get(code, ()))
