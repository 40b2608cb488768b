"""A host with servers on a compute service in memory, and the Eviction controller alone."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from tests.integration.operator.conftest import DEADLINE, until
from tests.records import record
from tests.sockets import left_to_the_collector

from hypercobalt.api.conditions import Condition, get_condition, set_condition
from hypercobalt.api.eviction import Eviction, EvictionSpec
from hypercobalt.api.fencing import Fencing
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.fake.moves import FakeMoves
from hypercobalt.compute.model import Host, Server, Size
from hypercobalt.compute.port import ComputeService, Fleet
from hypercobalt.operator.eviction.assembly import add_eviction
from hypercobalt.operator.eviction.model.policy import Policy
from hypercobalt.operator.eviction.observing.networks import BY_NETWORK, network_of
from hypercobalt.operator.shared.proofs import Proofs
from hypercobalt.runtime import Kube, Manager, Metrics, SystemClock, load_connection

SMALL = Size(1, 1024, 0)
HUGE = Size(10_000, 10_000_000, 0)


@dataclass
class World:
    """The compute service of the controller, made of `FakeMoves`.

    Args:
        name: of the Hypervisor.
        host: what the compute service calls it.
        also: more hosts, with the same name on both sides.
        counted: what the compute service counts to the host besides what it lists there.
        fresh_reads: how often a host was read past every cache.
    """

    name: str
    host: str
    moves: FakeMoves = field(default_factory=FakeMoves)
    also: tuple[str, ...] = ()
    counted: set[str] = field(default_factory=set[str])
    fresh_reads: int = 0
    down: set[str] = field(default_factory=set[str])
    unknown: bool = False
    providers: None = None
    aggregates: None = None
    traits: None = None
    smoke_tests: None = None
    trouble: str = ""
    counts_servers: bool = True
    silence: timedelta = timedelta(0)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.also)

    @property
    def hosts(self) -> World:
        return self

    @property
    def recovery(self) -> FakeMoves:
        return self.moves

    @property
    def owners(self) -> FakeMoves:
        return self.moves

    async def get(self, name: str, *, fresh: bool = False) -> Host | None:
        if self.moves.on_call is not None:
            self.moves.on_call("host", name)
        self.fresh_reads += fresh
        if name not in {*self.names, self.host} or self.unknown:
            return None
        host = name if name in self.also else self.host
        return Host(
            host,
            "hypervisor-id",
            "service-id",
            enabled=host not in self.moves.disabled,
            up=host not in self.down | self.moves.dead,
            forced_down=host in self.moves.dead,
            servers=(*(server.id for server in self.moves.on(host)), *self.counted),
        )

    async def fleet(self) -> Fleet:
        raise NotImplementedError

    async def hindrance(self) -> str:
        raise NotImplementedError

    async def enable(self, host: Host) -> None:
        raise NotImplementedError

    async def disable(self, host: Host, reason: str) -> None:
        raise NotImplementedError

    async def unstored(self, host: Host) -> frozenset[str]:
        raise NotImplementedError

    remove = remove_provider = force_down = take_back = enable

    async def has_provider(self, host: Host) -> bool:
        return False

    async def left_over(self, name: str, provider: str) -> Host | None:
        return None

    async def close(self) -> None:
        pass

    def fill(
        self, count: int, *, size: Size = SMALL, status: str = "ACTIVE", on: str = ""
    ) -> list[Server]:
        """Put servers on the host."""
        made = [
            Server(
                id=str(uuid.uuid4()),
                name=f"vm-{number}",
                host=on or self.host,
                status=status,
                running=status == "ACTIVE",
                paused=status == "PAUSED",
                size=size,
            )
            for number in range(count)
        ]
        self.moves.add(*made)
        return made


def world(name: str, *, host: str = "", others: int = 2) -> World:
    """A host that is disabled, and others with much room."""
    made = World(name, host or name)
    made.moves.hosts = {made.host: HUGE, **{f"other-{n}": HUGE for n in range(others)}}
    made.moves.disabled.add(made.host)
    return made


@dataclass
class Running:
    metrics: Metrics
    manager: Manager

    @property
    def writes(self) -> int:
        """Requested changes of objects, Events included."""
        found = 0.0
        for family in self.metrics.requests.collect():
            for sample in family.samples:
                if sample.name.endswith("_total") and sample.labels["method"] != "GET":
                    found += sample.value
        return int(found)


@asynccontextmanager
async def evicting(
    kubeconfig: Path, compute: ComputeService, policy: Policy | None = None
) -> AsyncIterator[Running]:
    """Run the controller until the block is left."""
    metrics = Metrics()
    with left_to_the_collector():
        async with Kube(load_connection(kubeconfig), metrics=metrics) as client:
            manager = assemble(client, metrics, compute, policy)
            running = asyncio.create_task(manager.run())
            try:
                yield Running(metrics, manager)
            finally:
                manager.stop()
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait_for(running, DEADLINE)


def assemble(
    client: Kube, metrics: Metrics, compute: ComputeService, policy: Policy | None
) -> Manager:
    manager = Manager(client, metrics=metrics)
    add_eviction(
        manager,
        compute,
        manager.informer(Hypervisor, indexes={BY_NETWORK: network_of}),
        proofs=Proofs(manager.kube),
        policy=policy or Policy(),
        events=manager.recorder("kvm.cloud.sap/hypervisor-operator"),
        metrics=metrics,
    )
    return manager


async def add_hypervisor(
    kube: Kube,
    name: str,
    *,
    disabled: bool = True,
    spec: HypervisorSpec | None = None,
    service: str = "service-id",
) -> Hypervisor:
    """A Hypervisor as the maintenance controller leaves it, registered as a compute service."""
    made = Hypervisor(metadata=ObjectMeta(name=name), spec=spec or HypervisorSpec())
    await kube.create(made)
    conditions: tuple[Condition, ...] = ()
    if disabled:
        now = SystemClock().now()
        conditions = set_condition(
            (), "HypervisorDisabled", "True", "Succeeded", "disabled", now=now
        )
    status = HypervisorStatus(
        numInstances=0,
        hypervisorId="hypervisor-id",
        serviceId=service,
        conditions=conditions,
    )
    return await kube.apply(
        Hypervisor(metadata=ObjectMeta(name=name), status=status), subresource="status"
    )


async def fence(kube: Kube, name: str, *, proven: bool = True) -> Hypervisor:
    """Record that the host's boot, or else an earlier one, is proven dead and declared down."""
    now = SystemClock().now()
    fencing = Fencing(
        phase="Fenced", bootID="1", method="BMC", proof="power is off", forcedDownAt=now
    )
    await record(kube, name, fencing)
    status = HypervisorStatus(bootID="1" if proven else "2", numInstances=0, conditions=())
    made = Hypervisor(metadata=ObjectMeta(name=name), status=status)
    return await kube.as_manager("fencing").apply(made, force=True, subresource="status")


async def add_eviction_of(kube: Kube, host: str, *, name: str = "", **spec: object) -> Eviction:
    wanted = EvictionSpec(hypervisor=host, reason="test", **spec)  # type: ignore[arg-type]
    return await kube.create(Eviction(metadata=ObjectMeta(name=name or host), spec=wanted))


def state(eviction: Eviction, type_: str = "Evicting") -> str:
    found = get_condition(eviction.status.conditions, type_)
    return f"{found.status}/{found.reason}" if found else ""


def words(eviction: Eviction, type_: str = "Evicting") -> str:
    found = get_condition(eviction.status.conditions, type_)
    return found.message if found else ""


def ended(eviction: Eviction) -> bool:
    return state(eviction).startswith("False")


async def until_ended(kube: Kube, name: str) -> Eviction:
    return await until(kube, Eviction, name, ended)


async def until_it(kube: Kube, name: str, good: Callable[[Eviction], bool]) -> Eviction:
    return await until(kube, Eviction, name, good)
