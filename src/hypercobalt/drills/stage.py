"""The environment of a drill: a lab of its own, its API, its VMs, and the witness."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeVar

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.eviction import Eviction
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType, ReadyReason
from hypercobalt.drills.record import DrillError, DrillRecord, Mark
from hypercobalt.drills.witness import Emulator, Witness
from hypercobalt.errors import HypercobaltError
from hypercobalt.lab import definitions, processes
from hypercobalt.lab.commands import cobalt_command, run
from hypercobalt.lab.control import becomes
from hypercobalt.lab.guest import ledger
from hypercobalt.lab.guest.bootsector import Program
from hypercobalt.lab.guest.ledger import Ledger
from hypercobalt.lab.host import Host
from hypercobalt.lab.lab import Lab, down
from hypercobalt.lab.setup import Setup
from hypercobalt.lab.vms.domain import ErrorPolicy
from hypercobalt.lab.vms.fleet import Fleet
from hypercobalt.lab.vms.request import VMRequest
from hypercobalt.runtime import Kube
from hypercobalt.runtime.tasks import beside

T = TypeVar("T")

NODE_GRACE: Final = timedelta(seconds=4)
_READY_SECONDS: Final = 60.0
_STORED_SECONDS: Final = 20.0
_WRITE_SECONDS: Final = 20.0
_INCIDENT_SECONDS: Final = 60.0
_NAMED: Final = 4  # guests in one line
_RETRY_SECONDS: Final = 0.2
"""Between two looks: most checks read processes and disks, of which nothing sends an event."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A lab in which everything works when the drill begins.

    Attributes:
        lab: the hosts; `lab.boards` are their BMCs.
        fleet: their VMs.
        kube: an administrator's client.
        witness: of all QEMUs.
        record: the timeline.
    """

    lab: Lab
    fleet: Fleet
    kube: Kube
    witness: Witness
    record: DrillRecord

    def host(self, name: str) -> Host:
        return self.lab.host(name)

    async def do(self, text: str, work: Awaitable[T]) -> T:
        """Do something to the lab."""
        self.record.add(Mark.DONE, text)
        return await work

    async def until(
        self, text: str, check: Callable[[], Awaitable[T | None]], *, within: float
    ) -> T:
        """Wait until a check gives something.

        Args:
            text: what then is the case.
            check: None or False: not yet.
            within: seconds.

        Raises:
            DrillError: it did not in time.
        """
        began = time.monotonic()
        while not (found := await check()):
            if time.monotonic() - began > within:
                raise DrillError(f"not within {within:g} s: {text}")
            await asyncio.sleep(_RETRY_SECONDS)
        self.record.add(Mark.SEEN, text, time.monotonic() - began)
        return found

    async def stays(
        self, text: str, check: Callable[[], Awaitable[object]], *, seconds: float
    ) -> None:
        """Look on for a while that something stays as it is.

        Raises:
            DrillError: it did not.
        """
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not await check():
                raise DrillError(f"no longer: {text}")
            await asyncio.sleep(_RETRY_SECONDS)
        self.record.add(Mark.SEEN, f"{text}, for {seconds:g} s")

    async def power_cut(self, host: str) -> float:
        """Cut the power of a host, and return the time, for `Record.measure`."""
        began = self.record.now
        await self.do(f"power cut of {host}", self.host(host).crash())
        return began

    async def kill(self, role: str) -> None:
        """Kill the lab's processes whose role begins with this: `ovn/` is all of OVN.

        Raises:
            LabError: one does not end.
        """
        await processes.kill(self.lab.state.id, lambda process: process.role.startswith(role))

    def signal(self, role: str, number: int) -> None:
        """Send a signal to the lab's processes of a role."""
        for process in processes.find(self.lab.state.id, role):
            processes.send(process, self.lab.state.id, number)

    # -- VMs -----------------------------------------------------------------------------------

    async def vms(
        self,
        host: str,
        count: int = 1,
        program: Program = "ledger",
        error_policy: ErrorPolicy = "stop",
        *,
        readonly: bool = False,
        memory_mib: int | None = None,
    ) -> tuple[str, ...]:
        """Start guests with shared disks on a host; their names."""
        names = [f"{host}-{program}-{number}" for number in range(1, count + 1)]
        requests = [
            VMRequest(
                name=name,
                kind="boot",
                program=program,
                host=host,
                disk="shared",
                network=False,
                error_policy=error_policy,
                readonly=readonly,
                memory_mib=memory_mib,
            )
            for name in names
        ]
        guests = "1 guest starts" if count == 1 else f"{count} guests start"
        await self.do(f"{guests} on {host} ({program})", self.fleet.add(*requests))
        if program != "poweroff":
            await self._are_stored(host, names)
        return tuple(names)

    async def _are_stored(self, host: str, vms: Sequence[str]) -> None:
        """Wait until the API has what a dead host's guests are made from."""

        async def check() -> bool:
            found = (await definitions.stored(self.kube, host)).domains
            return {one.name for one in found.values() if one.active} >= set(vms)

        await self.until("their definitions are in the API", check, within=_STORED_SECONDS)

    def ledgers(self) -> tuple[str, ...]:
        """Faults on the disks of the guests that keep a ledger; () without any."""
        folder = self.lab.layout.shared_files / "vms"
        images = sorted(folder.glob("*-ledger-*.img"))
        return tuple(f"{one.stem}: {fault}" for one in images for fault in ledger.read(one).faults)

    def ledger(self, vm: str) -> Ledger:
        """The ledger on a guest's disk."""
        return ledger.read(self.lab.layout.shared_files / "vms" / f"{vm}.img")

    async def write(self, *vms: str, within: float = _WRITE_SECONDS) -> None:
        """Wait until guests write further records, one after the other; seconds for each."""
        for vm in vms:
            before = self.records(vm)

            async def check(vm: str = vm, before: int = before) -> bool:
                return self.records(vm) > before

            await self.until(f"{vm} writes to its disk", check, within=within)

    def records(self, vm: str) -> int:
        """How many records a guest has written."""
        return ledger.count(self.lab.layout.shared_files / "vms" / f"{vm}.img")

    def emulators(self, vm: str) -> tuple[Emulator, ...]:
        """The QEMUs of a VM, on whatever host."""
        uuid = str(self.fleet.id_of(vm))
        return tuple(one for one in self.witness.emulators() if one.uuid == uuid)

    def pids(self, vms: Sequence[str]) -> frozenset[int]:
        """The processes of VMs, on whatever host."""
        return frozenset(emulator.pid for vm in vms for emulator in self.emulators(vm))

    def host_of(self, emulator: Emulator) -> str:
        hosts = (host.name for host in self.lab.hosts if host.machine == emulator.machine)
        return next(hosts, emulator.machine)

    async def runs(
        self,
        vms: Sequence[str],
        *,
        within: float,
        elsewhere: str = "",
        not_pids: Collection[int] = (),
    ) -> None:
        """Wait until every VM has one QEMU.

        Args:
            vms: their names.
            within: seconds.
            elsewhere: on any host but this one; "" for any host.
            not_pids: processes that do not count: those of before.
        """

        async def all_run() -> bool:
            found = [[e for e in self.emulators(vm) if e.pid not in not_pids] for vm in vms]
            return all(len(e) == 1 and self.host_of(e[0]) != elsewhere for e in found)

        where = f" on another host than {elsewhere}" if elsewhere else ""
        who = ", ".join(vms) if len(vms) <= _NAMED else f"{len(vms)} guests"
        verb = "runs" if len(vms) == 1 else "run"
        await self.until(f"{who} {verb}{where}", all_run, within=within)

    # -- the API -------------------------------------------------------------------------------

    async def hypervisor(self, name: str) -> Hypervisor:
        """A host's Hypervisor.

        Raises:
            DrillError: there is none.
        """
        found = await self.kube.get(Hypervisor, name)
        if found is None:
            raise DrillError(f"Hypervisor {name} is gone")
        return found

    async def becomes(
        self, name: str, text: str, right: Callable[[Hypervisor], object], *, within: float
    ) -> None:
        """Wait until a host's Hypervisor is as expected; what decides is in the object alone.

        Raises:
            DrillError: it is not in time, or there is none.
        """
        began = time.monotonic()
        text = f"{name}: {text}"
        if not right(await self.hypervisor(name)):
            try:
                async with asyncio.timeout(within):
                    await becomes(self.kube, Hypervisor, name, right)
            except TimeoutError:
                raise DrillError(f"not within {within:g} s: {text}") from None
        self.record.add(Mark.SEEN, text, time.monotonic() - began)

    async def incident_begins(self, host: str, vm: str) -> None:
        """Wait until a host reports an incident of a VM."""

        async def check() -> bool:
            return await self._has_incident(host, vm)

        await self.until(f"an incident of {vm} is open", check, within=_INCIDENT_SECONDS)

    async def incident_ends(self, host: str, vm: str) -> None:
        """Wait until a host reports no incident of a VM."""

        async def check() -> bool:
            return not await self._has_incident(host, vm)

        await self.until(f"no incident of {vm} is open", check, within=_INCIDENT_SECONDS)

    async def _has_incident(self, host: str, vm: str) -> bool:
        uuid = str(self.fleet.id_of(vm))
        found = (await self.hypervisor(host)).status.incidents or ()
        return any(one.instance == uuid for one in found)

    async def explains(self, host: str, words: str) -> None:
        """Check what `cobalt explain` prints of a host.

        Raises:
            DrillError: those words are not in it.
        """
        command = (str(cobalt_command()), "explain", host)
        kubeconfig = f"--kubeconfig={self.lab.control.kubeconfig}"
        text = await run(*command, kubeconfig)
        if words not in " ".join(text.split()):
            raise DrillError(f"`cobalt explain {host}` prints no {words!r}: {text}")
        self.record.add(Mark.SEEN, f"`cobalt explain {host}` has: {words}")

    async def evictions(self) -> tuple[Eviction, ...]:
        return tuple((await self.kube.list(Eviction)).items)


