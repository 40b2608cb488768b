"""Storage that hangs without an error."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from tests.unit.ha.signs import U1, uuid

from hypercobalt.adapters.libvirt.model import Disk
from hypercobalt.api.incident import IncidentType, Reaction, Severity
from hypercobalt.ha.incidents.cases import Case, InstanceRecord, State, Step
from hypercobalt.ha.incidents.config import EventConfig, HaConfig
from hypercobalt.ha.incidents.signals import EventType
from hypercobalt.node_agent.incidents.stalls import Stalls
from hypercobalt.node_agent.incidents.storage import Storage
from hypercobalt.node_agent.incidents.store import Store
from hypercobalt.runtime import FakeClock

MINUTE = timedelta(seconds=60)
RUNS = InstanceRecord(uuid=U1, name="vm-1", state=State.RUNNING, start="1.1")
DISKS = (Disk("vda", path="/pool/a.raw"),)


class Hanging(Storage):
    """Storage whose reads hang for as long as a test has it."""

    def __init__(self, seconds: float | None = 60) -> None:
        super().__init__(Path("/"))
        self.seconds = seconds
        self.read: list[str] = []

    async def silent(self, path: str) -> float | None:
        self.read.append(path)
        return self.seconds


class Looking:
    def __init__(self, storage: Hanging, config: HaConfig | None = None) -> None:
        self.store, self.clock, self.storage = Store(), FakeClock(), storage
        used = config or HaConfig()
        self.stalls = Stalls(storage, self.store, clock=self.clock, config=lambda: used)

    @property
    def cases(self) -> tuple[Case, ...]:
        return self.store.host.cases


@pytest.mark.parametrize(
    ("seconds", "quiet", "disks", "reported"),
    [
        pytest.param(60, MINUTE, DISKS, True, id="it hangs"),
        pytest.param(59, MINUTE, DISKS, False, id="not long enough"),
        pytest.param(0, MINUTE, DISKS, False, id="it answers"),
        pytest.param(None, MINUTE, DISKS, False, id="it cannot be tried"),
        pytest.param(60, MINUTE - timedelta(seconds=1), DISKS, False, id="the instance has I/O"),
        pytest.param(60, MINUTE, (Disk("vda", path="vms/1"),), False, id="no file"),
        pytest.param(60, MINUTE, (), False, id="no disk"),
    ],
)
async def test_storage_that_hangs_under_a_quiet_disk_is_reported(
    seconds: float | None, quiet: timedelta, disks: tuple[Disk, ...], *, reported: bool
) -> None:
    looking = Looking(Hanging(seconds))
    await looking.stalls.look(RUNS, disks, quiet)
    assert bool(looking.cases) is reported


async def test_storage_that_hangs_is_an_incident_of_the_host_that_waits() -> None:
    looking = Looking(Hanging())
    await looking.stalls.look(RUNS, DISKS, MINUTE)
    (case,) = looking.cases
    assert (case.type, case.severity, case.reaction, case.shown) == (
        *(IncidentType.STORAGE_DEGRADED, Severity.CRITICAL, Reaction.WAIT, True),
    )
    assert case.evidence == ("the storage /pool does not answer, and vm-1 has no I/O",)
    assert (case.step, case.about) == (Step.EXPIRE, "/pool/a.raw")
    assert case.due == looking.clock.now() + timedelta(minutes=2)


async def test_incident_stays_one_while_the_storage_hangs() -> None:
    looking = Looking(Hanging())
    other = InstanceRecord(uuid=uuid(2), name="vm-2", state=State.RUNNING, start="1.1")
    for instance in (RUNS, other, RUNS):
        await looking.stalls.look(instance, DISKS, MINUTE)
        looking.clock.advance(timedelta(seconds=30))
    (case,) = looking.cases
    assert (case.count, len(case.evidence)) == (1, 2)
    assert case.last_seen - case.first_seen == timedelta(seconds=60)
    assert case.due == case.last_seen + timedelta(minutes=2)


async def test_storage_that_hangs_has_one_read_and_is_read_again_once_it_answers() -> None:
    looking = Looking(Hanging())
    others = (Disk("vda", path="/pool/b.raw"),)
    for disks in (DISKS, others):
        await looking.stalls.look(RUNS, disks, MINUTE)
    looking.storage.seconds = 0
    for _ in range(2):
        await looking.stalls.look(RUNS, others, MINUTE)
    assert looking.storage.read == ["/pool/a.raw"] * 3 + ["/pool/b.raw"]


async def test_io_errors_that_are_not_monitored_cost_no_read() -> None:
    config = HaConfig(events={EventType.IO_ERROR: EventConfig(monitored=False)})
    looking = Looking(Hanging(), config)
    await looking.stalls.look(RUNS, DISKS, MINUTE)
    assert (looking.storage.read, looking.cases) == ([], ())
