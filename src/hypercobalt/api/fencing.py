"""Fencing of a dead host: what was tried, what is proven.

An attempt is written before anything is switched off, and the proof before an instance is started
elsewhere; so a process that takes over has both. The record is the annotation `RECORD` of the
Hypervisor, which no agent may write: a captured host writes the status of its own, and would prove
itself dead. `status.fencing` shows it, to people and to the host's agent.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Final

import msgspec

from hypercobalt.api.meta import Struct
from hypercobalt.api.schema import Field, Limits

RECORD: Final = "kvm.cloud.sap/fencing-record"
"""Annotation of a Hypervisor: the operator's own record of the fencing, as JSON."""

ASSERTED_DEAD: Final = "kvm.cloud.sap/fenced"
"""Annotation of a Hypervisor: an administrator asserts that this boot (`status.bootID`) is dead."""

BOOT_ID: Final = Limits(max_length=128, pattern=r"^[-A-Za-z0-9._]*$")
"""What agents report: random/boot_id of the kernel, a UUID. Messages have it within commands."""

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
"""Taint of a Node that asserts the same. Source: KEP-2268, non-graceful node shutdown."""


class FencingPhase(StrEnum):
    """Values of `status.fencing.phase`."""

    ATTEMPTING = "Attempting"
    FENCED = "Fenced"
    FAILED = "Failed"
    RELEASED = "Released"


class FencingMethod(StrEnum):
    """Values of `status.fencing.method`, in the order in which they are tried."""

    AGENT = "Agent"
    BMC = "BMC"
    STORAGE = "Storage"
    EXTERNAL = "External"


_FORMER: Final = "BootID"
"""A method of earlier versions. A schema without it would refuse every write of a status that has
it, whoever writes."""


class Fencing(Struct, frozen=True):
    """The last fencing of a host."""

    phase: Annotated[
        str,
        Field(
            "Attempting: may be under way until `deadline`. Fenced: proven dead, see `proof`. "
            "Failed: no method has given a proof. Released: the host is back.",
            limits=Limits(enum=tuple(FencingPhase)),
        ),
    ]
    bootID: Annotated[
        str | None,
        Field("The boot that it is about: `status.bootID` when it began."),
    ] = None
    method: Annotated[
        str | None,
        Field(
            "Agent: the node agent has stopped all instances. BMC: the power is off. Storage: its "
            "access to the shared storage is blocked. External: asserted from outside. BootID: the "
            "host has booted again; earlier versions recorded that.",
            limits=Limits(enum=(*FencingMethod, _FORMER)),
        ),
    ] = None
    device: Annotated[str | None, Field("Address of the fence device, if one is used.")] = None
    storageDevice: Annotated[
        str | None,
        Field(
            "The fence device by which the host was, or may have been, cut off from its storage. "
            "It stays until that device reports that the host reaches its storage again."
        ),
    ] = None
    unfenceDeadline: Annotated[
        datetime | None,
        Field(
            "Until when the present attempt to give the host its storage back may still act; no "
            "attempt to cut it off is begun before."
        ),
    ] = None
    contradictedBy: Annotated[
        str | None,
        Field(
            "What speaks against the last proof by a fence device, though the host is silent: that "
            "the power is off already does not count any more, unless something confirms it."
        ),
    ] = None
    refused: Annotated[
        str | None,
        Field(
            "What the last attempt was refused for, until it is corrected: credentials, a right, "
            "the outlet. The next attempt follows a change of the document or its Secrets, or "
            "after five minutes."
        ),
    ] = None
    refusedSetup: Annotated[
        str | None,
        Field("Version of the document and of the Secrets with which it was refused."),
    ] = None
    rebootDeadline: Annotated[
        datetime | None,
        Field(
            "Until when the last order to reboot the host by its fence device may act: it was "
            "fenced wrongly and is empty. No attempt to switch it off is begun before."
        ),
    ] = None
    attempts: Annotated[
        int | None,
        Field("How often a method was begun.", limits=Limits(minimum=0, format="int32")),
    ] = None
    startedAt: Annotated[
        datetime | None,
        Field("When the fencing began; the node agent repeats it in guestsStopped."),
    ] = None
    deadline: Annotated[
        datetime | None,
        Field("Until when the present attempt may still switch the host off or cut it off."),
    ] = None
    proof: Annotated[str | None, Field("What proves that this boot runs nothing any more.")] = None
    fencedAt: Annotated[datetime | None, Field("When that was proven.")] = None
    confirmedBy: Annotated[
        str | None,
        Field(
            "What else has proven the same, independently of `proof`. Instances that write to no "
            "disk, which no lock would keep from running twice, are started elsewhere only then."
        ),
    ] = None
    forcedDownAt: Annotated[
        datetime | None, Field("When the compute service was declared down for good.")
    ] = None
    livesSince: Annotated[
        datetime | None,
        Field(
            "Since when the host shows life after this proof, of this boot or of another one: "
            "nothing is started elsewhere by the proof any more."
        ),
    ] = None
    nodeBootID: Annotated[
        str | None,
        Field(
            "The last boot that the kubelet had reported when the fencing began, if it is not "
            "bootID: the proof is about both."
        ),
    ] = None
    leaseRenewedAt: Annotated[
        str | None,
        Field(
            "The renewal time in the node agent's Lease when the proof was recorded. A later "
            "renewal is a sign of life."
        ),
    ] = None
    poweredSince: Annotated[
        datetime | None,
        Field(
            "Since when the host's power is on again after this proof. The host has "
            "--ha-reboot-grace to boot and report."
        ),
    ] = None
    evidence: Annotated[
        tuple[str, ...], Field("What led to it, and what each method has answered, in order.")
    ] = ()