def is_ready(hypervisor: Hypervisor) -> bool:
    ready = get_condition(hypervisor.conditions, HypervisorConditionType.READY)
    return ready is not None and ready.reason == ReadyReason.READY


@asynccontextmanager
async def staged(
    hosts: int, record: DrillRecord, data: Path | None = None
) -> AsyncGenerator[Stage]:
    """Boot a lab for a drill, and take it down afterwards.

    Args:
        hosts: how many.
        record: of the drill.
        data: of the lab, which stays there after a failure; a temporary one when not given.

    Raises:
        HypercobaltError: it cannot be booted.
    """
    with tempfile.TemporaryDirectory(prefix="cobalt-drill-") as folder:
        place = data or Path(folder) / "lab"
        stays = False
        try:
            lab = await Lab.make(place, api_port=0, node_grace=NODE_GRACE)
            await lab.up(Setup(hosts=hosts))
            witness = Witness(lab.state.prefix)
            async with lab.control.client() as kube, beside(witness.watch(), name="witness"):
                stage = Stage(lab, Fleet(lab), kube, witness, record)
                for host in lab.hosts:
                    await stage.becomes(host.name, "Ready", is_ready, within=_READY_SECONDS)
                yield stage
        except (HypercobaltError, OSError):
            stays = data is not None
            raise
        finally:
            if not stays:
                await asyncio.shield(down(place))
