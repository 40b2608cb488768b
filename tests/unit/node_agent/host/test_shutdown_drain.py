"""Decisions of the shutdown guard of a host."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from hypercobalt.adapters.host.fake import FakeShutdown
from hypercobalt.adapters.libvirt.model import (
    Domain,
    DomainCapabilities,
    DomainState,
    HostCapabilities,
    Versions,
)
from hypercobalt.api.conditions import set_condition
from hypercobalt.api.eviction import Eviction, EvictionSpec, EvictionStatus
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_glance import HypervisorGlance
from hypercobalt.api.hypervisor_status import HypervisorStatus, Instance
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.node_agent.host.shutdown_drain import (
    REASON,
    DrainStep,
    ShutdownDrain,
    decide,
    is_wanted,
    make_eviction,
)
from hypercobalt.node_agent.status.parts import Board, Inventory, Parts, RunningLauncher
from hypercobalt.runtime import FakeClock, Informer, Kube, ListResult, Metrics
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.tasks import first
from hypercobalt.runtime.write_cache import Latest

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OURS, OTHER = "HostShutdown", "Maintenance"


def eviction(
    *,
    evicting: str | None,
    trigger: str | None,
    deleted: bool = False,
    reason: str = "x",
    instances: tuple[str, ...] = (),
) -> Eviction:
    conditions = (
        set_condition((), "Evicting", evicting, "Running", "", now=FakeClock().now())
        if evicting
        else ()
    )
    return Eviction(
        metadata=ObjectMeta(name="kvm-a", uid="e", deletionTimestamp=NOW if deleted else None),
        spec=EvictionSpec(hypervisor="kvm-a", reason=reason, trigger=trigger, instances=instances),
        status=EvictionStatus(conditions=conditions),
    )


@pytest.mark.parametrize(
    ("present", "ours", "step"),
    [
        (None, None, DrainStep.CREATE),
        (None, "e", DrainStep.CREATE),  # a client deleted it
        (eviction(evicting=None, trigger=OURS), "e", DrainStep.WAIT),
        (eviction(evicting="True", trigger=OURS), "e", DrainStep.WAIT),
        (eviction(evicting="Unknown", trigger=OURS), "e", DrainStep.WAIT),
        (eviction(evicting="False", trigger=OURS), "e", DrainStep.DONE),
        (eviction(evicting=None, trigger=OTHER), None, DrainStep.WAIT),
        # What ended before does not cover the instances that run now, whoever made it.
        (eviction(evicting="False", trigger=OTHER), None, DrainStep.REPLACE),
        (eviction(evicting="False", trigger=None), None, DrainStep.REPLACE),
        (eviction(evicting="False", trigger=OTHER), "another", DrainStep.REPLACE),
        (eviction(evicting="False", trigger=OTHER, deleted=True), None, DrainStep.WAIT),
        (
            eviction(evicting="False", trigger=OTHER),
            "e",
            DrainStep.DONE,
        ),  # it was quicker than ours
        (eviction(evicting="False", trigger=OTHER, instances=("i",)), "e", DrainStep.REPLACE),
        (eviction(evicting="False", trigger=OURS), None, DrainStep.REPLACE),
        (eviction(evicting="False", trigger=OURS), "another", DrainStep.REPLACE),
        (eviction(evicting="False", trigger=None, reason=REASON), None, DrainStep.REPLACE),
        (eviction(evicting="False", trigger=OURS, deleted=True), None, DrainStep.WAIT),
        (eviction(evicting="False", trigger=OURS, deleted=True), "e", DrainStep.WAIT),  # cancelled
        (eviction(evicting="True", trigger=OURS), None, DrainStep.WAIT),  # agent was restarted
    ],
)
def test_next_step_of_a_drain_follows_from_its_eviction(
    present: Eviction | None, ours: str | None, step: DrainStep
) -> None:
    assert decide(present, ours) is step


def parts(*running: bool) -> Parts:
    domains = tuple(
        Domain(f"u{n}", f"i{n}", active, DomainState.RUNNING if active else DomainState.SHUTOFF)
        for n, active in enumerate(running)
    )
    host, offers = HostCapabilities("x86_64", ()), DomainCapabilities("x86_64", "kvm")
    return Parts(inventory=Inventory(Versions("9.0.0", "7.2.0"), host, offers, domains))


LAUNCHER = RunningLauncher(pod="p", namespace="default", name="guest")


def own(*, evacuate: bool | None = True, running: int = 0, launched: int = 0) -> Hypervisor:
    pods = (Instance(f"p{n}", "default_a", True, "default") for n in range(launched))
    return Hypervisor(
        metadata=ObjectMeta(name="kvm-a", uid="h"),
        spec=HypervisorSpec(evacuateOnReboot=evacuate),
        status=HypervisorStatus(
            instances=(
                *(Instance(id=str(n), name="i", active=True) for n in range(running)),
                *pods,
            )
        ),
    )


@pytest.mark.parametrize(
    ("hypervisor", "seen", "wanted"),
    [
        (None, parts(True), False),  # no Hypervisor requests it
        (own(), parts(True, False), True),
        (own(evacuate=None), parts(True), True),  # the default
        (own(evacuate=False), parts(True), False),
        (own(), parts(False), False),
        (own(running=3), parts(), False),  # they have left since
        (own(running=1), Parts(), True),  # libvirt was not read yet
        (own(), Parts(), False),
        (own(), replace(parts(), launchers=(LAUNCHER,)), True),
        (own(), Parts(launchers=(LAUNCHER,)), True),  # a host without libvirt of its own
        (own(launched=1), replace(parts(False), launchers=()), False),  # it has ended since
        (own(launched=1), parts(False), True),  # systemd was not read yet
        (own(evacuate=False), Parts(launchers=(LAUNCHER,)), False),
    ],
)
def test_a_shutdown_is_held_back_for_running_instances(
    hypervisor: Hypervisor | None, seen: Parts, wanted: bool
) -> None:
    assert is_wanted(hypervisor, seen) is wanted


def test_the_eviction_is_the_existing_agents_with_our_trigger() -> None:
    made = make_eviction(own())

    assert made.metadata.name == made.spec.hypervisor == "kvm-a"
    assert made.spec.reason == "kvm-node-agent: emergency evacuation due to host reboot"
    assert made.spec.trigger == "HostShutdown"
    assert [owner.uid for owner in made.metadata.ownerReferences] == ["h"]


class Unreadable(Kube):
    """An API server whose Hypervisor does not fit its type, but for what a drain needs."""

    def __init__(self, *, evacuate: bool | None) -> None:
        spec = HypervisorSpec(evacuateOnReboot=evacuate)
        self.raw = msgspec.json.encode(
            Hypervisor(metadata=ObjectMeta(name="kvm-a", uid="h"), spec=spec)
        )
        self.made = asyncio.get_running_loop().create_future()

    async def list(  # type: ignore[override]
        self, type_: type[HypervisorGlance], namespace: str | None = None, **options: object
    ) -> ListResult[HypervisorGlance]:
        assert options["fields"] == "metadata.name=kvm-a"
        return ListResult([msgspec.json.decode(self.raw, type=type_)], "9", {})

    async def get(  # type: ignore[override]
        self, type_: type[Eviction], name: str, namespace: str | None = None
    ) -> Eviction | None:
        return self.made.result() if self.made.done() else None

    async def create(self, obj: Eviction) -> Eviction:  # type: ignore[override]
        self.made.set_result(obj)
        return obj


@pytest.mark.parametrize("evacuate", [True, None])
async def test_host_whose_hypervisor_cannot_be_read_as_a_whole_is_drained(
    *, evacuate: bool | None
) -> None:
    kube = Unreadable(evacuate=evacuate)

    async def shuts_down(shutdown: FakeShutdown) -> None:
        await shutdown.held()
        shutdown.prepare()
        made = await kube.made
        assert (made.metadata.name, made.spec.trigger) == ("kvm-a", OURS)
        assert [owner.uid for owner in made.metadata.ownerReferences] == ["h"]
        assert shutdown.delays

    async with asyncio.timeout(1.5):
        await unreadable(kube, shuts_down)


async def test_unreadable_hypervisor_that_wants_no_drain_holds_no_shutdown_back() -> None:
    async def shuts_down(shutdown: FakeShutdown) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await shutdown.held()

    await unreadable(Unreadable(evacuate=False), shuts_down)


async def unreadable(
    kube: Unreadable, then: Callable[[FakeShutdown], Coroutine[None, None, None]]
) -> None:
    """Run the guard of a host with an instance, whose Hypervisor cannot be read."""
    shutdown, board = FakeShutdown(timedelta(minutes=10)), Board(FakeClock())
    board.put(parts(True))
    informer = Informer(kube, Selection(Hypervisor), metrics=Metrics())
    guard = ShutdownDrain(shutdown, kube, Latest(informer), board, node="kvm-a")
    informer.load(ListResult([], "9", {"kvm-a": "spec: no object"}))
    await first(guard.run(), then(shutdown))
