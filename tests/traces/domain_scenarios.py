"""What can happen to a domain, done to a small guest on a real host: `ha.md`'s table, row by row.

Each scenario is recorded once (`record_domains`), and done again by a lab test that compares.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from hypercobalt.adapters.libvirt.connection import LibvirtConnection, connect
from hypercobalt.adapters.libvirt.events import Connected, Disconnected, DomainEvent, EventKind
from hypercobalt.adapters.libvirt.model import Versions
from hypercobalt.adapters.libvirt.port import DomainHungError
from hypercobalt.adapters.libvirt.vocabulary import Lifecycle
from hypercobalt.lab.disk import LOCAL
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.guest.bootsector import Program
from hypercobalt.lab.host import Host
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.setup import Setup
from hypercobalt.lab.vms.domain import CrashAction, ErrorPolicy, Watchdog, WatchdogAction
from hypercobalt.lab.vms.fleet import Fleet
from hypercobalt.lab.vms.request import Storage, VMRequest
from hypercobalt.runtime import SystemClock
from tests.traces.domain_trace import Found, Link, Side
from tests.traces.trace import Recorded

VM: Final = "a"
BARE: Final = Setup(control_plane=False, ovn=False, operator=False)
_BOUND: Final = 60.0
_DISKS: Final = f"{LOCAL}/vms"
_MIGRATE: Final = ("migrate", "--live", "--p2p", "--persistent", "--undefinesource", VM)


class Recorder:
    """Listens to one host.

    Attributes:
        events: of the domain, so far.
        links: changes of the connection, so far.
    """

    def __init__(self, libvirt: LibvirtConnection, uuid: str, began: datetime) -> None:
        self.libvirt = libvirt
        self._uuid, self._began = uuid, began
        self.events: list[Recorded] = []
        self.links: list[Link] = []
        self.versions: Versions | None = None
        self._news = asyncio.Condition()

    async def listen(self) -> None:
        async for event in self.libvirt.events():
            async with self._news:
                now = round((SystemClock().now() - self._began).total_seconds(), 3)
                if isinstance(event, Connected):
                    self.versions = event.versions
                    self.links.append(Link(now))
                elif isinstance(event, Disconnected):
                    self.links.append(Link(now, event.reason))
                elif isinstance(event, DomainEvent) and event.uuid == self._uuid:
                    self.events.append(Recorded.of(event, now))
                self._news.notify_all()

    async def until(self, right: Callable[[], bool]) -> None:
        """Wait for what events and changes of the connection make true."""
        async with asyncio.timeout(_BOUND), self._news:
            await self._news.wait_for(right)

    async def event(self, kind: EventKind, type_: int = 0, *, count: int = 1) -> None:
        """Wait for as many events of a kind."""

        def came() -> int:
            return sum(one.kind is kind and one.type == type_ for one in self.events)

        await self.until(lambda: came() >= count)

    async def lost(self) -> None:
        """Wait for the connection to be lost."""
        await self.until(lambda: any(one.lost for one in self.links))

    async def stands(self) -> None:
        """Wait for the connection to stand."""
        await self.until(lambda: bool(self.links) and not self.links[-1].lost)

    async def side(self) -> Side:
        """Everything that was reported, and the present domain."""
        return Side(tuple(self.events), tuple(self.links), await self._found())

    async def _found(self) -> Found | None:
        listed = {one.uuid: one for one in await self.libvirt.domains()}
        if (domain := listed.get(self._uuid)) is None:
            return None
        errors = {}
        with suppress(DomainHungError):
            found = await self.libvirt.disk_errors(self._uuid)
            errors = {one.target: one.fault for one in found}
        info = await self.libvirt.control_info(self._uuid)
        control = info.state if info else None
        return Found(domain.state, domain.reason, domain.id, control, errors)


@asynccontextmanager
async def recording(host: Host, uuid: str, began: datetime) -> AsyncIterator[Recorder]:
    """Listen to a host, from `Connected` on."""
    async with connect(f"qemu+tcp://{host.address}/system") as libvirt:
        recorder = Recorder(libvirt, uuid, began)
        listening = asyncio.create_task(recorder.listen())
        try:
            await recorder.stands()
            yield recorder
        finally:
            ended = listening.done()
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            assert not ended


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a scenario is played: one host, or two for a migration, and who records them."""

    lab: Lab
    hosts: tuple[Host, ...]
    recorders: tuple[Recorder, ...]

    @property
    def uuid(self) -> str:
        return str(Fleet(self.lab).id_of(VM))

    async def add(
        self,
        program: Program = "idle",
        *,
        watchdog: Watchdog | None = None,
        on_crash: CrashAction = "destroy",
        error_policy: ErrorPolicy = "stop",
        disk: Storage = "local",
        memory_mib: int = 16,
    ) -> None:
        """Start the guest."""
        await Fleet(self.lab).add(
            VMRequest(
                name=VM,
                kind="boot",
                program=program,
                host=self.hosts[0].name,
                memory_mib=memory_mib,
                disk=disk,
                error_policy=error_policy,
                network=False,
                watchdog=watchdog,
                on_crash=on_crash,
            )
        )

    async def virsh(self, *words: str) -> str:
        return await self.hosts[0].run("virsh", *words)

    async def signal(self, name: str, host: int = 0) -> None:
        """Send the guest's QEMU a signal."""
        await self.hosts[host].run("pkill", f"-{name}", "-f", f"guest={VM},")

    async def libvirtd(self, name: str) -> None:
        """Send libvirtd a signal."""
        await self.hosts[0].run("systemctl", "kill", "-s", name, "libvirtd.service")

    async def dirties_memory(self) -> None:
        """Wait until the guest has written to its memory for a second."""
        async with asyncio.timeout(_BOUND):
            while True:
                await self.virsh("domdirtyrate-calc", VM, "--seconds", "1")
                await asyncio.sleep(1.1)  # there is no event when it is done
                found = await self.virsh("domstats", "--dirtyrate", VM)
                if "calc_status=2" in found and "megabytes_per_second=0" not in found:
                    return

    async def stopped(self) -> None:
        await self.recorders[0].event(EventKind.LIFECYCLE, Lifecycle.STOPPED)

    async def suspended(self) -> None:
        await self.recorders[0].event(EventKind.LIFECYCLE, Lifecycle.SUSPENDED)

    async def clear(self) -> None:
        """Leave nothing on the hosts."""
        with suppress(LabError):
            await Fleet(self.lab).remove(VM)
        for host in self.hosts:
            with suppress(LabError):
                await host.run("umount", _DISKS)


