"""One host: a whole operating system in namespaces, with systemd as its first process.

What a host is doing is read from the kernel each time, so that any command may find, break or
repair what another one made.

Source: systemd-nspawn(1), systemd(1) (signals), nsenter(1).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from hypercobalt.lab import cgroups, processes
from hypercobalt.lab.binds import escaped
from hypercobalt.lab.commands import DEADLINE, PATH, execute
from hypercobalt.lab.disk import Disk, HostIdentity
from hypercobalt.lab.errors import CommandError, LabError
from hypercobalt.lab.guest import image
from hypercobalt.lab.network.bridge import port_of
from hypercobalt.lab.network.data_cables import DataCables
from hypercobalt.lab.network.member_faults import MemberFaults
from hypercobalt.lab.network.rack import Rack
from hypercobalt.lab.network.wire import Wire
from hypercobalt.lab.notify import NotifySocket
from hypercobalt.lab.pods.running.settings import IMAGES
from hypercobalt.lab.state import HostRecord, LabState, Layout

BOOT = timedelta(seconds=90)  # seconds on an idle machine
SHUTDOWN = timedelta(seconds=60)  # inhibitors may delay it, each unit has 8 s to stop
_STOPPING = timedelta(seconds=5)  # milliseconds, unless a disk does not answer
SHARED = "/var/lib/hypercobalt/shared"
"""In a host: the directory that all hosts share, for VM disks."""
GUESTS = "/var/lib/hypercobalt/guests"
"""In a host: the machine's cache of guest images."""
EMULATORS = "/var/cache/libvirt/qemu/capabilities"
"""In a host: what its libvirt has found out about QEMU; see `_nspawn`."""
SERVICES = (
    "libvirtd.service",
    "libvirtd-tcp.socket",
    "openvswitch-switch.service",
    "ovs-vswitchd.service",
    "ovsdb-server.service",
)
_DEVICES = ("/dev/kvm", "/dev/net/tun")
_SIGNAL_POWEROFF = signal.SIGRTMIN + 4
_NSPAWN_RUN = Path("/run/systemd/nspawn")
_BOOTED = {"running", "degraded", "maintenance", "stopping"}


class HostPower(StrEnum):
    """Power states of a host."""

    OFF = "off"
    RUNNING = "running"
    FROZEN = "frozen"


@dataclass(frozen=True, slots=True)
class HostPlace:
    """The lab that a host belongs to."""

    layout: Layout
    state: LabState
    oldest: processes.Oldest
    binds: tuple[Path, ...]  # read-only paths of the machine that every host sees


