"""Which configuration counts before the ConfigMap was listed, from then on, and after a restart."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from prometheus_client import CollectorRegistry
from tests.integration.runtime.scripted import eventually
from tests.unit.ha.cases import open_case
from tests.unit.ha.signs import NODE, U1
from tests.unit.node_agent.incidents.server import Server

from hypercobalt.adapters.libvirt.events import Connected, DomainEvent, EventKind
from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.adapters.libvirt.port import LibvirtError
from hypercobalt.adapters.libvirt.vocabulary import AgentState, Lifecycle, PausedReason, Stopped
from hypercobalt.agent.board import ConditionReport
from hypercobalt.api.core import ConfigMap
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.api.incident import IncidentType
from hypercobalt.api.meta import Object, ObjectMeta
from hypercobalt.ha.incidents.cases import Case, InstanceRecord, State, Step
from hypercobalt.ha.incidents.config import KEY, hash_of
from hypercobalt.ha.incidents.holding import LOOK_AGAIN
from hypercobalt.node_agent.incidents.assembly import Incidents
from hypercobalt.node_agent.incidents.configuration import Configuration
from hypercobalt.node_agent.incidents.journal import IncidentJournal
from hypercobalt.node_agent.incidents.kept_config import NAME, KeptConfig, Valid
from hypercobalt.node_agent.incidents.metrics import IncidentMetrics
from hypercobalt.node_agent.settings import NodeAgentSettings
from hypercobalt.node_agent.status.parts import Board
from hypercobalt.runtime import FakeClock, Informer, ListResult, Metrics, Recorder
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.tasks import first
from hypercobalt.runtime.write_cache import Latest

T = TypeVar("T", bound=Object)
_TYPE = HypervisorConditionType.HA_CONFIG_VALID
INVALID = "dryRun: perhaps"


class Starting:
    """A HA agent with a guest in its journal that must be resumed now."""

    def __init__(self, state_dir: Path) -> None:
        self.clock, self.libvirt, self.server = FakeClock(), FakeLibvirt(), Server()
        self.board, metrics = Board(self.clock), Metrics()
        self.libvirt.put(
            Domain(U1, "vm1", True, DomainState.PAUSED, reason=PausedReason.IO_ERROR, id=1)
        )
        now = self.clock.now()
        case = open_case(IncidentType.IO_ERROR, U1, "1.1", now).then(Step.RESUME, now)
        paused = InstanceRecord(
            uuid=U1, state=State.PAUSED, start="1.1", domain_id=1, cases=(case,)
        )
        IncidentJournal(state_dir).close({U1: paused})

        def informer(type_: type[T]) -> Informer[T]:
            return Informer(self.server, Selection(type_, None, "", ""), metrics=metrics)

        self._state_dir, self.stored, self._lists = state_dir, informer(ConfigMap), 0
        self.incidents = Incidents(
            self.server,
            self.libvirt,
            self.board,
            NodeAgentSettings(
                node=NODE,
                label=NODE,
                namespace="default",
                state_dir=state_dir,
                ha_config="default/ha",
            ),
            Latest(informer(Hypervisor)),
            clock=self.clock,
            boot="",
            ended=lambda _: False,
            config=Latest(self.stored),
            recorder=Recorder(self.server, "test/agent", "test", clock=self.clock, metrics=metrics),
            registry=metrics.registry,
        )
        self.incidents.on_event(Connected(self.libvirt.versions))

    def has(self, document: str | None) -> None:
        """Have the API server list a ConfigMap with the document, or none."""
        self._lists += 1
        meta = ObjectMeta(name="ha", namespace="default", resourceVersion=str(self._lists))
        found = [] if document is None else [ConfigMap(metadata=meta, data={KEY: document})]
        self.stored.load(ListResult(found, str(self._lists), {}))

    def has_unreadable(self) -> None:
        """Have the API server list a ConfigMap that does not fit its type."""
        self._lists += 1
        self.stored.load(ListResult([], str(self._lists), {"default/ha": "data: no strings"}))

    def send(self, kind: EventKind, type_: int, detail: int = 0) -> None:
        """Have libvirt send an event of the guest."""
        self.incidents.on_event(DomainEvent(kind, U1, "vm1", self.clock.now(), type_, detail))

    async def until(self, good: Callable[[], bool]) -> None:
        """Run until something is so, and then to the end of the process."""
        await first(
            self.incidents.observe(), self.incidents.recover(), eventually(good, seconds=1.5)
        )

    async def until_it_has_looked(self) -> None:
        """Run until the agent has read its Hypervisor."""
        await self.until(lambda: self.server.reads > 0)

    @property
    def condition(self) -> ConditionReport:
        found = self.board.parts.conditions[_TYPE]
        assert found is not None
        return found

    @property
    def known(self) -> InstanceRecord:
        """The guest, as the journal has it."""
        return IncidentJournal(self._state_dir).read()[U1]

    @property
    def cases(self) -> tuple[Case, ...]:
        """The open cases of the guest."""
        return self.known.cases


async def test_recovery_waits_until_the_configuration_is_known(tmp_path: Path) -> None:
    starting = Starting(tmp_path)

    async def listed_late() -> None:
        await eventually(lambda: bool(starting.board.parts.incidents), seconds=1.5)
        assert starting.server.reads == 0
        assert _TYPE not in starting.board.parts.conditions
        starting.has("dryRun: true")
        await eventually(lambda: starting.server.reads > 0, seconds=1.5)

    await first(starting.incidents.observe(), starting.incidents.recover(), listed_late())
    assert starting.libvirt.calls["resume"] == 0
    (case,) = starting.cases
    assert (case.step, case.evidence[-1]) == (Step.HELD, "dry run: the instance would be resumed")


async def test_config_map_that_is_not_there_is_known_once_it_was_listed(tmp_path: Path) -> None:
    starting = Starting(tmp_path)
    starting.has(None)
    await starting.until(lambda: starting.libvirt.calls["resume"] == 1)
    assert (starting.condition.status, starting.condition.reason) == ("True", "Defaults")


async def test_recovery_of_an_old_incident_waits_until_libvirt_has_listed_its_domains(
    tmp_path: Path,
) -> None:
    starting = Starting(tmp_path)
    starting.libvirt.failures["domains"] = LibvirtError("not yet")
    starting.has(None)
    on_by_then = Domain(U1, "vm1", True, DomainState.RUNNING, id=2)

    async def listed_late() -> None:
        await eventually(lambda: starting.libvirt.calls["domains"] > 0, seconds=1.5)
        assert starting.server.reads == 0
        starting.libvirt.put(on_by_then)
        del starting.libvirt.failures["domains"]
        await eventually(lambda: not starting.known.cases, seconds=1.5)

    await first(starting.incidents.observe(), starting.incidents.recover(), listed_late())
    assert starting.server.reads == 0


async def go_by(state_dir: Path, document: str) -> None:
    """Have an earlier process of the agent go by a document."""
    earlier = Starting(state_dir)
    earlier.has(document)
    await earlier.until((state_dir / NAME).exists)


async def test_dry_run_outlives_a_restart_though_its_config_map_is_invalid_by_then(
    tmp_path: Path,
) -> None:
    await go_by(tmp_path, "dryRun: true")
    starting = Starting(tmp_path)
    starting.has(INVALID)
    await starting.until_it_has_looked()
    assert starting.libvirt.calls["resume"] == 0
    (case,) = starting.cases
    assert case.evidence[-1] == "dry run: the instance would be resumed"
    assert (starting.condition.status, starting.condition.reason) == ("False", "Invalid")
    active = f"Configuration {hash_of({KEY: 'dryRun: true'})} stays active: dry run"
    assert active in starting.condition.message


async def test_recovery_waits_while_the_only_config_map_is_invalid(
    tmp_path: Path,
) -> None:
    starting = Starting(tmp_path)
    starting.has(INVALID)
    await starting.until_it_has_looked()
    assert starting.libvirt.calls["resume"] == 0
    (case,) = starting.cases
    assert case.step is Step.HELD
    assert "no valid configuration is known: correct ConfigMap default/ha" in case.evidence[-1]
    assert (starting.condition.status, starting.condition.reason) == ("False", "NoneValid")
    assert "correct the ConfigMap, or delete it for the defaults" in starting.condition.message
    assert not (tmp_path / NAME).exists()


async def test_recovery_waits_while_the_config_map_cannot_be_read(tmp_path: Path) -> None:
    """The ConfigMap may order a dry run, and a list without it does not show that there is none."""
    starting = Starting(tmp_path)
    starting.has_unreadable()
    await starting.until_it_has_looked()
    assert starting.libvirt.calls["resume"] == 0
    (case,) = starting.cases
    assert case.step is Step.HELD
    assert "no valid configuration is known: correct ConfigMap default/ha" in case.evidence[-1]
    assert (starting.condition.status, starting.condition.reason) == ("False", "NoneValid")
    assert "default/ha cannot be read: data: no strings" in starting.condition.message


async def test_dry_run_outlives_a_restart_though_its_config_map_cannot_be_read_by_then(
    tmp_path: Path,
) -> None:
    await go_by(tmp_path, "dryRun: true")
    starting = Starting(tmp_path)
    starting.has_unreadable()
    await starting.until_it_has_looked()
    assert starting.libvirt.calls["resume"] == 0
    (case,) = starting.cases
    assert case.evidence[-1] == "dry run: the instance would be resumed"
    assert (starting.condition.status, starting.condition.reason) == ("False", "Invalid")


async def test_config_map_that_cannot_be_read_any_more_replaces_the_defaults_alone(
    tmp_path: Path,
) -> None:
    starting = Starting(tmp_path)
    configuration = following(starting.stored, KeptConfig(None, "default/ha"), starting.board)

    async def until(reason: str) -> None:
        await eventually(lambda: starting.condition.reason == reason, seconds=1.5)

    async def changing() -> None:
        starting.has(None)
        await eventually(lambda: configuration.restraint() is None, seconds=1.5)
        starting.has_unreadable()
        await until("NoneValid")
        assert configuration.restraint() is not None
        starting.has(None)
        await until("Defaults")
        assert configuration.restraint() is None
        starting.has("dryRun: true")
        await until("Valid")
        starting.has_unreadable()
        await until("Invalid")
        assert (configuration.restraint(), configuration.active().dry_run) == (None, True)
        starting.has("dryRun: true")
        await until("Valid")

    await first(configuration.run(), changing())


@pytest.mark.parametrize("document", ["dryRun: false", None], ids=["valid", "deleted"])
async def test_incident_that_waited_for_a_valid_configuration_goes_on_with_it(
    tmp_path: Path, document: str | None
) -> None:
    starting = Starting(tmp_path)
    starting.has(INVALID)

    async def corrected() -> None:
        await eventually(lambda: starting.server.reads > 0, seconds=1.5)
        assert starting.libvirt.calls["control_info"] == 0
        starting.has(document)
        await eventually(lambda: starting.condition.status == "True", seconds=1.5)
        starting.clock.advance(LOOK_AGAIN)
        starting.send(EventKind.AGENT_LIFECYCLE, AgentState.CONNECTED)  # wakes it
        await eventually(lambda: starting.libvirt.calls["control_info"] > 0, seconds=1.5)

    await first(starting.incidents.observe(), starting.incidents.recover(), corrected())


async def test_events_are_judged_at_once_by_the_kept_configuration(tmp_path: Path) -> None:
    await go_by(tmp_path, "events: {lifecycle: {monitored: false}}")
    starting = Starting(tmp_path)
    starting.send(EventKind.LIFECYCLE, Lifecycle.STOPPED, Stopped.FAILED)
    await starting.until(lambda: IncidentJournal(tmp_path).read()[U1].state is State.OFF)
    assert starting.cases == (), "not even a crash"


async def test_deleted_config_map_means_the_defaults_after_a_restart_too(tmp_path: Path) -> None:
    await go_by(tmp_path, "dryRun: true")
    later = Starting(tmp_path)
    later.has(None)
    await later.until(lambda: not (tmp_path / NAME).exists())
    starting = Starting(tmp_path)
    starting.has(INVALID)
    await starting.until_it_has_looked()
    assert starting.condition.reason == "NoneValid"


def following(
    config: Informer[ConfigMap], kept: KeptConfig, board: Board | None = None
) -> Configuration:
    return Configuration(
        Latest(config),
        "default/ha",
        board or Board(FakeClock()),
        IncidentMetrics(CollectorRegistry()),
        kept,
        deadline=0.05,
        write_again=0.01,
        patience=0.01,
    )


async def test_write_that_failed_is_tried_again_until_it_is_kept(tmp_path: Path) -> None:
    place = tmp_path / "state"
    place.write_text("no directory")
    starting = Starting(tmp_path / "other")
    starting.has("dryRun: true")
    kept = KeptConfig(place, "default/ha")
    configuration = following(starting.stored, kept)

    async def repaired() -> None:
        await eventually(lambda: kept.failing, seconds=1.5)
        place.unlink()
        await eventually((place / NAME).exists, seconds=1.5)

    await first(configuration.run(), repaired())
    assert configuration.active().dry_run


async def test_config_map_takes_effect_while_the_disk_hangs(tmp_path: Path) -> None:
    class Hanging(KeptConfig):
        thawed = threading.Event()

        def read(self) -> Valid | None:
            self.thawed.wait()
            return None

        def write(self, valid: Valid | None) -> None:
            self.thawed.wait()

    starting = Starting(tmp_path)
    kept = Hanging(tmp_path, "default/ha")
    configuration = following(starting.stored, kept)
    try:
        await configuration.load()
        for document, dry in (("dryRun: true", True), ("dryRun: false", False)):
            starting.has(document)
            await first(
                configuration.run(),
                eventually(lambda: configuration.active().dry_run is dry, seconds=1.5),  # noqa: B023
            )
    finally:
        kept.thawed.set()


async def test_config_map_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    starting = Starting(tmp_path)
    kept = KeptConfig(None, "default/ha")
    configuration = following(starting.stored, kept, starting.board)

    async def granted() -> None:
        await eventually(lambda: _TYPE in starting.board.parts.conditions, seconds=1.5)
        assert (starting.condition.status, starting.condition.reason) == ("Unknown", "NotRead")
        assert "check the agent's log and its right to list" in starting.condition.message
        starting.has(None)
        await eventually(lambda: starting.condition.status == "True", seconds=1.5)

    await first(configuration.run(), granted())
