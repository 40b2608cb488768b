"""What is looked at, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from tests.integration.runtime.scripted import eventually
from tests.unit.ha.signs import U1

from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Disk, Domain, DomainState
from hypercobalt.api.incident import IncidentType, Severity
from hypercobalt.ha.cases import Case, Instance, State, Step
from hypercobalt.ha.config import HaConfig
from hypercobalt.ha.signals import Kind, Signal
from hypercobalt.node_agent.incidents.probing import Probing
from hypercobalt.node_agent.incidents.storage import Storage
from hypercobalt.node_agent.incidents.store import Store
from hypercobalt.runtime import FakeClock
from hypercobalt.runtime.tasks import first


class Looking:
    """The probes of a host with one instance, for as long as a test needs them."""

    def __init__(self, root: Path) -> None:
        self.clock, self.store, self.libvirt = FakeClock(), Store(), FakeLibvirt()
        self.signals: list[Signal] = []
        self.disk = Disk("vda", path="/disk")
        self.libvirt.put(Domain(U1, "vm1", True, DomainState.RUNNING))
        self.store.put(Instance(uuid=U1, name="vm1", state=State.RUNNING, start="1.1"))
        self._probing = Probing(
            self.libvirt,
            self.store,
            clock=self.clock,
            config=HaConfig,
            take=self.signals.append,
            storage=Storage(root),
            disks=lambda _: (self.disk,),
            period=timedelta(milliseconds=10),
        )

    def open(self, type_: IncidentType, step: Step = Step.PROBE, about: str = "") -> None:
        now = self.clock.now()
        case = Case(
            id="c1",
            type=type_,
            severity=Severity.WARNING,
            start="1.1",
            first_seen=now,
            last_seen=now,
            about=about,
        )
        self.store.put(self.store.get(U1).with_case(case.then(step, now)))

    async def until(self, good: Callable[[], bool]) -> None:
        await first(self._probing.run(), eventually(good, seconds=1.5))

    @property
    def cases(self) -> tuple[Case, ...]:
        return self.store.get(U1).cases


async def test_a_reboot_that_came_back_is_closed(tmp_path: Path) -> None:
    looking = Looking(tmp_path)
    looking.open(IncidentType.REBOOTING)
    await looking.until(lambda: not looking.cases)


async def test_what_expires_is_closed(tmp_path: Path) -> None:
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


async def test_an_emulator_that_answers_is_not(tmp_path: Path) -> None:
    looking = Looking(tmp_path)
    await looking.until(lambda: looking.libvirt.calls["block_stats"] >= 3)
    assert looking.signals == []


async def test_an_answer_of_the_emulator_is_all_that_a_round_asks_for(tmp_path: Path) -> None:
    looking = Looking(tmp_path)
    await looking.until(lambda: looking.libvirt.calls["block_stats"] >= 3)
    assert looking.libvirt.calls["control_info"] == 0


async def test_a_paused_instance_resumes_once_its_disk_can_be_used(tmp_path: Path) -> None:
    looking = Looking(tmp_path)
    looking.store.put(Instance(uuid=U1, state=State.PAUSED, start="1.1"))
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
