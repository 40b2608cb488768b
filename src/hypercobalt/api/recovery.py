"""How far high availability is with a failed host, as `Hypervisor.status.recovery` has it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from hypercobalt.api.meta import Struct
from hypercobalt.api.schema import Field, Limits


class RecoveryPhase(StrEnum):
    """Values of `status.recovery.phase`."""

    SUSPECTED = "Suspected"
    UNWELL = "Unwell"
    REBOOT_GRACE = "RebootGrace"
    BLOCKED = "Blocked"
    FENCING = "Fencing"
    RECOVERING = "Recovering"
    RECOVERED = "Recovered"
    RETURNING = "Returning"


class Recovery(Struct, frozen=True):
    """The present step, and when the next one is due."""

    phase: Annotated[
        str,
        Field(
            "Suspected: nothing of the host answers; it is fenced at `until`. Unwell: the host "
            "lives, its Node is not Ready; its instances migrate at `until`. RebootGrace: it "
            "was shutting down and may be back until `until`. Blocked: see the condition "
            "`RecoveryBlocked`. Fencing: see `status.fencing`. Recovering: an Eviction moves or "
            "starts its instances elsewhere. Recovered: none is left; the host has to be "
            "repaired. Returning: the host is back, and takes instances again at `until`.",
            limits=Limits(enum=tuple(RecoveryPhase)),
        ),
    ]
    until: Annotated[
        datetime | None, Field("When the phase ends if nothing changes; absent: not known.")
    ] = None
