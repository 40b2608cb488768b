"""A pass over a host's maintenance: what is created and deleted, and what the next pass finds."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import cast

import pytest
from msgspec.structs import replace as with_fields
from tests.unit.operator.lifecycle.facts import ON, facts, state_of
from tests.unit.operator.lifecycle.pods import StoredPods, launcher_pods
from tests.unit.operator.samples import NOW, condition

from hypercobalt.api.eviction import Eviction, EvictionMode, EvictionSpec, EvictionStatus
from hypercobalt.api.hypervisor import HypervisorSpec
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.errors import UnreachableError
from hypercobalt.compute.fake import FakeCompute
from hypercobalt.compute.model import Server, Size
from hypercobalt.operator.ha.planning.evictions import recovery
from hypercobalt.operator.lifecycle.evictions import Evictions
from hypercobalt.operator.lifecycle.maintenance_eviction import EvictingSync
from hypercobalt.operator.lifecycle.settings import LifecycleSettings
from hypercobalt.operator.lifecycle.step import PATIENCE, POLL, LifecycleFacts
from hypercobalt.operator.shared.guests import NO_GUESTS, HostGuest, HostGuests
from hypercobalt.operator.shared.ha_mode import HaMode
from hypercobalt.runtime import AlreadyExistsError, ConflictError, Kube
from hypercobalt.runtime.client.errors import Status
from hypercobalt.runtime.write_cache import WriteCache

MANUAL, LEAVING = with_fields(ON, maintenance="manual"), with_fields(ON, maintenance="termination")
EVICTED = condition("Evicting", "False", "Succeeded")


class Cluster:
    """An API server and its cache in one, with at most one Eviction; records its calls."""

    def __init__(self, there: Eviction | None = None) -> None:
        self.there, self.refuses = there, False
        self.created: list[str | None] = []
        self.deleted: list[str] = []

    def get(self, name: str) -> Eviction | None:
        return self.there

    def added(self, made: Eviction) -> None:
        self.there = made

    async def create(self, made: Eviction) -> Eviction:
        if self.refuses:
            raise AlreadyExistsError("it is there", Status(code=409))
        self.created.append(made.spec.trigger)
        return made

    async def delete(self, kind: type[Eviction], name: str, *, uid: str) -> None:
        if self.refuses:
            raise ConflictError("it has another uid", Status(code=409))
        self.deleted.append(uid)


def sync(
    cluster: Cluster, compute: FakeCompute | None = None, pods: StoredPods | None = None
) -> EvictingSync:
    service = compute or FakeCompute(lambda: NOW)
    evictions = Evictions(cast("WriteCache[Eviction]", cluster), lambda _: ())
    kube, forgotten = cast("Kube", cluster), LifecycleSettings().forgotten
    launchers = launcher_pods(pods or NO_GUESTS)
    return EvictingSync(
        kube, service, evictions, (), forgotten, launchers=launchers, ha=HaMode.EXTERNAL
    )


def succeeded(uid: str, *, going: datetime | None = None) -> Eviction:
    return Eviction(
        metadata=ObjectMeta(name="kvm-a", uid=uid, deletionTimestamp=going),
        spec=EvictionSpec(hypervisor="kvm-a", reason="test"),
        status=EvictionStatus(conditions=(EVICTED,)),
    )


@pytest.mark.parametrize("taken", [False, True], ids=["is created", "was created meanwhile"])
async def test_maintenance_has_its_eviction(taken: bool) -> None:
    cluster = Cluster()
    cluster.refuses = taken
    done = await sync(cluster).run(facts(spec=MANUAL))
    assert cluster.created == ([] if taken else ["Maintenance"])
    assert (cluster.there is None) is taken
    assert state_of(done.facts, "Evicting") == "True/Running"


@pytest.mark.parametrize(
    ("given", "followed"),
    [
        pytest.param(facts(spec=MANUAL), {"kvm-a"}, id="maintenance"),
        pytest.param(facts(spec=ON), set[str](), id="in-service"),
        pytest.param(
            facts(condition("Onboarding", "True", "Testing"), spec=MANUAL),
            set[str](),
            id="onboarding",
        ),
    ],
)
async def test_launcher_pods_of_a_host_that_must_be_empty_are_watched(
    given: LifecycleFacts, followed: set[str]
) -> None:
    pods = StoredPods(followed={"kvm-a"} - followed)
    await sync(Cluster(), pods=pods).run(given)
    assert pods.followed == followed


async def test_launcher_pod_that_comes_to_an_evicted_host_is_evicted_again() -> None:
    pods = StoredPods(HostGuests((HostGuest("default", "a", uid="p"),)))
    cluster = Cluster(succeeded("1"))
    done = await sync(cluster, pods=pods).run(facts(EVICTED, spec=MANUAL, evicted=True))
    assert cluster.deleted == ["1"]
    assert done.facts.hypervisor.status.evicted is False


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        pytest.param(True, "False/Succeeded", id="Nova"),
        pytest.param(False, "True/Running", id="no"),
    ],
)
async def test_service_that_lists_a_host_by_its_address_alone_shows_no_absence(
    counts: bool, expected: str
) -> None:
    class Service(FakeCompute):
        counts_servers = counts

    compute = Service(lambda: NOW)
    lost = condition("Registered", "False", "NotRegistered")
    ago = with_fields(lost, lastTransitionTime=NOW - 2 * LifecycleSettings().forgotten)
    done = await sync(Cluster(), compute).run(facts(ago, spec=LEAVING))
    assert state_of(done.facts, "Evicting") == expected


async def test_eviction_of_before_is_deleted_once_and_waited_for() -> None:
    cluster = Cluster(succeeded("1"))
    step = sync(cluster)
    for _ in range(2):  # the watch has not reported the deletion yet
        done = await step.run(facts(spec=MANUAL))
        assert cluster.deleted == ["1"]
    found = done.facts.condition("Evicting")
    assert found is not None
    assert found.message == "Waiting for Eviction kvm-a to be deleted"


async def test_eviction_made_since_is_not_taken_for_the_deleted_one() -> None:
    cluster = Cluster(succeeded("1"))
    step = sync(cluster)
    await step.run(facts(spec=MANUAL))
    cluster.there = succeeded("2")
    done = await step.run(facts(EVICTED, spec=MANUAL))
    assert state_of(done.facts, "Evicting") == "False/Succeeded"
    assert done.facts.hypervisor.status.evicted is True


async def test_deletion_of_one_that_was_replaced_meanwhile_is_no_error() -> None:
    cluster = Cluster(succeeded("1"))
    cluster.refuses = True
    done = await sync(cluster).run(facts(spec=MANUAL))
    assert (cluster.deleted, done.error) == ([], None)


async def test_host_that_failed_again_shows_its_present_recovery() -> None:
    """A live recovery succeeded, then the host died: it is not empty before it is evacuated."""
    given = facts(EVICTED, spec=with_fields(ON, maintenance="ha"))
    host = given.hypervisor
    earlier = with_fields(
        recovery(host, EvictionMode.LIVE, NOW), status=EvictionStatus(conditions=(EVICTED,))
    )
    evacuates = recovery(host, EvictionMode.EVACUATE, NOW)
    evictions = Evictions(cast("WriteCache[Eviction]", Cluster()), lambda _: (earlier, evacuates))
    kube, service = cast("Kube", Cluster()), FakeCompute(lambda: NOW)
    step = EvictingSync(
        kube,
        service,
        evictions,
        (),
        LifecycleSettings().forgotten,
        launchers=launcher_pods(),
        ha=HaMode.INTERNAL,
    )
    done = (await step.run(given)).facts
    assert state_of(done, "Evicting") == "True/Running"
    assert done.hypervisor.status.evicted is False


UNKNOWN = condition("Registered", "False", "NotRegistered")


@pytest.mark.parametrize(
    ("given", "again"),
    [
        pytest.param(facts(UNKNOWN, spec=LEAVING), True, id="until it counts as forgotten"),
        pytest.param(facts(UNKNOWN, spec=MANUAL), False, id="it is to stay"),
        pytest.param(facts(UNKNOWN, EVICTED, spec=LEAVING, evicted=True), False, id="it is empty"),
        pytest.param(facts(spec=LEAVING), False, id="it is registered"),
    ],
)
async def test_sync_looks_again_until_a_missing_host_counts_as_forgotten(
    given: LifecycleFacts, again: bool
) -> None:
    done = await sync(Cluster()).run(given)
    assert done.look_again == (PATIENCE if again else None)


@pytest.mark.parametrize(
    ("servers", "evicted", "counted"),
    [((), True, False), (("i1",), False, False), (("i1",), True, True)],
    ids=["nothing is on it", "they never left", "some came back"],
)
async def test_host_is_counted_afresh_only_when_servers_came_back(
    servers: tuple[str, ...], evicted: bool, counted: bool
) -> None:
    compute = FakeCompute(lambda: NOW)
    host = compute.world.add_host("kvm-a", servers=servers)
    known = EVICTED if evicted else condition("Evicting", "True", "Running")
    await sync(Cluster(), compute).run(facts(known, spec=MANUAL, host=host, evicted=evicted))
    assert compute.world.calls == ["hosts.get kvm-a"] * counted


@pytest.mark.parametrize(
    ("spec", "after"),
    [
        pytest.param(MANUAL, "False/Succeeded", id="in maintenance it stays so"),
        pytest.param(ON, "", id="out of it that does not matter"),
    ],
)
async def test_evicted_host_that_cannot_be_counted_stays_evicted_in_maintenance(
    spec: HypervisorSpec, after: str
) -> None:
    compute = FakeCompute(lambda: NOW)
    made = compute.world.add_host("kvm-a", servers=("i1",))
    compute.world.fault = lambda what, about: UnreachableError("no answer")
    done = await sync(Cluster(), compute).run(facts(EVICTED, spec=spec, host=made, evicted=True))
    assert state_of(done.facts, "Evicting") == after
    assert done.facts.hypervisor.status.evicted is bool(after)
    assert done.error is None


SIZE = Size(1, 1024)


async def moving_in(compute: FakeCompute) -> None:
    """Have a server on its way to kvm-a, which is empty."""
    for name in ("kvm-a", "kvm-b"):
        compute.moves.hosts[name] = Size(8, 65536)
        compute.world.add_host(name)
    server = Server("i1", "vm-1", "kvm-b", "ACTIVE", running=True, size=SIZE)
    compute.moves.add(server)
    await compute.moves.live_migrate(server, "kvm-a")


@pytest.mark.parametrize(
    "before", ["True/Running", "False/Succeeded"], ids=["its eviction runs", "it was empty"]
)
async def test_host_with_an_incoming_migration_is_not_evicted(before: str) -> None:
    status, _, reason = before.partition("/")
    compute, cluster = FakeCompute(lambda: NOW), Cluster(succeeded("1"))
    await moving_in(compute)
    known = condition("Evicting", status, reason)
    given = facts(known, spec=LEAVING, host=compute.world.hosts["kvm-a"])
    done = await sync(cluster, compute).run(given)
    assert done.facts.hypervisor.status.evicted is False
    assert state_of(done.facts, "Evicting") == "True/Running"
    assert state_of(done.facts, "IncomingMigrationsSettled") == "False/Waiting"
    found = done.facts.condition("IncomingMigrationsSettled")
    assert found is not None
    assert "1 incoming migration: i1 from kvm-b" in found.message
    assert cluster.deleted == ["1"]  # a new one waits for the server, and moves it
    assert done.look_again == POLL


async def test_incoming_migrations_are_settled_on_a_host_to_which_none_goes() -> None:
    compute = FakeCompute(lambda: NOW)
    host = compute.world.add_host("kvm-a")
    running = condition("Evicting", "True", "Running")
    done = await sync(Cluster(succeeded("1")), compute).run(facts(running, spec=MANUAL, host=host))
    assert state_of(done.facts, "IncomingMigrationsSettled") == "True/Settled"
    assert done.facts.hypervisor.status.evicted is True
    after = await sync(Cluster(), compute).run(
        facts(*done.facts.hypervisor.conditions, host=host, evicted=True)
    )
    assert state_of(after.facts, "IncomingMigrationsSettled") == ""


@pytest.mark.parametrize(
    ("before", "up", "after", "condition_after"),
    [
        pytest.param("True/Running", True, "True/Running", "Unknown/NotRead", id="not proven yet"),
        pytest.param(
            "False/Succeeded", True, "False/Succeeded", "Unknown/NotRead", id="it was empty"
        ),
        pytest.param("False/Succeeded", False, "False/Succeeded", "", id="empty, switched off"),
    ],
)
async def test_host_whose_migrations_cannot_be_read_stays_as_it_is(
    before: str, *, up: bool, after: str, condition_after: str
) -> None:
    def refuse(what: str, about: str) -> None:
        if what == "incoming":
            raise UnreachableError("no answer")

    compute = FakeCompute(lambda: NOW)
    compute.moves.on_call = refuse
    host = replace(compute.world.add_host("kvm-a"), up=up)
    known = condition("Evicting", *before.split("/"))
    done = await sync(Cluster(succeeded("1")), compute).run(facts(known, spec=MANUAL, host=host))
    assert state_of(done.facts, "Evicting") == after
    assert state_of(done.facts, "IncomingMigrationsSettled") == condition_after
