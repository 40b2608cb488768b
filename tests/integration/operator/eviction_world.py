"""A host with servers on a compute service in memory, and the Eviction controller alone."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
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
from hypercobalt.compute.fake.registry import FakeCompute, FakeHosts
from hypercobalt.compute.model import Host, Server, Size
from hypercobalt.compute.port import ComputeService
from hypercobalt.operator.eviction.assembly import add_eviction
from hypercobalt.operator.eviction.model.policy import Policy
from hypercobalt.operator.eviction.observing.networks import BY_NETWORK, network_of
from hypercobalt.operator.shared.proofs import Proofs
from hypercobalt.runtime import Kube, Manager, Metrics, SystemClock, load_connection

SMALL = Size(1, 1024, 0)
HUGE = Size(10_000, 10_000_000, 0)


class World(FakeCompute):
    """The compute service of the controller: the shipped fake, with one host that is emptied.

    Args:
        name: of the Hypervisor; messages call the service so.
        host: what the compute service calls it.
    """

    def __init__(self, name: str, host: str) -> None:
        super().__init__(SystemClock().now, has=("recovery", "owners"))
        self.name, self.host = name, host
        self.counted = set[str]()
        """What the compute service counts to the host besides what it lists there."""
        self.down = set[str]()
        self.unknown = False
        self.fresh_reads = 0
        """How often a host was read past every cache."""
        self.names: tuple[str, ...] = (name,)
        self.hosts = _Hosts(self)
        self._add(host)

    def also(self, *hosts: str) -> None:
        """Add hosts that are emptied as well, with the same name on both sides."""
        self.names += hosts
        for host in hosts:
            self._add(host)

    def _add(self, host: str) -> None:
        self.world.add_host(host)
        self.world.change_host(host, hypervisor_id="hypervisor-id", service_id="service-id")

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


class _Hosts(FakeHosts):
    """The hosts of the fake, disabled, down and dead as its moves and the test have them."""

    def __init__(self, of: World) -> None:
        super().__init__(of.world, of.moves)
        self._of = of

    async def get(self, name: str, *, fresh: bool = False) -> Host | None:
        if self._of.moves.on_call is not None:
            self._of.moves.on_call("host", name)
        self._of.fresh_reads += fresh
        return await super().get(name, fresh=fresh)

    def find(self, name: str) -> Host | None:
        host, of = super().find(name), self._of
        if host is None or of.unknown:
            return None
        dead = host.name in of.moves.dead
        return replace(
            host,
            enabled=host.name not in of.moves.disabled,
            up=not dead and host.name not in of.down,
            forced_down=dead,
            servers=(*host.servers, *of.counted),
        )


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
