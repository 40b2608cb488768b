"""What a daemon tells of its guests to somebody who wants to move them.

Source: libvirt's formatdomain.html; libvirt-domain.h.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypercobalt.adapters.libvirt.model import DomainState, JobStats


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk, CD-ROM or floppy of a guest.

    Args:
        target: name in the guest, `vda`.
        device: `disk`, `cdrom`, `floppy` or `lun`.
        path: of the file or block device on the host; "" for network disks and empty drives.
        block: the path is a block device.
        readonly: the guest cannot write to it.
    """

    target: str
    device: str = "disk"
    path: str = ""
    block: bool = False
    readonly: bool = False


@dataclass(frozen=True, slots=True)
class Makeup:
    """What a guest is made of, by its document.

    Args:
        memory_bytes: `<memory>`.
        vcpus: `<vcpu>`, the maximum.
        disks: all of them.
        ports: interface ids of its Open vSwitch ports.
        bound: devices that tie it to its host, in words: `host device pci 0000:3b:00.0`.
        nvram: file of its firmware's variables; "" without one.
        problem: why the document could not be read; the rest is then empty.
    """

    memory_bytes: int = 0
    vcpus: int = 0
    disks: tuple[Disk, ...] = ()
    ports: tuple[str, ...] = ()
    bound: tuple[str, ...] = ()
    nvram: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Guest:
    """One domain of a daemon.

    Args:
        uuid: lower case with dashes.
        name: libvirt's name.
        state: virDomainState.
        active: a process of it exists on the host.
        moving_in: it is the far end of a migration, and does not run here yet.
        held: it is paused on its host as a migration left it.
        saved: its memory lies in a file on the host, to be loaded at its next start.
        makeup: see there.
        job: what it does now, if anything.
    """

    uuid: str
    name: str
    state: DomainState
    active: bool
    moving_in: bool = False
    held: bool = False
    saved: bool = False
    makeup: Makeup = Makeup()
    job: JobStats | None = None


@dataclass(frozen=True, slots=True)
class Way:
    """How a guest goes to another daemon.

    Args:
        destination: URI by which this daemon reaches the other one.
        stream: URI of the memory's own stream, `tcp://192.0.2.1`; "" leaves it to libvirt.
        copies: targets of the disks that are copied along.
        mib_per_second: at most; 0 is as fast as it goes.
        tls: QEMU's own streams are encrypted, by its certificates.
    """

    destination: str
    stream: str = ""
    copies: tuple[str, ...] = ()
    mib_per_second: int = 0
    tls: bool = False


@dataclass(frozen=True, slots=True)
class Definition:
    """A domain that is off, whole, to be defined elsewhere.

    Args:
        document: with what libvirt otherwise hides; for no log.
        autostart: it is started with its host.
    """

    document: str
    autostart: bool
