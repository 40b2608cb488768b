"""Facts of a pass over a host: those of its fencing, and what the operator knows beyond."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from hypercobalt.api.eviction import Eviction
from hypercobalt.api.fencing import Assertion
from hypercobalt.compute.model import Host
from hypercobalt.ha.host_failure.doubts import LockRefusal
from hypercobalt.ha.host_failure.facts import HostFacts
from hypercobalt.ha.host_failure.node_failure import Question


@dataclass(frozen=True, slots=True)
class RecoveryFacts(HostFacts):
    """Facts about a host that is unwell, or was.

    Args:
        ready: status of its Node's condition Ready.
        silenced: why no action may be taken on this host; "" for no reason.
        abandoned: the host is silenced, and not only while the compute service cannot be read, or
            does not list a host without an address.
        host: as the compute service has it; None when it has no such host or could not be read.
        evictions: of all its instances, that are not being deleted.
        rejected: why an assertion that its boot is dead does not count; "" for none.
        assertion: the record of an assertion that the host is dead; None for none.
        question: to peers, with their answers; None: none counts.
        refusal: the lock of a disk that one target alone has reported; None for none.
        unstored: servers that have left the host, and are recorded with it alone; None: not known.
            Read only while the Hypervisor is being deleted.
        fell: other hosts that are proven dead, and since when each may have stored nothing; {}
            unless this one is.
    """

    ready: str
    silenced: str
    abandoned: bool
    host: Host | None
    evictions: tuple[Eviction, ...]
    rejected: str
    assertion: Assertion | None
    question: Question | None = None
    refusal: LockRefusal | None = None
    unstored: frozenset[str] | None = frozenset()
    fell: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
