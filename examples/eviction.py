"""A controller in a page: empty a hypervisor, one instance at a time.

Observe (the Eviction, and where its next instance is), decide (pure), act (ask for one migration),
write the status once. Any pass may be the first after a crash: nothing is remembered but what the
Eviction and the cloud say.

Run it against any cluster that has the resources of hypercobalt; `cobalt apiserver` is one:

    KUBECONFIG=data/kubeconfig python examples/eviction.py
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from msgspec.structs import replace

from hypercobalt.api.conditions import set_condition
from hypercobalt.api.eviction import Eviction, EvictionStatus
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.logs import get_logger
from hypercobalt.runtime import (
    Address,
    Clock,
    Controller,
    Election,
    Kube,
    Manager,
    Metrics,
    Recorder,
    Result,
    configure_logs,
    generation_changed,
    load_connection,
    mapped,
    primary,
    process_identity,
)

log = get_logger(__name__)
POLL = timedelta(seconds=1)  # a cloud tells nobody when an instance has moved


class Compute(Protocol):
    """What the example needs of a cloud."""

    async def host_of(self, instance: str) -> str | None:
        """The host an instance runs on, None if there is no such instance."""
        ...

    async def migrate(self, instance: str) -> None:
        """Ask for a move; asking again while it is on its way changes nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """What one pass should do."""

    status: EvictionStatus
    migrate: str | None = None
    requeue_after: timedelta | None = POLL


def decide(eviction: Eviction, host: str | None, now: datetime) -> Plan:
    """Choose the one next step.

    Args:
        eviction: as read; the last of `status.outstandingInstances` is next.
        host: where that instance is; None if it is gone or there is none left.
        now: the only clock that this function sees.
    """
    old, source = eviction.status, eviction.spec.hypervisor
    queue = old.outstandingInstances

    def status(left: tuple[str, ...], state: str, reason: str, message: str) -> EvictionStatus:
        conditions = set_condition(
            old.conditions,
            "Evicting",
            state,
            reason,
            message,
            now=now,
            observed_generation=eviction.metadata.generation,
        )
        return replace(old, outstandingInstances=left, conditions=conditions)

    if queue and host == source:
        moving = f"Moving {queue[-1]} from {source}; {len(queue)} to go"
        return Plan(status(queue, "True", "Running", moving), migrate=queue[-1])
    left = queue[:-1]
    if left:
        text = f"{len(left)} to go on {source}"
        return Plan(status(left, "True", "Running", text), None, timedelta(milliseconds=1))
    return Plan(status((), "False", "Succeeded", f"No instance left on {source}"), None, None)


class EvictionReconciler:
    """The shell around `decide`."""

    def __init__(self, kube: Kube, compute: Compute, clock: Clock, events: Recorder) -> None:
        self._kube, self._compute, self._clock, self._events = kube, compute, clock, events

    async def reconcile(self, name: str, /) -> Result:
        eviction = await self._kube.get(Eviction, name)
        if eviction is None or eviction.metadata.deletionTimestamp:
            return Result()
        queue = eviction.status.outstandingInstances
        host = await self._compute.host_of(queue[-1]) if queue else None
        plan = decide(eviction, host, self._clock.now())
        if plan.migrate:
            log.info("migrating_instance", eviction=name, instance=plan.migrate)
            await self._compute.migrate(plan.migrate)
            note = f"Moving instance {plan.migrate}"
            self._events.record(eviction, "Normal", "Migrating", note, action="Evicting")
        await self._kube.patch_status(eviction, plan.status)
        return Result(plan.requeue_after)


def add_to(manager: Manager, compute: Compute) -> None:
    """Add the controller and what it watches to a manager."""
    evictions = manager.informer(
        Eviction, indexes={"hypervisor": lambda eviction: (eviction.spec.hypervisor,)}
    )
    hypervisors = manager.informer(Hypervisor)

    def of_hypervisor(hypervisor: Hypervisor) -> list[str]:
        found = evictions.cache.find("hypervisor", hypervisor.metadata.name)
        return [eviction.metadata.name for eviction in found]

    kube = manager.kube.as_manager("example-eviction")
    events = manager.recorder("example.com/eviction")
    manager.add(
        Controller(
            "eviction",
            EvictionReconciler(kube, compute, manager.clock, events),
            watches=(
                primary(evictions, when=generation_changed),
                mapped(hypervisors, of_hypervisor, when=generation_changed),
            ),
            concurrency=4,
        )
    )


class NoCloud:
    """A cloud without instances, to try the example with."""

    async def host_of(self, instance: str) -> str | None:
        log.info("asked_for_host", instance=instance)
        return None

    async def migrate(self, instance: str) -> None:
        raise NotImplementedError


async def main() -> None:
    """Run until SIGTERM or SIGINT."""
    configure_logs()
    metrics = Metrics()
    async with Kube(load_connection(), metrics=metrics) as kube:
        election = Election("example-eviction", kube.namespace, process_identity())
        manager = Manager(kube, metrics=metrics, election=election, address=Address(port=8081))
        add_to(manager, NoCloud())
        await manager.run()


if __name__ == "__main__":
    asyncio.run(main())