class Host:
    """One host of a lab."""

    def __init__(self, place: HostPlace, record: HostRecord) -> None:
        self._layout, self.binds, self.name = place.layout, place.binds, record.name
        self._lab, self._oldest = place.state.id, place.oldest
        self.address = place.state.host_address(record)
        self._bounds = place.state.virt  # its pods have limits
        self.pod_network = place.state.pod_network(record)
        self.machine = f"{place.state.prefix}-{record.index}"
        self.bridge = place.state.bridge
        log = place.layout.log / f"wire-{self.name}.log"
        faults = MemberFaults(place.layout.member_faults / self.machine)
        rack = Rack(place.layout, place.state, place.oldest)
        data = DataCables(rack, self.name, record.index, faults)
        self.wire = Wire(self._lab, self.name, port_of(self.machine), self.bridge, log, data)
        self.disk = Disk(place.layout.host(record.name))
        self.identity = HostIdentity(self._lab, self.name, self.address)

    # -- what it is ----------------------------------------------------------------------------

    @property
    def leader_pid(self) -> int | None:
        """The host's first process, as the machine numbers it; None while it is off."""
        found = self._oldest.find(f"leader/{self.name}")
        return found.pid if found else None

    def leader(self) -> int:
        """Return `leader_pid` of a host that is on.

        Raises:
            LabError: the host is off.
        """
        if (leader := self.leader_pid) is None:
            raise LabError(f"host {self.name} is off; start it with `cobalt lab host start`")
        return leader

    @property
    def power(self) -> HostPower:
        leader = self.leader_pid
        if leader is None:
            return HostPower.OFF
        state = processes.state(leader)
        return HostPower.FROZEN if state == "T" else HostPower.RUNNING if state else HostPower.OFF

    def pids(self) -> Iterator[int]:
        """Every process of the host, as the machine numbers them."""
        leader = self.leader_pid
        inside = _namespace(leader) if leader else None
        if inside is None:
            return
        yield from (pid for pid in processes.pids() if _namespace(pid) == inside)

    def memory_bytes(self) -> int:
        """What its processes hold, shared pages counted in shares (PSS)."""
        return sum(_pss_bytes(pid) for pid in self.pids())

    # -- work in it ----------------------------------------------------------------------------

    async def run(
        self,
        *argv: str,
        stdin: str | bytes | None = None,
        within: timedelta = DEADLINE,
        env: Mapping[str, str] | None = None,
    ) -> str:
        """What a command prints on stdout when it is run in the host.

        Args:
            argv: program and arguments; no shell.
            stdin: what it reads; None is nothing.
            within: after which it is killed.
            env: variables beside PATH, HOME and LANG.

        Raises:
            LabError: the host is off.
            CommandError: the command failed or was not done in time.
        """
        done = await execute(self.entering(*argv, env=env), stdin=stdin, within=within)
        if done.code:
            raise CommandError(argv, done.code, done.stderr or done.stdout, self.name)
        return done.stdout

    def entering(self, *argv: str, env: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """The command line of the machine that runs a command in the host.

        Raises:
            LabError: the host is off.
        """
        leader = self.leader()
        variables = {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", **(env or {})}
        settings = (f"{name}={value}" for name, value in variables.items())
        return ("nsenter", "-t", str(leader), "-a", "env", "-i", *settings, *argv)

    # -- power ---------------------------------------------------------------------------------

    async def start(self, addresses: Mapping[str, str]) -> None:
        """Boot, from the disk as it was left, and wait until libvirt and Open vSwitch are up.

        Args:
            addresses: of every name that the host has to resolve.

        Raises:
            LabError: it does not come up, or one of its services failed.
        """
        await self.disk.prepare(self.identity, addresses)
        if self.leader_pid is None:
            await self._boot()
        await self.check_services()

    async def _boot(self) -> None:
        await self._end()  # the remains of the last run after a power cut
        log = self._layout.log / f"host-{self.name}.log"
        with NotifySocket(f"{self._lab}/{self.name}") as socket:
            env = {"PATH": PATH, "NOTIFY_SOCKET": socket.address}
            groups = [
                str(group / "cgroup.procs")
                for group in cgroups.make(self.machine, bounds=self._bounds)
            ]
            # The shell joins the groups and becomes nspawn.
            script = 'n=$1; shift; while [ $n -gt 0 ]; do echo $$ >"$1"; shift; n=$((n-1)); done; '
            pid = await processes.spawn(
                (
                    "/bin/sh",
                    "-c",
                    f'{script} exec "$@"',
                    "sh",
                    str(len(groups)),
                    *groups,
                    *self._nspawn(),
                ),
                lab_id=self._lab,
                role=f"host/{self.name}",
                log=log,
                env=env,
            )
            await self._wait_for_boot(socket, pid, log)
        bounds = f"{cgroups.ALLOW_BOUNDS} && " if self._bounds else ""
        await self.run("sh", "-c", bounds + cgroups.SHOW_OWN_KILLS)

    async def _wait_for_boot(self, socket: NotifySocket, pid: int, log: Path) -> None:
        ready = asyncio.create_task(socket.ready(), name=f"ready-{self.name}")
        ended = asyncio.create_task(processes.ended(pid, BOOT), name=f"ended-{self.name}")
        try:
            await asyncio.wait({ready, ended}, return_when=asyncio.FIRST_COMPLETED)
            if not ready.done():
                why = "ended while it booted" if ended.result() else f"is not up after {BOOT}"
                raise LabError(f"host {self.name} {why}: {processes.tail(log)}")
        finally:
            for task in (ready, ended):
                task.cancel()
            await asyncio.wait({ready, ended})

    def _nspawn(self) -> tuple[str, ...]:
        binds = (f"--bind-ro={escaped(path)}" for path in self.binds)
        devices = (f"--bind={device}" for device in _DEVICES if Path(device).exists())
        shared, images = self._layout.shared, self._layout.images
        guests = image.cache_directory()
        # Each libvirt would start every emulator twice to see what it can: seconds of each core,
        # and up to a minute on a busy machine, until a host has a status or starts its first guest.
        # So they share what one has found: libvirt itself detects when it no longer holds.
        emulators = guests.with_name("emulators")
        for folder in (guests, emulators):
            folder.mkdir(parents=True, exist_ok=True)
        return (
            "systemd-nspawn",
            "--quiet",
            "--boot",
            "--console=pipe",
            "--register=no",
            "--keep-unit",
            "--notify-ready=yes",
            "--capability=all",
            "--system-call-filter=@known",
            "--resolv-conf=off",
            "--timezone=off",
            "--link-journal=no",
            f"--directory={self.disk.root}",
            f"--machine={self.machine}",
            f"--hostname={self.name}",
            f"--uuid={self.identity.machine_id}",
            f"--network-bridge={self.bridge}",
            f"--setenv={processes.mark(self._lab, f'leader/{self.name}')}",
            *devices,
            *binds,
            f"--bind-ro={escaped(guests)}:{GUESTS}",
            f"--bind={escaped(emulators)}:{EMULATORS}",
            *((f"--bind={escaped(shared)}:{SHARED}",) if shared.exists() else ()),
            *((f"--bind-ro={escaped(images)}:{IMAGES}",) if images.exists() else ()),
        )

    async def check_services(self) -> None:
        """Wait until it has booted, and make sure that libvirt and Open vSwitch run.

        Raises:
            LabError: the host is off, or one of them does not run.
        """
        await self._booted()
        active = await execute(self.entering("systemctl", "is-active", *SERVICES))
        # Its exit code is 0 when at least one is.
        states = dict(zip(SERVICES, active.stdout.split(), strict=True))
        if dead := [f"{unit} is {state}" for unit, state in states.items() if state != "active"]:
            raise LabError(
                f"host {self.name}: {', '.join(dead)}; "
                f"see `cobalt lab exec {self.name} journalctl -b`"
            )

    async def _booted(self) -> None:
        """Wait until a host that was found, and may be booting still, has booted."""
        wait = self.entering("systemctl", "is-system-running", "--wait")
        try:
            async with asyncio.timeout(BOOT.total_seconds()):
                # `--wait` fails until systemd has its bus, which nothing reports.
                while True:
                    if (await execute(wait, within=BOOT)).stdout.strip() in _BOOTED:
                        return
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise LabError(f"host {self.name} has not booted within {BOOT}") from None

    async def shutdown(self) -> None:
        """Power off in order, as a person does: inhibitors and guests get their time.

        Raises:
            LabError: it is still on after a minute.
        """
        nspawn = processes.find(self._lab, f"host/{self.name}")
        if not nspawn:
            return
        done = await execute(self.entering("systemctl", "--no-wall", "--no-block", "poweroff"))
        if done.code:  # no D-Bus: systemd itself takes a signal
            for leader in processes.find(self._lab, f"leader/{self.name}"):
                processes.send(leader, self._lab, _SIGNAL_POWEROFF)
        if not await processes.ended(nspawn[0].pid, SHUTDOWN):
            raise LabError(
                f"host {self.name} is still on {SHUTDOWN} after the request to power off; "
                f"`cobalt lab host crash {self.name}` ends it"
            )
        await self._end()

    async def crash(self) -> None:
        """Cut the power: everything in the host is gone at once, guests included.

        Raises:
            LabError: it does not end.
        """
        await self._end()

    async def _end(self) -> None:
        roles = {f"host/{self.name}", f"leader/{self.name}"}
        await processes.kill(self._lab, lambda process: process.role in roles)
        await self.wire.remove()
        cgroups.remove(self.machine)
        for left in ("propagate", "unix-export"):
            with contextlib.suppress(OSError):
                (_NSPAWN_RUN / left / self.machine).rmdir()
        with contextlib.suppress(OSError):
            disk = self.disk.root.stat()
            (_NSPAWN_RUN / "locks" / f"inode-{disk.st_dev}:{disk.st_ino}").unlink()

    async def freeze(self) -> None:
        """Stop every process where it is, guests included; it looks dead from outside.

        Raises:
            LabError: the host is off, or a process does not stop.
        """
        await self._signal_all(signal.SIGSTOP, "TZX")

    async def thaw(self) -> None:
        """Let a frozen host go on, as if no time had passed.

        Raises:
            LabError: the host is off, or a process does not go on.
        """
        await self._signal_all(signal.SIGCONT, "RSDIZX")

    async def _signal_all(self, number: signal.Signals, wanted: str) -> None:
        self.leader()
        done: set[int] = set()
        while fresh := set(self.pids()) - done:  # what was forked meanwhile
            for pid in fresh:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            done |= fresh
        left = done
        try:
            async with asyncio.timeout(_STOPPING.total_seconds()):
                # A process does it when it leaves the kernel, and only its parent is notified.
                while left := {  # noqa: ASYNC110
                    pid for pid in left if (processes.state(pid) or "X") not in wanted
                }:
                    await asyncio.sleep(0.001)
        except TimeoutError:
            raise LabError(f"host {self.name}: {number.name} does not reach {left}") from None

    async def remove(self) -> None:
        """Cut the power and throw the host away.

        Raises:
            LabError: something of it is still in use.
        """
        await self._end()
        await self.disk.remove()


def _namespace(pid: int) -> int | None:
    try:
        return Path(f"/proc/{pid}/ns/pid").stat().st_ino
    except OSError:
        return None


def _pss_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
