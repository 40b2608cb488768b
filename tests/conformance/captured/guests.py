"""The guests of the hosts, and definitions of them: true ones, and those of a captured host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final
from uuid import NAMESPACE_DNS, uuid5

from tests.conformance.captured.arrangements import CONSOLE, SHARED
from tests.conformance.wire import Body, Json

from hypercobalt.adapters.libvirt.documents import evacuated
from hypercobalt.adapters.libvirt.documents.portable.writing import written
from hypercobalt.adapters.libvirt.documents.tree import read
from hypercobalt.adapters.libvirt.model import (
    MIGRATION_IN,
    MIGRATION_OUT,
    Devices,
    Disk,
    Domain,
    DomainState,
    Evacuated,
    JobStats,
    JobType,
)
from hypercobalt.adapters.libvirt.vocabulary import PausedReason, ShutoffReason
from hypercobalt.api.definitions import DomainDefinition, HostDefinitions

CAPTURED: Final = "captured"
"""In the paths of a hostile definition: what another host must never be told to use."""
MARK: Final = (
    f"<metadata><{evacuated.TAG} xmlns:hypercobalt='{evacuated.NAMESPACE}' "
    "host='{host}' boot='{boot}' seal='0'/></metadata>"
)
"""A mark that the operator has not sealed."""


def guest(host: str, number: int) -> str:
    """The UUID of a guest."""
    return str(uuid5(NAMESPACE_DNS, f"{host} {number}"))


def name(host: str, number: int) -> str:
    return f"{host}-vm-{number}"


def image(called: str) -> str:
    """The file of the disk of a guest of that name."""
    return f"{SHARED}/{called}.img"


_THEIRS: Final = name("kvm-b", 0)
"""A guest of another host, which runs."""
HOSTILE: Final[dict[str, str]] = {
    "a file of the host": (
        "<serial type='file'><source path='/etc/cron.d/captured'/><target port='0'/></serial>"
    ),
    "a pipe": "<parallel type='pipe'><source path='/run/captured'/></parallel>",
    "a device": "<console type='dev'><source path='/dev/captured'/></console>",
    "a listener": (
        "<serial type='tcp'><source mode='bind' host='captured.example' service='1'/></serial>"
    ),
    "a folder": (
        "<filesystem type='mount'><source dir='/etc/captured'/><target dir='x'/></filesystem>"
    ),
    "a socket": "<channel type='unix'><source path='/run/captured.sock'/></channel>",
    "an emulator": "<emulator>/tmp/captured</emulator>",
    "a disk above the root": (
        "<disk type='file' device='disk'><driver name='qemu' type='raw'/>"
        "<source file='/shared/vms/../../etc/captured'/>"
        "<target dev='vdz'/></disk>"
    ),
    "their disk as a log": (
        f"<serial type='pty'><log file='{image(_THEIRS)}' append='off'/></serial>"
    ),
}
"""What a hostile definition has among its devices."""
VARIABLES: Final = f"<os><type>hvm</type><nvram>{image(_THEIRS)}</nvram></os>"
CALLED: Final = {"their disk as a log": _THEIRS, "their disk as variables": _THEIRS}
"""Names of hostile definitions: a file of that name is their own, but for the other guest."""

ARGUMENTS: Final = (
    "<qemu:commandline xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>"
    "<qemu:arg value='-captured'/></qemu:commandline>"
)
HVM: Final = "<os><type>hvm</type></os>"
KERNEL: Final = "<os><type>hvm</type><kernel>/boot/captured</kernel></os>"


COPIES: Final[Mapping[str, tuple[bool, DomainState, int]]] = {
    "runs": (True, DomainState.RUNNING, 0),
    "is paused": (True, DomainState.PAUSED, 0),
    "is off": (False, DomainState.SHUTOFF, ShutoffReason.UNKNOWN),
    "was destroyed": (False, DomainState.SHUTOFF, ShutoffReason.DESTROYED),
    "has moved on": (False, DomainState.SHUTOFF, ShutoffReason.MIGRATED),
    "is held": (True, DomainState.PAUSED, PausedReason.MIGRATION),
    "arrives": (True, DomainState.PAUSED, PausedReason.MIGRATION),
    "leaves": (True, DomainState.RUNNING, 0),
}
"""States of a domain that a captured host gives the UUID of another host's guest."""
_JOBS: Final = {"arrives": MIGRATION_IN, "leaves": MIGRATION_OUT}
"""What its libvirt says that the domain does."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A domain with the UUID of another host's guest.

    Args:
        number: of the guest.
        state: one of `COPIES`.
        marked: it says that it was evacuated from the other host.
        pending: to be started here.
        earlier: that mark is not its last one.
    """

    number: int
    state: str
    marked: bool = False
    pending: bool = False
    earlier: bool = False


