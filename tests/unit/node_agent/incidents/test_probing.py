"""Which instances are probed, and the results."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from pathlib import Path

from prometheus_client import CollectorRegistry
from tests.integration.runtime.scripted import eventually
from tests.unit.ha.cases import open_case
from tests.unit.ha.signs import U1, uuid

from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Disk, Domain, DomainState
from hypercobalt.adapters.libvirt.port import LibvirtError
from hypercobalt.adapters.libvirt.statistics import BlockStats
from hypercobalt.api.incident import IncidentType, Severity
from hypercobalt.ha.incidents.cases import Case, InstanceRecord, State, Step
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.signals import Kind, Signal
from hypercobalt.node_agent.incidents.metrics import IncidentMetrics
from hypercobalt.node_agent.incidents.probing import GROUPS, Probing
from hypercobalt.node_agent.incidents.storage import Storage
from hypercobalt.node_agent.incidents.store import Store
from hypercobalt.runtime import FakeClock
from hypercobalt.runtime.tasks import first


class Counted(FakeLibvirt):
    """Records which domains were probed together."""

    def __init__(self) -> None:
        super().__init__()
        self.groups: list[tuple[str, ...]] = []

    async def block_stats_of(self, uuids: Collection[str]) -> Mapping[str, tuple[BlockStats, ...]]:
        self.groups.append(tuple(uuids))
        return await super().block_stats_of(uuids)


class Looking:
    """The probes of a host with one instance, for as long as a test needs them."""

    def __init__(self, root: Path) -> None:
        self.clock, self.store, self.libvirt = FakeClock(), Store(), Counted()
        self.signals: list[Signal] = []
        self.registry = CollectorRegistry()
        self.disk = Disk("vda", path="/disk")
        self.libvirt.put(Domain(U1, "vm1", True, DomainState.RUNNING))
        self.store.put(InstanceRecord(uuid=U1, name="vm1", state=State.RUNNING, start="1.1"))
        self._probing = Probing(
            self.libvirt,
            self.store,
            clock=self.clock,
            config=HaConfig,
            take=self.signals.append,
            storage=Storage(root),
            disks=lambda _: (self.disk,),
            metrics=IncidentMetrics(self.registry),
            period=timedelta(milliseconds=10),
        )

    def open(self, type_: IncidentType, step: Step = Step.PROBE, about: str = "") -> None:
        now = self.clock.now()
        case = open_case(type_, U1, "1.1", now, id="c1", severity=Severity.WARNING, about=about)
        self.store.put(self.store.get(U1).with_case(case.then(step, now)))

    async def until(self, good: Callable[[], bool]) -> None:
        await first(self._probing.run(), eventually(good, seconds=1.5))

    def run_too(self, number: int) -> str:
        """Have a further instance run."""
        who = uuid(number)
        self.libvirt.put(Domain(who, who, True, DomainState.RUNNING))
        self.store.put(InstanceRecord(uuid=who, name=who, state=State.RUNNING, start="1.1"))
        return who

    @property
    def unprobed(self) -> float | None:
        return self.registry.get_sample_value("ha_unprobed_instances")

    @property
    def cases(self) -> tuple[Case, ...]:
        return self.store.get(U1).cases


async def test_a_reboot_that_came_back_is_closed(tmp_path: Path) -> None:
    looking = Looking(tmp_path)
    looking.open(IncidentType.REBOOTING)
    await looking.until(lambda: not looking.cases)


async def test_expired_incident_is_closed(tmp_path: Path) -> None:
    looking = Looking(tmp_path)
    looking.open(IncidentType.OUT_OF_BAND, Step.EXPIRE)
    await looking.until(lambda: not looking.cases)


async def test_an_emulator_that_owes_an_answer_is_reported(tmp_path: Path) -> None:
    looking = Looking(tmp_path)
    looking.libvirt.hung[U1] = 90
    await looking.until(lambda: bool(looking.signals))
    signal = looking.signals[0]
    assert (signal.kind, signal.instance) == (Kind.MONITOR_OCCUPIED, U1)
    assert signal.seconds >= 60


async def test_however_many_emulators_hang_each_is_reported(tmp_path: Path) -> None:
    looking = Looking(tmp_path)
    expected = {looking.run_too(number) for number in range(12)}
    looking.libvirt.hung |= dict.fromkeys(expected, 90)
    await looking.until(lambda: expected <= {one.instance for one in looking.signals})


async def test_emulator_that_hangs_is_distinguished_from_those_probed_with_it(
    tmp_path: Path,
) -> None:
    looking = Looking(tmp_path)
    well = [looking.run_too(number) for number in range(2, 2 + GROUPS)]
    looking.libvirt.hung[U1] = 90
    await looking.until(lambda: looking.unprobed == 0 and len(looking.signals) >= 2)
    assert {signal.instance for signal in looking.signals} == {U1}
    assert len(well) + 1 > GROUPS
    assert looking.libvirt.calls["block_stats"] == 2, "one by one only after the call that failed"


async def test_instances_are_probed_in_few_calls_spread_over_the_round(tmp_path: Path) -> None:
    looking = Looking(tmp_path)
    expected = {U1, *(looking.run_too(number) for number in range(2, 5 * GROUPS + 1))}
    await looking.until(lambda: len(looking.libvirt.groups) >= GROUPS)
    groups = looking.libvirt.groups[:GROUPS]
    assert {len(group) for group in groups} == {5}
    assert {uuid for group in groups for uuid in group} == expected


async def test_emulator_that_is_silent_is_not_called_again_until_it_has_answered(
    tmp_path: Path,
) -> None:
    looking = Looking(tmp_path)
    looking.libvirt.hung[U1] = 90
    await looking.until(lambda: len(looking.signals) >= 5)
    assert looking.libvirt.calls["block_stats_of"] == 1
    del looking.libvirt.hung[U1]
    await looking.until(lambda: looking.libvirt.calls["block_stats_of"] >= 3)
    seen = len(looking.signals)
    await looking.until(lambda: looking.libvirt.calls["block_stats_of"] >= 6)
    assert len(looking.signals) == seen


async def test_instance_that_cannot_be_probed_is_counted(tmp_path: Path) -> None:
    looking = Looking(tmp_path)
    looking.run_too(2)
    looking.libvirt.hung[U1] = 90
    hang = LibvirtError("9 calls about other domains hang")
    looking.libvirt.failures |= dict.fromkeys(("block_stats", "block_stats_of"), hang)
    await looking.until(lambda: looking.unprobed == 1)
    looking.libvirt.failures.clear()
    await looking.until(lambda: looking.unprobed == 0)


async def test_emulator_that_answers_is_not_reported(tmp_path: Path) -> None:
    looking = Looking(tmp_path)
    await looking.until(lambda: looking.libvirt.calls["block_stats_of"] >= 3)
    assert looking.signals == []


async def test_answer_of_the_emulator_is_all_that_a_round_requires(tmp_path: Path) -> None:
    looking = Looking(tmp_path)
    await looking.until(lambda: looking.libvirt.calls["block_stats_of"] >= 3)
    assert looking.libvirt.calls.keys() == {"block_stats_of"}


async def test_a_paused_instance_resumes_once_its_disk_can_be_used(tmp_path: Path) -> None:
    looking = Looking(tmp_path)
    looking.store.put(InstanceRecord(uuid=U1, state=State.PAUSED, start="1.1"))
    looking.open(IncidentType.IO_ERROR, about="/disk")
    await looking.until(lambda: looking.cases[0].due != looking.clock.now())
    assert looking.cases[0].step is Step.PROBE
    (tmp_path / "disk").write_bytes(b"")
    looking.clock.advance(timedelta(seconds=11))
    await looking.until(lambda: looking.cases[0].step is Step.RESUME)


async def test_while_libvirt_is_away_nothing_is_concluded(tmp_path: Path) -> None:
    looking = Looking(tmp_path)
    looking.open(IncidentType.CONTROL_ERROR)
    looking.libvirt.disconnect()
    await looking.until(lambda: looking.cases[0].due != looking.clock.now())
    assert looking.cases[0].step is Step.PROBE
    assert looking.signals == []


async def test_quiet_disks_of_an_instance_that_runs_are_read_beside_it(tmp_path: Path) -> None:
    looking = Looking(tmp_path)
    os.mkfifo(tmp_path / "disk")  # opening it hangs
    await looking.until(lambda: looking.libvirt.calls["block_stats_of"] >= 2)
    assert not reads()
    looking.clock.advance(timedelta(seconds=60))
    await looking.until(lambda: len(reads()) == 1)
    writer = os.open(tmp_path / "disk", os.O_RDWR)  # open until the thread has come that far
    try:
        await eventually(lambda: not reads(), seconds=1.5)
    finally:
        os.close(writer)


def reads() -> list[threading.Thread]:
    """Reads of disks that are under way."""
    return [thread for thread in threading.enumerate() if thread.name == "storage-probe"]
