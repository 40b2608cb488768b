"""What counts before the ConfigMap was listed, and from then on."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from tests.integration.runtime.scripted import eventually
from tests.unit.ha.signs import NODE, U1
from tests.unit.node_agent.incidents.server import Server

from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.adapters.libvirt.vocabulary import PausedReason
from hypercobalt.api.core import ConfigMap
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.api.incident import IncidentType, Severity
from hypercobalt.api.meta import Object, ObjectMeta
from hypercobalt.ha.cases import Case, Instance, State, Step, key_of
from hypercobalt.ha.config import KEY
from hypercobalt.node_agent.incidents.assembly import Incidents
from hypercobalt.node_agent.incidents.journal import Journal
from hypercobalt.node_agent.settings import Settings
from hypercobalt.node_agent.status.parts import Board
from hypercobalt.runtime import FakeClock, Informer, ListResult, Metrics, Recorder
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.tasks import first
from hypercobalt.runtime.write_cache import Latest

T = TypeVar("T", bound=Object)
_TYPE = HypervisorConditionType.HA_CONFIG_VALID


class Starting:
    """A HA agent whose journal has a guest that is to be resumed now."""

    def __init__(self, state_dir: Path) -> None:
        self.clock, self.libvirt, self.server = FakeClock(), FakeLibvirt(), Server()
        self.board, metrics = Board(self.clock), Metrics()
        self.libvirt.put(
            Domain(U1, "vm1", True, DomainState.PAUSED, reason=PausedReason.IO_ERROR, id=1)
        )
        case = Case(
            id=key_of(U1, "1.1", IncidentType.IO_ERROR),
            type=IncidentType.IO_ERROR,
            severity=Severity.CRITICAL,
            start="1.1",
            first_seen=self.clock.now(),
            last_seen=self.clock.now(),
        ).then(Step.RESUME, self.clock.now())
        paused = Instance(uuid=U1, state=State.PAUSED, start="1.1", domain_id=1, cases=(case,))
        Journal(state_dir).close({U1: paused})

        def informer(type_: type[T]) -> Informer[T]:
            return Informer(self.server, Selection(type_, None, "", ""), metrics=metrics)

        self.stored = informer(ConfigMap)
        self.incidents = Incidents(
            self.server,
            self.libvirt,
            self.board,
            Settings(node=NODE, label=NODE, namespace="default", state_dir=state_dir),
            Latest(informer(Hypervisor)),
            clock=self.clock,
            boot="",
            config=Latest(self.stored),
            recorder=Recorder(self.server, "test/agent", "test", clock=self.clock, metrics=metrics),
            registry=metrics.registry,
        )


async def test_nothing_is_done_before_it_is_known_whether_that_is_wanted(tmp_path: Path) -> None:
    starting = Starting(tmp_path)

    async def listed_late() -> None:
        await eventually(lambda: bool(starting.board.parts.incidents), seconds=1.5)
        assert starting.server.reads == 0
        assert _TYPE not in starting.board.parts.conditions
        wanted = ConfigMap(metadata=ObjectMeta(name="ha"), data={KEY: "dryRun: true"})
        starting.stored.load(ListResult([wanted], "1", {}))
        await eventually(lambda: starting.server.reads > 0, seconds=1.5)

    await first(starting.incidents.observe(), starting.incidents.recover(), listed_late())
    assert starting.libvirt.calls["resume"] == 0
    (case,) = Journal(tmp_path).read()[U1].cases
    assert case.evidence[-1] == "dry run: it would be resumed"


async def test_config_map_that_is_not_there_is_known_once_it_was_listed(tmp_path: Path) -> None:
    starting = Starting(tmp_path)
    starting.stored.load(ListResult([], "1", {}))
    await first(
        starting.incidents.observe(),
        starting.incidents.recover(),
        eventually(lambda: starting.libvirt.calls["resume"] == 1, seconds=1.5),
    )
    found = starting.board.parts.conditions[_TYPE]
    assert found is not None
    assert (found.status, found.reason) == ("True", "Defaults")