class GuestsStopped(Struct, frozen=True):
    """What the node agent reports once it has ended every instance of its host.

    Launcher pods are among them.
    """

    bootID: Annotated[str, Field("The boot in which it did so.", limits=BOOT_ID)]
    startedAt: Annotated[
        datetime | None,
        Field("`status.fencing.startedAt` of the order; absent: the agent fenced its own host."),
    ] = None
    at: Annotated[datetime | None, Field("When the last one had ended.")] = None
    count: Annotated[
        int | None,
        Field("How many ran until then.", limits=Limits(minimum=0, format="int32")),
    ] = None


class Assertion(Struct, frozen=True):
    """An assertion from outside that the host is dead, as the operator has first seen it."""

    by: Annotated[str, Field("The annotation or the taint, with its value.")]
    seenAt: Annotated[datetime | None, Field("When the operator has first seen it.")] = None
    leaseRenewedAt: Annotated[
        str | None,
        Field(
            "The renewal time in the node agent's Lease then. A later renewal disproves the "
            "assertion."
        ),
    ] = None
    nodeReportedAt: Annotated[
        datetime | None,
        Field(
            "When the kubelet had reported the Node's condition Ready last. A later report "
            "disproves the assertion."
        ),
    ] = None
    disproved: Annotated[
        bool | None,
        Field("The host has shown life since: the assertion is ignored until it was removed."),
    ] = None


class FenceDeviceIdentity(Struct, frozen=True):
    """Whose a fence device of the host is, as the operator has read it while the host was well."""

    device: Annotated[
        str, Field("Its name in the document of fence devices, its address and its outlet.")
    ]
    systemUUID: Annotated[
        str, Field("UUID of the system that it switches, as the device reports it.")
    ]
    proven: Annotated[
        bool,
        Field(
            "Whether that is the host's: the host reported the same UUID, and the device of no "
            "other host did. False: the host is not fenced."
        ),
    ]
    problem: Annotated[str | None, Field("Why it is not the host's.")] = None


def recorded(annotations: Mapping[str, str]) -> Fencing | None:
    """The record among the annotations of a Hypervisor; None without one that can be read."""
    text = annotations.get(RECORD)
    return _decoded(text) if text is not None else None


def as_record(fencing: Fencing) -> str:
    """The annotation of a record."""
    return msgspec.json.encode(fencing).decode()


@lru_cache(maxsize=256)
def _decoded(text: str) -> Fencing | None:
    """Kept, since one pass over a failed host looks at its record a dozen times."""
    try:
        return msgspec.json.decode(text, type=Fencing)
    except msgspec.DecodeError:
        return None


def proves_dead(fencing: Fencing | None, boot: str | None) -> bool:
    """Whether a record proves the boot dead that the host has reported last.

    A proof is about one boot, so a host that has never reported its boot ID is not fenced, nor is
    one that shows life since.
    """
    return (
        fencing is not None
        and fencing.phase == FencingPhase.FENCED
        and fencing.livesSince is None
        and bool(boot)
        and fencing.bootID == boot
    )


def assertion_of(boot: str | None) -> str:
    """The annotation that asserts the death of a boot, as an argument of a command."""
    return f"{ASSERTED_DEAD}={shlex.quote(boot or '')}"


def only_word(fencing: Fencing) -> str:
    """What a proof hangs on alone, which may be wrong while the host runs; "" where it does not.

    What the agent has ended is ended; a person who asserts that a host is dead has made sure of it.
    """
    if fencing.confirmedBy:
        return ""
    if fencing.method == FencingMethod.STORAGE:
        return "its host is cut off from its storage only"
    if fencing.method == FencingMethod.BMC:
        return f"{fencing.device or 'one fence device'} alone reports that its host is off"
    return ""


def proven_boots(fencing: Fencing) -> frozenset[str]:
    """The boots of a record: the agent's, and the kubelet's if that is newer."""
    return frozenset(boot for boot in (fencing.bootID, fencing.nodeBootID) if boot)


def is_ordered(fencing: Fencing | None, boot: str) -> bool:
    """Whether the node agent of this boot has to end every instance of its host.

    It has to by order (method Agent), and on a host that was declared dead and is not: its
    instances may be started elsewhere at any moment.
    """
    if fencing is None or boot not in proven_boots(fencing):
        return False
    ordered = fencing.phase == FencingPhase.ATTEMPTING and fencing.method == FencingMethod.AGENT
    return ordered or is_declared_dead(fencing)


def is_declared_dead(fencing: Fencing) -> bool:
    """Whether instances of the host may have been started elsewhere, and the host is not released.

    A host that shows life after its proof is fenced again when it is silent again; until then, and
    meanwhile, the actions that the first proof began stay valid.
    """
    if fencing.phase == FencingPhase.RELEASED:
        return False
    return fencing.phase == FencingPhase.FENCED or fencing.forcedDownAt is not None