Act = Callable[[Stage], Awaitable[None]]


async def boot(stage: Stage) -> None:
    await stage.add()


async def poweroff(stage: Stage) -> None:
    await stage.add("poweroff")
    await stage.stopped()


async def destroy(stage: Stage) -> None:
    await stage.add()
    await stage.virsh("destroy", VM)


async def suspend(stage: Stage) -> None:
    await stage.add()
    await stage.virsh("suspend", VM)


def killed(name: str) -> Act:
    async def act(stage: Stage) -> None:
        await stage.add()
        await stage.signal(name)
        await stage.stopped()

    return act


def panic(action: CrashAction) -> Act:
    async def act(stage: Stage) -> None:
        await stage.add("panic", on_crash=action)
        await stage.recorders[0].event(EventKind.LIFECYCLE, Lifecycle.CRASHED)

    return act


async def dump(stage: Stage) -> None:
    await stage.add("dump")
    await stage.recorders[0].event(EventKind.LIFECYCLE, Lifecycle.CRASHED)
    await stage.recorders[0].event(EventKind.REBOOT)


async def guest_reset(stage: Stage) -> None:
    await stage.add("reset")
    await stage.recorders[0].event(EventKind.REBOOT)


async def host_reset(stage: Stage) -> None:
    await stage.add()
    await stage.virsh("reset", VM)


def watchdog(action: WatchdogAction) -> Act:
    async def act(stage: Stage) -> None:
        await stage.add("watchdog", watchdog=Watchdog(action, "ib700"))
        await stage.recorders[0].event(EventKind.WATCHDOG)

    return act


async def _full_disk(stage: Stage, policy: ErrorPolicy) -> None:
    host = stage.hosts[0]
    await host.run("mkdir", "-p", _DISKS)
    await host.run("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", _DISKS)
    await stage.add("write-disk", error_policy=policy)


async def full_stop(stage: Stage) -> None:
    await _full_disk(stage, "stop")
    await stage.suspended()


async def full_resumed(stage: Stage) -> None:
    await full_stop(stage)
    await stage.hosts[0].run("mount", "-o", "remount,size=64m", _DISKS)
    await stage.recorders[0].libvirt.resume(stage.uuid)


async def full_report(stage: Stage) -> None:
    await _full_disk(stage, "report")
    await stage.recorders[0].event(EventKind.IO_ERROR, count=4)


async def save(stage: Stage) -> None:
    await stage.add()
    await stage.virsh("managedsave", VM)


async def restore(stage: Stage) -> None:
    await save(stage)
    await stage.virsh("start", VM)


async def migrate(stage: Stage) -> None:
    await stage.add(disk="shared")
    await stage.virsh(*_MIGRATE, f"qemu+tcp://{stage.hosts[1].address}/system")


@asynccontextmanager
async def _migrating(stage: Stage) -> AsyncIterator[None]:
    """A migration that goes on until it fails, however slow this machine is.

    The guest writes four times what may be sent, and for less than a page it is not halted.
    """
    await stage.add("dirty-memory", disk="shared", memory_mib=64)
    await stage.dirties_memory()
    await stage.virsh("migrate-setmaxdowntime", VM, "1")  # ms
    target = f"qemu+tcp://{stage.hosts[1].address}/system"
    moving = asyncio.create_task(stage.virsh(*_MIGRATE, "--bandwidth", "1", target))
    await stage.recorders[1].event(EventKind.LIFECYCLE, Lifecycle.STARTED)
    await stage.recorders[0].event(EventKind.MIGRATION_ITERATION)
    yield
    await asyncio.gather(moving, return_exceptions=True)


