"""Probes instances: when a case is due, and all running ones in turn.

libvirt sends no event of an emulator that hangs. Probes have a connection of their own, so that a
hung emulator holds up nothing else. A round over all instances goes by groups, spread over its
period.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from math import ceil
from typing import Final

from hypercobalt.adapters.libvirt.model import Disk
from hypercobalt.adapters.libvirt.port import Libvirt, LibvirtError
from hypercobalt.adapters.libvirt.statistics import BlockStats
from hypercobalt.adapters.libvirt.vocabulary import ControlState
from hypercobalt.api.incident import IncidentType
from hypercobalt.ha.incidents.cases import Case, InstanceRecord, State, Step
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.probes import InstanceProbe, probed
from hypercobalt.ha.incidents.signals import Kind, Signal
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.incidents.metrics import IncidentMetrics
from hypercobalt.node_agent.incidents.stalls import Stalls
from hypercobalt.node_agent.incidents.storage import Storage
from hypercobalt.node_agent.incidents.store import Store
from hypercobalt.runtime import Clock

log = get_logger(__name__)

ROUND: Final = timedelta(seconds=30)
"""Time in which each running instance is probed once, which finds what has no event."""

GROUPS: Final = 3
"""Groups of instances probed together. Each wakes this process, libvirt and some emulators."""


class Probing:
    """Probes, and puts what follows into the store.

    Args:
        take: judges a signal.
        storage: tries disks.
        disks: of an instance, as listed last.
    """

    def __init__(
        self,
        libvirt: Libvirt,
        store: Store,
        *,
        clock: Clock,
        config: Callable[[], HaConfig],
        take: Callable[[Signal], None],
        storage: Storage,
        disks: Callable[[str], Sequence[Disk]],
        metrics: IncidentMetrics,
        period: timedelta = ROUND,
    ) -> None:
        self._libvirt, self._store, self._clock = libvirt, store, clock
        self._config, self._take, self._period = config, take, period
        self._storage, self._disks, self._metrics = storage, disks, metrics
        self._stalls = Stalls(storage, store, clock=clock, config=config)
        self._under_way: set[str] = set()
        self._counters: dict[str, tuple[int, datetime]] = {}
        self._silent: set[str] = set()

    async def run(self) -> None:
        """Probe until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._survey(), name="incidents-survey")
            while True:
                state = self._store.changes.value
                self._begin_due(tasks)
                await self._until_due(state)

    def _begin_due(self, tasks: asyncio.TaskGroup) -> None:
        now = self._clock.now()
        for instance, case in self._store.cases(Step.PROBE, Step.EXPIRE):
            if case.due is None or case.due > now:
                continue
            if case.step is Step.EXPIRE:
                self._expire(instance.uuid, case)
            elif case.id not in self._under_way:
                self._under_way.add(case.id)
                tasks.create_task(self._probe_case(instance.uuid, case.id), name=f"probe-{case.id}")

    async def _until_due(self, state: object) -> None:
        due = min(
            (
                case.due
                for _, case in self._store.cases(Step.PROBE, Step.EXPIRE)
                if case.due and case.id not in self._under_way
            ),
            default=None,
        )
        wait = None if due is None else max(0.0, (due - self._clock.now()).total_seconds())
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._store.changes.changed(state)

    def _expire(self, uuid: str, case: Case) -> None:
        instance = self._store.get(uuid)
        self._store.put(instance.without_case(case.id))

    async def _probe_case(self, uuid: str, case_id: str) -> None:
        try:
            probe = await self._probe(self._store.get(uuid), case_id)
            instance = self._store.get(uuid)
            case = next((one for one in instance.cases if one.id == case_id), None)
            if case is not None and case.step is Step.PROBE:
                self._store.put(probed(instance, case, probe, self._config(), self._clock.now()))
        finally:
            self._under_way.discard(case_id)

    async def _probe(self, instance: InstanceRecord, case_id: str) -> InstanceProbe:
        """Probe an instance; a question that fails leaves its answer open."""
        uuid = instance.uuid
        case = next((one for one in instance.cases if one.id == case_id), None)
        try:
            control = await self._libvirt.control_info(uuid)
        except LibvirtError:
            return InstanceProbe(state=State.UNKNOWN)
        if control is None:
            return InstanceProbe(state=State.OFF)
        occupied = control.seconds if control.state is ControlState.OCCUPIED else 0
        agent: bool | None = None
        storage: bool | None = None
        with suppress(LibvirtError):
            if instance.agent_seen:
                agent = await self._libvirt.agent_answers(uuid)
        if case is not None and case.type is IncidentType.IO_ERROR:
            storage = await self._storage.usable(await self._disk(uuid, case))
        return InstanceProbe(
            state=instance.state if instance.state is not State.UNKNOWN else State.RUNNING,
            agent=agent,
            control_error=control.state is ControlState.ERROR,
            occupied_seconds=occupied,
            storage=storage,
            quiet_seconds=await self._quiet(uuid),
        )

    async def _quiet(self, uuid: str) -> float:
        """Seconds for which the disks have neither read nor written; 0 when not known."""
        try:
            return self._count(uuid, await self._libvirt.block_stats(uuid))
        except LibvirtError:
            return 0

    def _count(self, uuid: str, disks: Sequence[BlockStats] | None) -> float:
        """Return those seconds by counters read now; 0 without any: the instance is off."""
        if disks is None:
            return 0
        now = self._clock.now()
        count = sum(disk.read_requests + disk.write_requests for disk in disks)
        last = self._counters.get(uuid)
        if last is None or last[0] != count:
            self._counters[uuid] = (count, now)
            return 0
        return (now - last[1]).total_seconds()

    async def _disk(self, uuid: str, case: Case) -> str:
        """Path of the disk that a case is about; found by a listing, it names none."""
        if case.about:
            return case.about
        with suppress(LibvirtError):
            failed = {error.target for error in await self._libvirt.disk_errors(uuid)}
            disks = self._disks(uuid)
            return next((disk.path for disk in disks if disk.target in failed), "")
        return ""

    async def _survey(self) -> None:
        """Probe each running instance in turn; an emulator that does not answer is reported."""
        while True:
            running = [one.uuid for one in self._store.known.values() if one.active]
            self._counters = {u: c for u, c in self._counters.items() if u in self._store.known}
            self._silent &= set(running)
            size = ceil(len(running) / GROUPS) or 1
            groups = [running[at : at + size] for at in range(0, len(running), size)]
            pause = self._period.total_seconds() / (len(groups) or 1)
            unprobed = 0
            for group in groups:
                unprobed += await self._probe_group(group)
                await asyncio.sleep(pause)
            self._metrics.unprobed.set(unprobed)
            if not running:
                await asyncio.sleep(pause)

    async def _probe_group(self, group: Sequence[str]) -> int:
        """Probe instances by one call, which costs hardly more than one about a single instance.

        Returns:
            How many have not answered, and are not known to owe an answer either.
        """
        counters: Mapping[str, Sequence[BlockStats]] = {}
        with suppress(LibvirtError):  # one hangs perhaps, and holds up the answer for all
            responsive = [uuid for uuid in group if uuid not in self._silent]
            counters = await self._libvirt.block_stats_of(responsive) if responsive else {}
        return sum([not await self._reach(uuid, counters.get(uuid)) for uuid in group])

    async def _reach(self, uuid: str, disks: Sequence[BlockStats] | None) -> bool:
        """Report an emulator whose control info shows a call that waits for it.

        libvirt gives a job up after 30 s and answers without the emulator; that is later than the
        deadline of the call. One that was silent is not called again before that call has ended:
        waiting for it would hold up the round.

        Args:
            uuid: of the instance.
            disks: its counters, if the emulator has just answered.

        Returns:
            Whether the emulator has answered, or is known not to.
        """
        if uuid not in self._silent or not await self._report_silence(uuid):
            self._silent.discard(uuid)
            with suppress(LibvirtError):
                if disks is None:
                    disks = await self._libvirt.block_stats(uuid)
                quiet = timedelta(seconds=self._count(uuid, disks))
                await self._stalls.look(self._store.get(uuid), self._disks(uuid), quiet)
                return True
            if not await self._report_silence(uuid):
                return False
            self._silent.add(uuid)
        return True

    async def _report_silence(self, uuid: str) -> bool:
        """Report an emulator that owes an answer; False when it owes none, as far as is known."""
        try:
            control = await self._libvirt.control_info(uuid)
        except LibvirtError:
            return False
        if control is None or control.state is not ControlState.OCCUPIED:
            return False
        instance = self._store.get(uuid)
        self._take(
            Signal(
                kind=Kind.MONITOR_OCCUPIED,
                instance=uuid,
                name=instance.name,
                at=self._clock.now(),
                domain_id=instance.domain_id,
                seconds=control.seconds,
            )
        )
        return True
