"""Requests for VMs, and their placement: pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal
from xml.etree import ElementTree as ET

from hypercobalt.lab.errors import LabError, LabRequestError
from hypercobalt.lab.guest.bootsector import Program
from hypercobalt.lab.state import NAME_PATTERN
from hypercobalt.lab.vms.domain import CrashAction, ErrorPolicy, Tuning, Watchdog

Kind = Literal["linux", "boot"]
Storage = Literal["shared", "local"]

LINUX_MEMORY_MIB = 160  # 128 is enough to start, 96 is not
BOOT_MEMORY_MIB = 16
_LEAST_MIB: Mapping[Kind, int] = {"linux": 96, "boot": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class VMRequest:
    """A VM to be made.

    Args:
        name: the next free `vm-N` when not given.
        kind: the Linux guest, or a boot sector.
        program: what a boot sector does.
        host: where it starts; the one with the fewest VMs when not given.
        memory_mib: as the kind needs when not given.
        disk: where a disk of `disk_mib` lies. A boot sector has one in any case.
        readonly: whether it cannot write to its disk.
        network: whether it gets a port of the switch, in a lab with OVN.
        extra: appended to the libvirt document.
    """

    name: str | None = None
    kind: Kind = "linux"
    program: Program = "idle"
    host: str | None = None
    memory_mib: int | None = None
    vcpus: int = 1
    disk: Storage | None = None
    disk_mib: int = 16
    readonly: bool = False
    error_policy: ErrorPolicy = "stop"
    network: bool = True
    watchdog: Watchdog | None = field(default_factory=Watchdog)
    on_crash: CrashAction = "destroy"
    tuning: Tuning = field(default_factory=Tuning)
    extra: tuple[ET.Element, ...] = ()

    @property
    def memory(self) -> int:
        """Memory in MiB."""
        default = LINUX_MEMORY_MIB if self.kind == "linux" else BOOT_MEMORY_MIB
        return default if self.memory_mib is None else self.memory_mib


@dataclass(frozen=True, slots=True)
class Placement:
    """A name and a host for a request."""

    request: VMRequest
    name: str
    host: str


def check_memory(requests: Iterable[VMRequest], available_mib: int) -> None:
    """Refuse what can never run: too little for its kind, or more than the machine has.

    Raises:
        LabError: the message names the request and what would do.
    """
    wanted = 0
    for request in requests:
        who, least = f"VM {request.name or '(unnamed)'}", _LEAST_MIB[request.kind]
        if request.memory < least:
            raise LabRequestError(
                f"{who}: a {request.kind} guest needs {least} MiB, not {request.memory}"
            )
        wanted += request.memory
        if wanted > available_mib:
            raise LabError(
                f"{who}: memory of {request.memory} MiB; this machine has {available_mib} MiB left"
            )


def place(
    requests: Iterable[VMRequest],
    there: Mapping[str, Iterable[str]],
    names: Iterable[str] = (),
    silent: Mapping[str, str] | None = None,
) -> tuple[Placement, ...]:
    """Give every request a free name and a host, each time the one with the fewest VMs.

    Args:
        requests: in the order in which they are placed.
        there: names of the VMs on each host that can take one; hosts in the order of preference.
        names: other names that are taken, as of VMs whose host is off.
        silent: why other hosts cannot take one: their power, or libvirt's error.

    Raises:
        LabRequestError: a name is taken or no name, or a host cannot take a VM.
    """
    on = {host: list(vms) for host, vms in there.items()}
    taken = {*names, *(name for vms in on.values() for name in vms)}
    placed: list[Placement] = []
    for request in requests:
        name = _name(request.name, taken)
        host = request.host or min(on, key=lambda host: len(on[host]), default="")
        if host not in on:
            raise LabRequestError(f"VM {name}: {_refusal(host, on, silent or {})}")
        taken.add(name)
        on[host].append(name)
        placed.append(Placement(request, name, host))
    return tuple(placed)


def _refusal(host: str, on: Collection[str], silent: Mapping[str, str]) -> str:
    if not host:
        reasons = "; ".join(f"{other}: {why}" for other, why in silent.items())
        return f"no host can take it: {reasons or 'the lab has none'}"
    why = silent.get(host, "not in the lab")
    return f"host {host} cannot take it: {why}; hosts that can: {', '.join(on) or 'none'}"


def _name(wanted: str | None, taken: set[str]) -> str:
    if wanted is None:
        number = 1
        while f"vm-{number}" in taken:
            number += 1
        return f"vm-{number}"
    if not NAME_PATTERN.fullmatch(wanted):
        raise LabRequestError(
            f"VM name {wanted!r} must be lower-case letters, digits and hyphens, at most 63"
        )
    if wanted in taken:
        raise LabRequestError(
            f"VM {wanted!r} is in the lab already; remove it or take another name"
        )
    return wanted


@dataclass(frozen=True, slots=True)
class ListedVm:
    """A VM as a host's libvirt lists it.

    Args:
        state: as virsh prints it: `running`, `shut off`, …
        title: what the lab wrote: its kind and its address; empty for a domain of other making.
    """

    name: str
    host: str
    state: str
    title: str

    @property
    def is_asleep(self) -> bool:
        """Whether it is off and the lab's own, not a domain of a person's."""
        return self.state == "shut off" and bool(self.title)


def parse_list(host: str, printed: str) -> tuple[ListedVm, ...]:
    """The VMs in what `virsh -q list --all --title` prints."""
    rows = (re.split(r"\s{2,}", line.strip()) for line in printed.splitlines())
    return tuple(
        ListedVm(row[1], host, row[2], row[3] if len(row) > 3 else "")  # noqa: PLR2004 - columns
        for row in rows
        if len(row) >= 3  # noqa: PLR2004
    )