async def migration_cancelled(stage: Stage) -> None:
    async with _migrating(stage):
        await stage.virsh("domjobabort", VM)


async def migration_fails(stage: Stage) -> None:
    async with _migrating(stage):
        await stage.signal("KILL", host=1)


async def libvirtd_killed(stage: Stage) -> None:
    await stage.add()
    await stage.libvirtd("KILL")
    await stage.recorders[0].lost()
    await stage.recorders[0].stands()


async def libvirtd_hung(stage: Stage) -> None:
    await stage.add()
    await stage.libvirtd("STOP")
    await stage.recorders[0].lost()
    await stage.libvirtd("CONT")
    await stage.recorders[0].stands()


async def dies_unseen(stage: Stage) -> None:
    await stage.add()
    units = ("libvirtd.service", "libvirtd.socket", "libvirtd-tcp.socket")
    await stage.hosts[0].run("systemctl", "stop", *units, "libvirtd-ro.socket")
    await stage.recorders[0].lost()
    await stage.signal("KILL")
    await stage.hosts[0].run("systemctl", "start", *reversed(units))
    await stage.recorders[0].stands()


async def host_reboots(stage: Stage) -> None:
    (host,) = stage.hosts
    await stage.add()
    await host.crash()
    await stage.recorders[0].lost()
    await stage.lab.up_host(host, BARE)
    await stage.recorders[0].stands()


async def hung(stage: Stage) -> None:
    await stage.add()
    await stage.signal("STOP")
    with suppress(DomainHungError):
        await stage.recorders[0].libvirt.block_stats(stage.uuid)


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is done, and on how many hosts."""

    text: str
    act: Act
    hosts: int = 1


SCENARIOS: Final[dict[str, Scenario]] = {
    "boot": Scenario("a guest is started", boot),
    "poweroff": Scenario("the guest powers off", poweroff),
    "destroy": Scenario("`virsh destroy`", destroy),
    "suspend": Scenario("`virsh suspend`", suspend),
    "killed": Scenario("QEMU is killed by SIGKILL", killed("KILL")),
    "segfault": Scenario("QEMU is killed by SIGSEGV", killed("SEGV")),
    "panic_destroy": Scenario("the guest panics, on_crash=destroy", panic("destroy")),
    "panic_restart": Scenario("the guest panics, on_crash=restart", panic("restart")),
    "panic_preserve": Scenario("the guest panics, on_crash=preserve", panic("preserve")),
    "dump": Scenario("the guest panics, and its crash kernel saves its memory", dump),
    "guest_reset": Scenario("the guest resets itself", guest_reset),
    "host_reset": Scenario("`virsh reset`", host_reset),
    "watchdog_reset": Scenario("the watchdog fires, action reset", watchdog("reset")),
    "watchdog_pause": Scenario("the watchdog fires, action pause", watchdog("pause")),
    "watchdog_poweroff": Scenario("the watchdog fires, action poweroff", watchdog("poweroff")),
    "watchdog_none": Scenario("the watchdog fires, action none", watchdog("none")),
    "watchdog_shutdown": Scenario("the watchdog fires, action shutdown", watchdog("shutdown")),
    "watchdog_nmi": Scenario("the watchdog fires, action inject-nmi", watchdog("inject-nmi")),
    "full_stop": Scenario("the disk's file system is full, error_policy=stop", full_stop),
    "full_resumed": Scenario("the same, then space is made and the guest resumed", full_resumed),
    "full_report": Scenario("the disk's file system is full, error_policy=report", full_report),
    "save": Scenario("`virsh managedsave`", save),
    "restore": Scenario("`virsh managedsave`, then `virsh start`", restore),
    "migrate": Scenario("a live migration", migrate, hosts=2),
    "migration_cancelled": Scenario("`virsh domjobabort` amid one", migration_cancelled, hosts=2),
    "migration_fails": Scenario("the target's QEMU is killed amid one", migration_fails, hosts=2),
    "libvirtd_killed": Scenario("libvirtd is killed and comes back", libvirtd_killed),
    "libvirtd_hung": Scenario("libvirtd is stopped by a signal, and goes on", libvirtd_hung),
    "dies_unseen": Scenario("QEMU is killed while libvirtd is down", dies_unseen),
    "host_reboots": Scenario("the host loses power and boots", host_reboots),
    "hung": Scenario("QEMU is stopped by a signal, then its disks are queried", hung),
}


@asynccontextmanager
async def played(lab: Lab, name: str, hosts: tuple[Host, ...]) -> AsyncIterator[Stage]:
    """A stage on hosts of a lab, on which a scenario has been played."""
    began, uuid = SystemClock().now(), str(Fleet(lab).id_of(VM))
    async with AsyncExitStack() as stack:
        recordings = [recording(host, uuid, began) for host in hosts]
        recorders = [await stack.enter_async_context(one) for one in recordings]
        stage = Stage(lab, hosts, tuple(recorders))
        try:
            await SCENARIOS[name].act(stage)
            yield stage
        finally:
            await stage.clear()