def copied(copy: Copy, host: str, boot: str, seal: str) -> Domain:
    """What a captured host defines.

    Args:
        copy: which.
        host: the guest's own.
        boot: of that host.
        seal: of a mark that the captured host was once given, or any text.
    """
    active, state, reason = COPIES[copy.state]
    operation = _JOBS.get(copy.state)
    job = JobStats(JobType.UNBOUNDED, {"operation": operation}) if operation else None
    made = replace(domain(host, copy.number), active=active, state=state, reason=reason, job=job)
    if not copy.marked:
        return made
    mark = Evacuated(host, boot, copy.pending, seal)
    if copy.earlier:
        return replace(made, evacuated=Evacuated("kvm-gone", "its boot"), earlier=(mark,))
    return replace(made, evacuated=mark)


def domain(host: str, number: int) -> Domain:
    """A guest as its host's libvirt has it: the first runs, the second is off."""
    runs = number == 0
    return Domain(
        uuid=guest(host, number),
        name=name(host, number),
        state=DomainState.RUNNING if runs else DomainState.SHUTOFF,
        active=runs,
        memory_bytes=1024**3,
        vcpus=1,
        devices=Devices((Disk("vda", path=image(name(host, number))),)),
    )


def document(
    uuid: str,
    called: str,
    host: str,
    *,
    devices: Iterable[str] = (),
    more: str = HVM,
    disk: str = "",
) -> str:
    """A definition as libvirt gives it, with the password of its console.

    Args:
        uuid: of the guest.
        called: its name.
        host: its own.
        devices: more of them.
        more: what is beside them.
        disk: the guest whose disk it has; "" for its own.
    """
    password = CONSOLE.format(host=host)
    return (
        f"<domain type='kvm'><name>{called}</name><uuid>{uuid}</uuid>"
        f"<memory unit='b'>{1024**3}</memory><vcpu>1</vcpu>{more}<devices>"
        "<disk type='file' device='disk'><driver name='qemu' type='raw'/>"
        f"<source file='{image(disk or called)}'/>"
        f"<target dev='vda'/></disk>"
        f"<graphics type='vnc' port='-1' autoport='yes' passwd='{password}'/>"
        f"{''.join(devices)}</devices></domain>"
    )


def _marked(domain: Domain, host: str) -> str:
    """The definition of a domain with its marks, which are a part of what libvirt gives."""
    root = read(document(domain.uuid, domain.name, host), root="domain", wanted=None)
    for mark in reversed(domain.marks):
        evacuated.put(root, mark)
    return written(root)


def definitions(host: str, boot: str, mark: str, there: Iterable[Domain]) -> HostDefinitions:
    """What a host's agent stores."""
    return HostDefinitions(
        boot,
        mark,
        {
            one.uuid: DomainDefinition(name=one.name, xml=_marked(one, host), active=one.active)
            for one in there
        },
    )


def moving(host: str, count: int) -> tuple[Domain, ...]:
    """More guests of a host, each of which runs and leaves it by a live migration."""
    job = JobStats(JobType.UNBOUNDED, {"operation": MIGRATION_OUT})
    made = (domain(host, number) for number in range(2, 2 * count + 2, 2))
    return tuple(replace(_running(one), job=job) for one in made)


def _running(one: Domain) -> Domain:
    return replace(one, state=DomainState.RUNNING, active=True)


_TEXT: Final = "x" * 20_000
_DISK: Final = "<disk type='file'><source file='/shared/vms/{}.img'/><target dev='vda'/></disk>"


def large_definitions(host: str, boot: str, domains: int, disks: int) -> HostDefinitions:
    """Definitions that say much in few bytes once they are packed, of guests that nobody takes."""
    made: dict[str, DomainDefinition] = {}
    for number in range(2, domains + 2):
        listed = tuple(_DISK.format(f"{number}-{disk}") for disk in range(disks))
        devices = (HOSTILE["a pipe"], *listed)
        uuid, called = guest(host, number), name(host, number)
        xml = document(uuid, called, host, devices=devices)
        made[uuid] = DomainDefinition(called, xml, active=True)
    return HostDefinitions(boot, "", made)


def wordy_conditions(number: int) -> list[Json]:
    """Conditions of a Node with texts that no other object has, and no earlier ones."""
    ready: Body = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    more: list[Json] = [
        {
            "type": f"Wordy{each}",
            "status": "True",
            "reason": "x",
            "message": f"{number} {each} {_TEXT}",
        }
        for each in range(39)
    ]
    return [ready, *more]
