"""Servers, records and Evictions for tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.records import recorded

from hypercobalt.api.eviction import (
    Eviction,
    EvictionInstance,
    EvictionSpec,
    EvictionStatus,
)
from hypercobalt.api.fencing import Fencing
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.model import Capacity, Move, Server, Size
from hypercobalt.operator.eviction.assessing.situation import Situation
from hypercobalt.operator.eviction.model.facts import Facts
from hypercobalt.operator.eviction.model.policy import Policy
from hypercobalt.operator.eviction.model.states import (
    Assessment,
    Mode,
    Moment,
    Observed,
    Ready,
    State,
)
from hypercobalt.operator.eviction.planning.situate import situate

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
AGES_AGO = BEGAN - timedelta(days=1)
NOW = Moment(BEGAN + timedelta(minutes=10), 1000.0)
POLICY = Policy()
SIZE = Size(1, 1024, 0)
READY = Ready(Mode.LIVE)


def server(id_: str = "a", status: str = "ACTIVE", **fields: object) -> Server:
    running = status == "ACTIVE"
    wanted: dict[str, object] = {"host": "here", "running": running, "size": SIZE, **fields}
    return Server(id=id_, name=f"vm-{id_}", status=status, **wanted)  # type: ignore[arg-type]


def move(status: str = "running", id_: str = "a", /, **fields: object) -> Move:
    begun = BEGAN + timedelta(minutes=1)
    wanted: dict[str, object] = {
        "id": "1",
        "kind": "live-migration",
        "source": "here",
        "target": "there",
        "created": begun,
        "updated": begun,
        "total": 1000,
        "remaining": 500,
        **fields,
    }
    return Move(server=id_, status=status, **wanted)  # type: ignore[arg-type]


def capacity(host: str, memory_mib: int = 4096, used_mib: int = 0) -> Capacity:
    return Capacity(host, Size(100, memory_mib, 100), Size(0, used_mib, 0))


def entry(id_: str = "a", phase: str | None = "Pending", **fields: object) -> EvictionInstance:
    return EvictionInstance(id=id_, phase=phase, **fields)  # type: ignore[arg-type]


def seen(
    of: Server | None = None, *moves: Move, known: EvictionInstance | None = None, **more: object
) -> Observed:
    return Observed(known or entry(), of, moves, **more)  # type: ignore[arg-type]


def assessed(of: Server, state: State = READY, **fields: object) -> Assessment:
    return Assessment(Observed(entry(of.id), of), state, **fields)  # type: ignore[arg-type]


def eviction(status: EvictionStatus | None = None, /, **spec: object) -> Eviction:
    """An Eviction of the host `here`; `name` is the Eviction's name."""
    wanted: dict[str, object] = {"hypervisor": "here", "reason": "test", **spec}
    name = str(wanted.pop("name", "here"))
    return Eviction(
        metadata=ObjectMeta(name=name, generation=1, creationTimestamp=BEGAN),
        spec=EvictionSpec(**wanted),  # type: ignore[arg-type]
        status=status or EvictionStatus(),
    )


def hypervisor(
    phase: str = "", *, boot: str = "1", maintenance: str = "", evidence: tuple[str, ...] = ()
) -> Hypervisor:
    """A host that reports this boot; the fencing, if there is one, is of boot 1."""
    down = BEGAN if phase == "Fenced" else None
    fencing = Fencing(
        phase=phase, bootID="1", proof="power is off", forcedDownAt=down, evidence=evidence
    )
    made = Hypervisor(
        metadata=ObjectMeta(name="here"),
        spec=HypervisorSpec(maintenance=maintenance),
        status=HypervisorStatus(bootID=boot, fencing=fencing if phase else None),
    )
    return recorded(made)


def facts(of: Eviction | None = None, **fields: object) -> Facts:
    about = of or eviction()
    return Facts(eviction=about, status=about.status, moment=NOW, **fields)  # type: ignore[arg-type]


def situation(of: Facts | None = None, policy: Policy = POLICY) -> Situation:
    """What the facts decide for all instances: a host that is well, without any."""
    return situate(of or facts(), policy)
