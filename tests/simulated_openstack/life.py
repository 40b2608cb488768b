"""What happens in a simulated cloud after a request was accepted, in its own time."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Coroutine
from typing import Final

from tests.simulated_openstack.http import RefusalError
from tests.simulated_openstack.model import Acted, Fault, Host, Migration, Server, now
from tests.simulated_openstack.world import World

_STEPS: Final = 20  # in which a live migration copies memory
_MIB: Final = 1024**2


class AbortedError(Exception):
    """A migration was aborted."""


class Life:
    """Runs what goes on in a world; `close` ends it all."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._tasks: set[asyncio.Task[None]] = set()
        self._aborted: set[int] = set()
        self._forced: set[int] = set()
        self._leaving: dict[str, asyncio.Semaphore] = {}

    async def close(self) -> None:
        """End everything that goes on."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def begin(self, work: Coroutine[object, object, None]) -> None:
        """Let something happen from now on."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- a server's own ----------------------------------------------------------------------------

    async def boot(self, server: Server, only: str, zone: str | None) -> None:
        """Have a new server run somewhere, or be in ERROR."""
        world = self._world
        server.task_state = "scheduling"
        try:
            host = world.choose(server, only=only, zone=zone)
        except RefusalError as refusal:
            _fail(server, refusal.message)
            return
        world.put(server, host)
        server.task_state = "spawning"
        await asyncio.sleep(world.pace.boot)
        if server.id not in world.servers:
            return
        await self._power(host)
        if host.refuses:
            _fail(server, host.refuses)
            return
        server.launched = now()
        server.booted = time.monotonic()
        server.set("active")
        for port in world.ports_of(server):
            port.status = "ACTIVE"

    async def change(
        self,
        server: Server,
        vm_state: str | None,
        seconds: float | None = None,
        acted: Acted | None = None,
    ) -> None:
        """End what is being done to a server after a time, in another state."""
        await asyncio.sleep(self._world.pace.short if seconds is None else seconds)
        await self._power(self._world.hosts.get(server.host))
        if server.id in self._world.servers:
            if vm_state == "active" and server.vm_state == "stopped":
                server.booted = time.monotonic()
            server.set(vm_state)
        if acted is not None:  # as in Nova: a moment after the server shows it
            acted.end()

    async def fail_reboot(self, server: Server, acted: Acted) -> None:
        """Fail a reboot on its host before anything is done, as Nova does without Cinder.

        Source: nova, compute/manager.py, `reboot_instance`: the record ends before the task.
        """
        await asyncio.sleep(self._world.pace.short)
        await self._power(self._world.hosts.get(server.host))
        acted.end(server.reboot_fails)
        server.set()

    async def delete(self, server: Server) -> None:
        """Have a server gone after a moment; what moved it is notified."""
        await asyncio.sleep(self._world.pace.short)
        await self._power(self._world.hosts.get(server.host))
        self._world.remove_server(server)

    async def _power(self, host: Host | None) -> None:
        """Wait for as long as a host is off."""
        if host is not None:
            await host.power.wait()

    # -- live migration ----------------------------------------------------------------------------

    async def live_migrate(self, migration: Migration, target: str, block: bool | None) -> None:
        """Move a server while it runs.

        Args:
            migration: its record.
            target: the only host to consider, "" for any.
            block: copy disks too; None for whatever is right.
        """
        world, server = self._world, migration.server
        host: Host | None = None
        if block is not server.shared:  # no disks are copied that are shared, nor the reverse
            with contextlib.suppress(RefusalError):
                host = world.choose(server, only=target)
        if host is None:
            migration.set("error", "No valid host was found. There are not enough hosts available.")
            server.set()
            return
        migration.target = host.name
        world.hold(migration)
        world.allocate(server.id, host, server.flavor.resources)
        moved = False
        try:
            async with self._turn(migration):
                await self._copy(migration)
            moved = True
        except AbortedError:
            migration.set("cancelled")
        except RefusalError as refusal:
            migration.set("failed" if refusal.code != 404 else "error", refusal.message)
        finally:
            self._aborted.discard(migration.id)
            self._forced.discard(migration.id)
            world.settle(migration, moved=moved)
        if server.id not in world.servers:
            return
        if moved:
            # As in Nova: the server is seen at its new place a moment before its record has it.
            world.place(server, host.name)
            server.set()
            await asyncio.sleep(world.pace.short / 10)
            migration.set("completed")
            return
        server.set()
        if world.failures_break and migration.status in {"cancelled", "failed"}:
            # As in Nova 34: a move that was rolled back in full is still recorded as an error.
            migration.set("error")
            await asyncio.sleep(world.pace.short)
            server.set("error")

    @contextlib.asynccontextmanager
    async def _turn(self, migration: Migration) -> AsyncGenerator[None]:
        limit = self._world.pace.at_once
        if not limit:
            yield
            return
        migration.set("queued")
        turn = self._leaving.setdefault(migration.source, asyncio.Semaphore(limit))
        async with turn:
            yield

    async def _copy(self, migration: Migration) -> None:
        """Copy disks, then memory, step by step.

        Raises:
            AbortedError: it was aborted.
            RefusalError: it fails.
        """
        world, server = self._world, migration.server
        if migration.id in self._aborted:
            raise AbortedError
        migration.set("preparing")
        seconds = world.pace.live if server.pace is None else server.pace
        steps = _STEPS if seconds >= 1 else 4
        if not server.shared:
            await self._copy_disks(migration, seconds, steps)
        migration.total = migration.remaining = server.flavor.memory * _MIB
        begun = time.monotonic()
        for step in range(1, steps + 1):
            left = migration.total * (steps - step) // steps
            await self._until(migration, begun + seconds * step / steps)
            migration.set("running")
            migration.remaining = left
            while server.memory_left > left and migration.id not in self._forced:
                migration.remaining = min(server.memory_left, migration.total)
                await self._until(migration, time.monotonic() + 0.02)
            if migration.id in self._forced:
                break
        if server.move_fails:
            raise RefusalError(409, server.move_fails)
        migration.remaining = 0
        migration.set("post-migrating")

    async def _copy_disks(self, migration: Migration, seconds: float, steps: int) -> None:
        """Copy disks; until then nothing is reported of the memory."""
        disk, begun = migration.server.flavor.disk << 30, time.monotonic()
        migration.total = migration.remaining = 0
        for step in range(steps):
            migration.disk_remaining = disk * (steps - step) // steps
            await self._until(migration, begun + seconds * (step + 1) / steps)
            migration.set("running")
        migration.disk_remaining = 0

    async def _until(self, migration: Migration, moment: float) -> None:
        """Wait until a moment, for as long as a migration may go on."""
        world = self._world
        await asyncio.sleep(max(0, moment - time.monotonic()))
        await self._power(world.hosts.get(migration.source))
        if migration.id in self._aborted:
            raise AbortedError
        if migration.server.id not in world.servers:
            raise RefusalError(404, "the server is gone")
        target = world.hosts.get(migration.target or "")
        if target is None or not target.alive:
            raise RefusalError(409, "the target is gone")

    def abort(self, migration: Migration) -> None:
        """End a live migration at its next step; one that waits for its turn ends then."""
        self._aborted.add(migration.id)

    def force(self, migration: Migration) -> None:
        """Let a live migration end at its next step, in whatever way."""
        self._forced.add(migration.id)

    # -- cold migration, evacuation ----------------------------------------------------------------

    async def cold_migrate(self, migration: Migration, host: Host) -> None:
        """Move a server that is switched off for it, then have it wait to be confirmed."""
        world, server = self._world, migration.server
        world.hold(migration)
        world.allocate(server.id, host, server.flavor.resources)
        migration.set("migrating")
        server.set(task_state="resize_migrating")
        await asyncio.sleep(world.pace.cold if server.pace is None else server.pace)
        await self._power(world.hosts.get(migration.source))
        if server.id not in world.servers or server.move_fails or not host.alive:
            migration.set("error")
            world.settle(migration, moved=False)
            if server.id in world.servers:
                _fail(server, server.move_fails or "the target is gone")
            return
        server.before_resize = server.vm_state
        world.place(server, host.name)
        migration.set("finished")
        server.set("resized")

    async def confirm(self, migration: Migration) -> None:
        """Let the source forget a server that was moved."""
        world, server = self._world, migration.server
        migration.set("confirming")
        await asyncio.sleep(world.pace.short)
        world.settle(migration, moved=True)
        migration.set("confirmed")
        if server.id in world.servers:
            server.set(server.before_resize)

    async def revert(self, migration: Migration) -> None:
        """Bring a server that was moved back."""
        world, server = self._world, migration.server
        migration.set("reverting")
        await asyncio.sleep(world.pace.cold)
        world.settle(migration, moved=False)
        migration.set("reverted")
        if server.id in world.servers:
            world.place(server, migration.source)
            server.set(server.before_resize)

    async def evacuate(self, migration: Migration, target: str, *, stopped: bool) -> None:
        """Rebuild a server of a host that is dead.

        Args:
            migration: its record.
            target: the only host to consider, "" for any.
            stopped: it is off afterwards, unless it is in ERROR: Nova starts that one always.
        """
        world, server = self._world, migration.server
        try:
            host = world.choose(server, only=target)
        except RefusalError as refusal:
            migration.set("error", refusal.message)
            _fail(server, refusal.message)
            return
        world.hold(migration)
        world.allocate(server.id, host, server.flavor.resources)
        migration.target = host.name
        migration.set("pre-migrating")
        await asyncio.sleep(world.pace.evacuation)
        if server.id not in world.servers:
            migration.set("error")
            return
        world.place(server, host.name)
        server.booted = time.monotonic()
        off = server.vm_state == "stopped" or (stopped and server.vm_state != "error")
        server.set("stopped" if off else "active")
        migration.set("done")


def _fail(server: Server, message: str) -> None:
    server.fault = Fault(500, message)
    server.set("error")
