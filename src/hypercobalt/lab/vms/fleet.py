"""All VMs of a lab: made, moved and removed through the libvirt of their hosts.

libvirt is the only record of what there is. A VM's disk, console and port are named after it, so
that each can be found and removed whatever became of the others.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import uuid
from collections.abc import AsyncGenerator, Coroutine, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from hypercobalt.lab import membership
from hypercobalt.lab.disk import CONSOLES
from hypercobalt.lab.errors import CommandError, LabError, LabRequestError
from hypercobalt.lab.guest import bootsector, console, image, probe
from hypercobalt.lab.host import SHARED, Host, HostPower
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.machine import facts
from hypercobalt.lab.vms import blueprint
from hypercobalt.lab.vms.blueprint import Guests, VMIds, disk_path
from hypercobalt.lab.vms.domain import Domain
from hypercobalt.lab.vms.inventory import Inventory
from hypercobalt.lab.vms.request import ListedVm, Placement, VMRequest, check_memory, place
from hypercobalt.lab.vms.switch import Switch
from hypercobalt.lab.vms.virsh import begins, defined, listed, migrate, remove, runs, virsh

T = TypeVar("T")

UP = timedelta(seconds=60)  # two or three seconds on an idle machine, also under TCG
STOP = timedelta(seconds=30)
_POLL_SECONDS = 0.05
_STOPPING_SECONDS = 0.2
_MIB = 1024 * 1024


class Fleet:
    """The VMs of a lab."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._switch = Switch(lab.central)
        self._guests: asyncio.Task[Guests] | None = None

    # -- what is there -------------------------------------------------------------------------

    async def inventory(self) -> Inventory:
        """What every host's libvirt lists."""
        hosts = self._lab.hosts
        answers = await asyncio.gather(*(listed(host) for host in hosts))
        vms = [vm for answer in answers if not isinstance(answer, str) for vm in answer]
        pairs = zip(hosts, answers, strict=True)
        silent = {host.name: answer for host, answer in pairs if isinstance(answer, str)}
        return Inventory(tuple(sorted(vms, key=lambda vm: (vm.host, vm.name))), silent)

    async def guests(self) -> Guests:
        """The guest image and how to run it; built and probed at its first use.

        Raises:
            LabError: QEMU is not there.
        """
        if self._guests is None:
            self._guests = asyncio.create_task(_guests(), name="guest image")
        return await asyncio.shield(self._guests)

    def host(self, name: str) -> Host:
        """A host by its name.

        Raises:
            LabError: there is none of that name.
        """
        return self._lab.host(name)

    def log(self, name: str) -> Path:
        """What a VM has printed on its serial port, on the machine."""
        return self._lab.layout.shared_files / "consoles" / f"{name}.log"

    def id_of(self, name: str) -> uuid.UUID:
        """The UUID of a VM of that name, in this lab."""
        return uuid.uuid5(uuid.UUID(self._lab.state.id), f"vm/{name}")

    # -- come and go ---------------------------------------------------------------------------

    async def add(self, *requests: VMRequest) -> tuple[ListedVm, ...]:
        """Make VMs, side by side, and wait until each has printed its first line.

        Raises:
            LabError: one cannot be made; it is removed again, the others stay. Or the lab has an
                OpenStack, which would not have it among its servers.
        """
        if not requests:
            return ()
        if self._lab.state.openstack:
            raise LabRequestError(
                f"the lab in {self._lab.layout.data} has an OpenStack: make servers with "
                f"Nova, with OS_CLIENT_CONFIG_FILE={self._lab.layout.clouds}"
            )
        check_memory(requests, facts.available_bytes() // _MIB)
        guests = await self.guests()
        async with self._alone():
            inventory = await self.inventory()
            there = self._listed(inventory)
            placements = place(requests, there, silent=inventory.silent)
            defined = await asyncio.gather(
                *(self._define(one, guests) for one in placements), return_exceptions=True
            )
        made = [one for one in defined if isinstance(one, ListedVm)]
        await self._each((f"VM {one.name} on {one.host}", self._boot(one)) for one in made)
        for one in defined:
            if isinstance(one, BaseException):
                raise one
        return tuple(made)

    @asynccontextmanager
    async def _alone(self) -> AsyncGenerator[None]:
        """Be the only one who gives names and addresses, among all commands on this lab."""
        folder = self._lab.layout.data / "vms"
        folder.mkdir(exist_ok=True)
        lock = os.open(folder, os.O_RDONLY)
        try:
            await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _listed(self, inventory: Inventory) -> dict[str, list[str]]:
        """The names of the VMs on each host that lists them."""
        return {
            host.name: [vm.name for vm in inventory.vms if vm.host == host.name]
            for host in self._lab.hosts
            if host.name not in inventory.silent
        }

    async def revive(self) -> None:
        """Start every VM of the lab's own that is off, side by side; not a person's domains.

        High availability starts some of them itself; these are waited for.

        Raises:
            LabError: one does not come up; the others do.
        """
        vms = [vm for vm in (await self.inventory()).vms if vm.title]
        off = [vm for vm in vms if vm.is_asleep or await begins(self.host(vm.host), vm.name)]
        await self._each(
            (f"VM {vm.name} on {vm.host}", self._start(self.host(vm.host), vm.name)) for vm in off
        )

    async def _each(self, steps: Iterable[tuple[str, Coroutine[None, None, T]]]) -> tuple[T, ...]:
        """Do all, side by side and each to its end, and report each; then raise the first error."""
        tasks = [(name, asyncio.create_task(work, name=name)) for name, work in steps]
        reports = (self._lab.step(name, task) for name, task in tasks)
        await asyncio.gather(*reports, return_exceptions=True)
        return tuple(task.result() for _, task in tasks)

    async def _define(self, placement: Placement, guests: Guests) -> ListedVm:
        host = self.host(placement.host)
        try:
            domain = await self._prepared(placement, host, guests)
            await virsh(host, "define", "/dev/stdin", stdin=domain.xml())
        except BaseException:
            await asyncio.shield(self._clear(host, placement.name))
            raise
        return ListedVm(placement.name, host.name, "running", domain.title)

    async def _boot(self, vm: ListedVm) -> None:
        host = self.host(vm.host)
        try:
            await self._start(host, vm.name)
        except BaseException:
            await asyncio.shield(self._clear(host, vm.name))
            raise

    async def _prepared(self, placement: Placement, host: Host, guests: Guests) -> Domain:
        request, name = placement.request, placement.name
        self._discard_log(name)  # of a namesake whose host was thrown away
        identity = VMIds(self.id_of(name), self._port_id(name))
        address = None
        if request.network and self._lab.running.ovn:
            address = await self._switch.attach(name, identity.port)
        domain = blueprint.domain(placement, identity, address, guests)
        content = b""
        if request.kind == "boot":
            content = bootsector.image(request.program, memory_mib=request.memory)
        for disk in domain.disks:
            await _allocate(host, disk.path, str(request.disk_mib * _MIB), content)
        return domain

    async def remove(self, name: str) -> None:
        """Cut a VM's power and throw it away with its disk, console and port.

        Raises:
            LabError: no host has it, or a host refuses.
        """
        inventory = await self.inventory()
        inventory.find(name)
        for vm in inventory.vms:
            if vm.name == name:
                await self._clear(self.host(vm.host), name)

    async def _clear(self, host: Host, name: str) -> None:
        files = (disk_path(name, host_only=True), disk_path(name, host_only=False))
        await remove(host, name, *files, f"{CONSOLES}/{name}.sock")
        await self._forget(name)

    async def _forget(self, name: str) -> None:
        if self._lab.running.ovn:
            await self._switch.detach(self._port_id(name))
        self._discard_log(name)

    def _discard_log(self, name: str) -> None:
        log = self.log(name)
        for file in (log, *log.parent.glob(f"{log.name}.*")):
            file.unlink(missing_ok=True)

    async def remove_host(self, name: str) -> None:
        """Cut a host's power and throw it away, with its objects and its VMs.

        Raises:
            HypercobaltError: there is no such host, or something of it is in use.
        """
        gone = defined(self.host(name))
        for host in self._lab.hosts:  # one that has moved is another's, whatever is left here
            if host.name != name:
                gone -= defined(host)
        await membership.remove_host(self._lab, name)
        for vm in sorted(gone):
            await self._forget(vm)
            (self._lab.layout.shared_files / "vms" / f"{vm}.img").unlink(missing_ok=True)

    # -- run -----------------------------------------------------------------------------------

    async def start(self, name: str) -> None:
        """Start a VM that is off, and wait for its first line.

        Raises:
            LabError: no host has it, or it does not come up.
        """
        vm = (await self.inventory()).find(name)
        await self._start(self.host(vm.host), name)

    async def _start(self, host: Host, name: str) -> None:
        await host.run("mkdir", "-p", f"{SHARED}/consoles")
        log = self.log(name)
        offset = log.stat().st_size if log.exists() else 0
        early = False
        try:
            await virsh(host, "start", name)
        except CommandError:
            if name not in (await virsh(host, "list", "--name")).split():
                raise
            early = True  # high availability was quicker, and may still be at it
        try:
            async with asyncio.timeout(UP.total_seconds()):
                while not (await runs(host, name) if early else console.is_up(log, offset)):
                    await _moment()
        except TimeoutError:
            raise LabError(
                f"VM {name} on {host.name} has printed nothing in {UP}; see {log}"
            ) from None

    async def stop(self, name: str) -> None:
        """Press a VM's power button, and wait until it is off.

        Raises:
            LabError: no host has it, or it is still on after half a minute.
        """
        host = self.host((await self.inventory()).find(name).host)
        await virsh(host, "shutdown", name)
        try:
            async with asyncio.timeout(STOP.total_seconds()):
                # Each look is a process in the host.
                while (await virsh(host, "domstate", name)).strip() != "shut off":  # noqa: ASYNC110
                    await asyncio.sleep(_STOPPING_SECONDS)
        except TimeoutError:
            raise LabError(
                f"VM {name} on {host.name} ignores its power button; "
                f"`cobalt lab exec {host.name} virsh destroy {name}` cuts its power"
            ) from None

    async def order(
        self, name: str, command: str, *, within: timedelta = timedelta(seconds=10)
    ) -> str:
        """Have the Linux guest of a VM do something; see `guest/init.sh` for the orders.

        Returns:
            What it answered after `ok COMMAND`.

        Raises:
            LabError: no host has it, or the guest refuses or does not answer.
        """
        host = self.host((await self.inventory()).find(name).host)
        socket = host.disk.root / CONSOLES[1:] / f"{name}.sock"
        return await console.send(socket, command, within=within)

    # -- move ----------------------------------------------------------------------------------

    async def move(self, name: str, target: str, *, mib_per_second: int | None = None) -> None:
        """Migrate a running VM live; a disk that only its host sees is copied along.

        Args:
            name: of the VM.
            target: name of the host.
            mib_per_second: at most; None is as fast as it goes.

        Raises:
            LabError: VM or host are not there or not running, or libvirt gives up; the VM then
                runs on where it was.
        """
        vm = (await self.inventory()).find(name)
        source, destination = self.host(vm.host), self.host(target)
        if vm.host == target:
            raise LabRequestError(f"VM {name!r} is on {target} already")
        if destination.power is not HostPower.RUNNING:
            raise LabError(f"host {target} is {destination.power}; a VM cannot go there")
        flags = ["--live", "--p2p", "--persistent", "--undefinesource"]
        if mib_per_second:
            flags += ["--bandwidth", str(mib_per_second)]
        local = disk_path(name, host_only=True)
        copies = local in await virsh(source, "domblklist", name)
        if copies:
            flags.append("--copy-storage-all")
        async with self._port_on_both(self._port_id(name), source, destination):
            if copies:
                size = (await source.run("stat", "--format=%s", local)).strip()
                await _allocate(destination, local, size)
            try:
                await migrate(source, name, target, flags)
            finally:
                if copies:
                    await asyncio.shield(_drop_copy(name, source, destination))

    @asynccontextmanager
    async def _port_on_both(
        self, port: uuid.UUID, source: Host, destination: Host
    ) -> AsyncGenerator[None]:
        """Let both hosts have a VM's port; afterwards the one that the VM is on."""
        if not (self._lab.running.ovn and await self._switch.has(port)):
            yield
            return
        await self._switch.bind(port, source.name, destination.name)
        try:
            yield
        except BaseException:
            await asyncio.shield(self._switch.bind(port, source.name))
            raise
        await self._switch.bind(port, destination.name)

    def _port_id(self, name: str) -> uuid.UUID:
        return uuid.uuid5(self.id_of(name), "port")


async def _guests() -> Guests:
    try:
        built, lack = await image.ready(), ""
    except LabError as exc:  # boot sectors need no packages
        built, lack = None, str(exc)
    return Guests(built, await probe.accelerators(built), lack)


async def _allocate(host: Host, path: str, size_bytes: str, content: bytes = b"") -> None:
    script = 'mkdir -p "${1%/*}" && cat >"$1" && truncate -s "$2" "$1"'
    await host.run("sh", "-c", script, "sh", path, size_bytes, stdin=content)


async def _moment() -> None:
    await asyncio.sleep(_POLL_SECONDS)


async def _drop_copy(name: str, *hosts: Host) -> None:
    """Delete a VM's local disk where it does not run; nowhere, unless it runs on just one host."""
    running = ("list", "--name", "--state-running")
    keeps = [host for host in hosts if name in (await virsh(host, *running)).split()]
    for host in hosts if len(keeps) == 1 else ():
        if host not in keeps:
            await host.run("rm", "-f", disk_path(name, host_only=True))
