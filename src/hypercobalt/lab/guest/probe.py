"""Does KVM run our guests here? Found out by running them, once per boot of the machine.

`/dev/kvm` alone proves little: where KVM is itself a guest's, a Linux kernel can hang in silence,
and a halted boot sector can keep a core busy. So each kind of guest is started under KVM once, with
a deadline, and gets TCG where it does not show its first line in time or spins when it is idle. The
result is kept for as long as the machine runs the same kernel and QEMU.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Literal

import msgspec

from hypercobalt.lab import commands
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.guest import bootsector, console, image
from hypercobalt.lab.guest.image import Image

# What libvirt calls them in `<domain type=…>`; `qemu` is TCG.
DomainType = Literal["kvm", "qemu"]

QEMU = "qemu-system-x86_64"
_KVM = Path("/dev/kvm")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_LINUX_DEADLINE = timedelta(seconds=5)  # where KVM works, a guest is up in well under one
_BOOT_DEADLINE = timedelta(seconds=1)  # TCG needs a third of it
_IDLE = timedelta(milliseconds=500)
_BUSY = 0.5  # of a core, in a guest that has nothing to do
_POLL = timedelta(milliseconds=20)
_MEMORY_MIB = "160"


class Accelerators(msgspec.Struct, frozen=True):
    """How to run each kind of guest on this machine.

    Args:
        linux: for the Linux guest.
        boot: for boot sectors.
        why: for a person: what the probe saw, one sentence.
    """

    linux: DomainType
    boot: DomainType
    why: str


async def accelerators(guest: Image | None, cache: Path | None = None) -> Accelerators:
    """Accelerators found by the probe, run once per boot of the machine.

    Args:
        guest: the Linux guest; None where it cannot be built.
        cache: where the result is kept.

    Raises:
        LabError: QEMU is not installed.
    """
    kept = (cache or image.cache_directory()) / f"accelerators-{await _machine(guest)}.json"
    try:
        return msgspec.json.decode(kept.read_bytes(), type=Accelerators)
    except (OSError, msgspec.DecodeError):
        found = await _probe(guest)
    _keep(kept, found)
    return found


async def _machine(guest: Image | None) -> str:
    """Stands for all that the result depends on."""
    version = (await commands.run(QEMU, "--version")).splitlines()[0]
    boot_id = await asyncio.to_thread(_BOOT_ID.read_text)
    uname = os.uname()
    facts = (boot_id.strip(), uname.release, version, os.access(_KVM, os.W_OK))
    return hashlib.sha256(repr((*facts, guest and guest.key)).encode()).hexdigest()[:16]


def _keep(path: Path, found: Accelerators) -> None:
    new = path.with_suffix(f".{os.getpid()}")
    new.write_bytes(msgspec.json.encode(found))
    new.replace(path)


async def _probe(guest: Image | None) -> Accelerators:
    if not os.access(_KVM, os.R_OK | os.W_OK):
        return Accelerators("qemu", "qemu", f"{_KVM} is not there or not ours to use")
    with tempfile.TemporaryDirectory(prefix="hypercobalt-probe-") as directory:
        work = Path(directory)
        sector = work / "idle.img"
        sector.write_bytes(bootsector.image("idle", delay=timedelta(0)))
        drive = ("-drive", f"file={sector},format=raw")
        boot = await _trouble(work / "boot", _BOOT_DEADLINE, *drive)
        if boot:  # a machine that cannot halt a boot sector cannot run Linux either
            return Accelerators("qemu", "qemu", f"under KVM a boot sector {boot}")
        if guest is None:
            return Accelerators("qemu", "kvm", "under KVM a boot sector runs; there is no other")
        line = f"{image.COMMAND_LINE} guest.name=probe"
        linux = await _trouble(
            *(work / "linux", _LINUX_DEADLINE),
            *("-kernel", str(guest.kernel), "-initrd", str(guest.initrd), "-append", line),
        )
    if linux:
        return Accelerators("qemu", "kvm", f"under KVM a Linux guest {linux}")
    return Accelerators("kvm", "kvm", "under KVM both kinds of guests run")


async def _trouble(log: Path, deadline: timedelta, *argv: str) -> str:
    """What is wrong with a guest under KVM; empty if it is up in time and then idles."""
    try:
        process = await asyncio.create_subprocess_exec(
            *(QEMU, "-accel", "kvm", "-nodefaults", "-no-user-config", "-display", "none"),
            *("-m", _MEMORY_MIB, "-serial", f"file:{log}", *argv),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError as exc:
        raise LabError(f"{QEMU} cannot be started: {exc.strerror}") from exc
    try:
        async with asyncio.timeout(deadline.total_seconds()):
            while not console.is_up(log):
                if process.returncode is not None:
                    return "does not start"
                await asyncio.sleep(_POLL.total_seconds())
        before = _cpu_seconds(process.pid)
        await asyncio.sleep(_IDLE.total_seconds())
        busy = (_cpu_seconds(process.pid) - before) / _IDLE.total_seconds()
    except TimeoutError:
        return f"shows no line in {deadline.total_seconds():g} s"
    finally:
        if process.returncode is None:
            process.kill()
        await asyncio.shield(process.wait())
    return f"that halts takes {busy:.0%} of a core" if busy > _BUSY else ""


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it ended; the next look at its return code shows that
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
