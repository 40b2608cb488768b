"""How a host is counted."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace
from tests.cost import cpu
from tests.records import recorded
from tests.unit.operator.samples import NOW, condition, hypervisor, node, reports

from hypercobalt.api.conditions import Condition
from hypercobalt.api.fencing import Fencing, FencingPhase
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import Aggregate, HypervisorStatus
from hypercobalt.api.quantity import Quantity
from hypercobalt.api.recovery import Recovery
from hypercobalt.ha.host_failure.census import HostState
from hypercobalt.ha.host_failure.facts import healthy_since
from hypercobalt.operator.agents.leases import LeaseSighting, LeaseState
from hypercobalt.operator.ha.observing.fleet import CensusCache, instances, memory_mib, state
from hypercobalt.operator.ha.observing.peers import choose
from hypercobalt.runtime import FakeClock

SPEC = HypervisorSpec(highAvailability=True, lifecycleEnabled=True)
RENEWED = LeaseSighting(LeaseState.RENEWED)
MINUTE = timedelta(minutes=1)
ZONE = ("topology.kubernetes.io/zone",)


def made(*conditions: Condition, spec: HypervisorSpec = SPEC) -> Hypervisor:
    status = HypervisorStatus(
        conditions=conditions,
        numInstances=4,
        aggregates=(Aggregate(name="general", uuid="u"),),
        effectiveCapacity={"memory": Quantity("64Gi")},
        allocation={"memory": Quantity("16Gi")},
    )
    labels = {ZONE[0]: "a"}
    return hypervisor(spec=spec, labels=labels, status=status)


def counted(
    host: Hypervisor, ready: str = "True", lease: LeaseSighting | None = RENEWED
) -> HostState:
    return state(host, node(reports("Ready", ready)), lease, ZONE, NOW, counted=four)


def four(_: Hypervisor) -> int:
    """What the compute service counts; the host reports as many or more."""
    return 4


def test_well_host_has_room_and_domains() -> None:
    found = counted(made(condition("Ready", "True")))
    assert (found.unwell, found.stale, found.observed, found.recovering) == (False,) * 2 + (
        True,
        None,
    )
    assert (found.free_mib, found.domains) == (48 * 1024, ("zone a", "aggregate general"))


@pytest.mark.parametrize(
    ("status", "reason", "free"),
    [
        ("False", "OVNDisconnected", 48 * 1024),
        ("False", "OVNControllerFailed", 48 * 1024),
        ("False", "BridgeDown", 0),
        ("Unknown", "AgentSilent", 48 * 1024),
    ],
)
def test_network_makes_no_host_unwell_and_a_broken_switch_leaves_no_room(
    status: str, reason: str, free: int
) -> None:
    ready = condition("Ready", "True")
    well = counted(made(ready))
    found = counted(made(ready, condition("NetworkHealthy", status, reason)))
    assert found.free_mib == free
    assert dataclasses.replace(found, free_mib=0) == dataclasses.replace(well, free_mib=0)


@pytest.mark.parametrize(
    ("ready", "unwell", "stale"),
    [("True", False, False), ("False", True, False), ("Unknown", True, True)],
)
def test_node_decides_whether_a_host_is_unwell(ready: str, *, unwell: bool, stale: bool) -> None:
    found = counted(made(), ready)
    assert (found.unwell, found.stale) == (unwell, stale)


@pytest.mark.parametrize(
    ("phase", "recovering"),
    [
        pytest.param(FencingPhase.ATTEMPTING, 4, id="is fenced"),
        pytest.param(FencingPhase.FENCED, 4, id="is dead"),
        pytest.param(FencingPhase.FAILED, None, id="cannot be fenced"),
        pytest.param(FencingPhase.RELEASED, 4, id="is back"),
    ],
)
def test_host_that_cannot_be_fenced_holds_up_no_other_recovery(
    phase: FencingPhase, recovering: int | None
) -> None:
    host = made(spec=replace(SPEC, maintenance="ha"))
    fencing = Fencing(phase=phase, bootID="b1")
    found = counted(recorded(replace(host, status=replace(host.status, fencing=fencing))))
    assert (found.unwell, found.recovering) == (True, recovering)


@pytest.mark.parametrize(
    ("evicting", "recovering"),
    [((), 4), ((condition("Evicting", "True"),), 4), ((condition("Evicting", "False"),), None)],
    ids=["begins", "is evacuated", "is done"],
)
def test_recovered_host_counts_as_unwell_until_it_is_back(
    evicting: tuple[Condition, ...], recovering: int | None
) -> None:
    found = counted(made(*evicting, spec=replace(SPEC, maintenance="ha")))
    assert (found.unwell, found.recovering, found.free_mib) == (True, recovering, 0)


@pytest.mark.parametrize(
    ("ready", "boot", "settled", "unwell"),
    [
        pytest.param("True", "b2", NOW, False, id="it only waits to be taken back"),
        pytest.param("True", "b2", NOW - timedelta(seconds=1), True, id="for too short a time"),
        pytest.param("True", "b1", NOW, True, id="the new boot has not reported"),
        pytest.param("Unknown", "b2", NOW, True, id="it has failed again"),
        pytest.param("", "b2", NOW, True, id="no kubelet has reported"),
    ],
)
def test_recovered_host_that_is_in_order_again_holds_up_no_other_recovery(
    ready: str, boot: str, settled: datetime, *, unwell: bool
) -> None:
    types = ("NodeHealthy", "AgentReporting", "LibVirtConnection")
    host = made(*(condition(one, "True") for one in types), spec=replace(SPEC, maintenance="ha"))
    record = Fencing(phase=FencingPhase.FENCED, bootID="b1")
    host = recorded(replace(host, status=replace(host.status, bootID=boot, fencing=record)))
    found = state(host, node(reports("Ready", ready)), RENEWED, ZONE, settled, counted=four)
    assert (found.unwell, found.free_mib) == (unwell, 0)


IN_ORDER = dict.fromkeys(("NodeHealthy", "AgentReporting", "LibVirtConnection"), NOW)


@pytest.mark.parametrize(
    ("since", "status", "expected"),
    [
        pytest.param({}, "True", NOW, id="all are"),
        pytest.param({"AgentReporting": NOW + MINUTE}, "True", NOW + MINUTE, id="one came last"),
        pytest.param({"AgentReporting": NOW - MINUTE}, "True", NOW, id="one was first"),
        pytest.param({"AgentReporting": NOW}, "False", None, id="the agent is silent"),
        pytest.param({"NodeHealthy": NOW}, "Unknown", None, id="the Node is not"),
        pytest.param({"LibVirtConnection": None}, "True", None, id="libvirt is not known"),
    ],
)
def test_host_is_in_order_since_the_last_of_node_agent_and_libvirt_is(
    since: dict[str, datetime | None], status: str, expected: datetime | None
) -> None:
    times = (IN_ORDER | since).items()
    found = [
        replace(condition(name, status if name in since else "True"), lastTransitionTime=at)
        for name, at in times
        if at is not None
    ]
    assert healthy_since(made(*found)) == expected


@pytest.mark.parametrize(
    ("fencing", "boot", "unwell"),
    [
        (FencingPhase.FENCED, "b1", True),
        (FencingPhase.FENCED, "b2", False),
        (FencingPhase.RELEASED, "b1", False),
    ],
)
def test_host_that_is_proven_dead_counts_as_unwell_in_any_maintenance(
    fencing: FencingPhase, boot: str, *, unwell: bool
) -> None:
    host = made()
    record = Fencing(phase=fencing, bootID="b1")
    proven = recorded(replace(host, status=replace(host.status, bootID=boot, fencing=record)))
    assert counted(proven).unwell is unwell


@pytest.mark.parametrize(
    ("phase", "shown", "ready", "unwell", "evacuated"),
    [
        pytest.param("Recovered", True, "Unknown", True, True, id="dead and evacuated"),
        pytest.param("Recovering", True, "Unknown", True, False, id="not evacuated yet"),
        pytest.param("Recovered", True, "True", False, True, id="it lives, and waits for a boot"),
        pytest.param("Recovering", True, "True", True, False, id="it lives, not evacuated yet"),
        pytest.param("Recovered", False, "Unknown", True, False, id="by its own word alone"),
        pytest.param("Recovered", False, "True", False, False, id="it lives, and was never dead"),
    ],
)
def test_host_counts_as_evacuated_by_the_records_of_the_operator(
    phase: str, shown: bool, ready: str, unwell: bool, evacuated: bool
) -> None:
    down = Fencing(phase=FencingPhase.FENCED, bootID="b1", forcedDownAt=NOW)
    spec = HypervisorSpec(maintenance="ha")
    healthy = tuple(condition(one, "True") for one in IN_ORDER)
    host = made(*healthy, spec=spec)
    status = replace(host.status, bootID="b1", fencing=down, recovery=Recovery(phase))
    host = replace(host, status=status)
    found = counted(recorded(host) if shown else host, ready)
    assert (found.unwell, found.evacuated) == (unwell, evacuated)


def test_number_that_a_host_in_recovery_reports_counts_for_no_other_host() -> None:
    host = made(spec=replace(SPEC, maintenance="ha"))
    huge = replace(host, status=replace(host.status, numInstances=2**31 - 1))
    assert counted(huge).recovering == 4
    fleet = CensusCache(list, FakeClock(), four)
    fleet.begin(huge)
    assert fleet.census().recovering == {"kvm-a": 4}


@pytest.mark.parametrize(
    ("reason", "stale"), [("AgentSilent", True), ("AgentStopped", False), ("Some", False)]
)
def test_host_whose_agent_is_silent_is_silent(reason: str, *, stale: bool) -> None:
    assert counted(made(condition("AgentReporting", "False", reason))).stale is stale


@pytest.mark.parametrize(("ready", "since"), [("False", NOW), ("Unknown", NOW), ("True", None)])
def test_host_is_lost_since_it_fell_ill_and_no_more_once_it_is_well(
    ready: str, since: datetime | None
) -> None:
    host = made()
    ill = replace(host, status=replace(host.status, unhealthySince=NOW))
    assert counted(ill, ready).since == since


def test_host_without_a_node_is_neither_unwell_nor_observed() -> None:
    found = state(made(), None, RENEWED, ZONE, NOW, counted=four)
    assert (found.unwell, found.stale, found.observed) == (False, False, False)


def test_host_that_has_reported_nothing_has_no_instances_and_no_memory() -> None:
    empty = hypervisor(condition("Ready", "True"))
    assert (instances(empty), memory_mib(empty)) == (0, 0)
    assert counted(empty).free_mib == 0
    assert memory_mib(made()) == 16 * 1024


@pytest.mark.parametrize(
    ("effective", "capacity", "used", "free"),
    [
        ("64Gi", "32Gi", "16Gi", 48 * 1024),
        (None, "32Gi", "16Gi", 16 * 1024),
        ("8Gi", None, "16Gi", 0),
        ("16Gi", None, "16Gi", 0),
    ],
)
def test_memory_for_more_instances_is_what_overcommit_leaves(
    effective: str | None, capacity: str | None, used: str, free: int
) -> None:
    host = made(condition("Ready", "True"))
    status = replace(
        host.status,
        effectiveCapacity={"memory": Quantity(effective)} if effective else {},
        capacity={"memory": Quantity(capacity)} if capacity else {},
        allocation={"memory": Quantity(used)},
    )
    assert counted(replace(host, status=status)).free_mib == free


@pytest.mark.parametrize(
    ("ready", "mode"), [("False", ""), ("True", "manual"), ("True", "ha"), ("Unknown", "")]
)
def test_host_that_takes_no_instances_has_no_memory_for_them(ready: str, mode: str) -> None:
    spec = replace(SPEC, maintenance=mode)
    assert counted(made(condition("Ready", ready), spec=spec)).free_mib == 0


@pytest.mark.parametrize(("seconds", "counts"), [(0.0, 1), (1.0, 1), (1.5, 2)])
def test_census_is_kept_for_a_second(seconds: float, counts: int) -> None:
    clock, listings = FakeClock(), list[int]()
    clock.advance(timedelta(minutes=1))

    def states() -> list[HostState]:
        listings.append(1)
        return [counted(made())]

    fleet = CensusCache(states, clock, four)
    fleet.census()
    clock.advance(timedelta(seconds=seconds))
    fleet.census()
    assert len(listings) == counts


@pytest.mark.parametrize("lease", [None, LeaseSighting(LeaseState.UNRENEWED)])
def test_host_whose_lease_was_not_watched_for_long_enough_is_not_observed(
    lease: LeaseSighting | None,
) -> None:
    assert not counted(made(), lease=lease).observed


def test_recovery_that_begins_counts_before_it_is_written() -> None:
    clock, host = FakeClock(), made()
    fleet = CensusCache(lambda: [counted(host)], clock, four)
    assert fleet.census().recovering == {}
    fleet.begin(host)
    assert fleet.census().recovering == {"kvm-a": 4}
    fleet.written("kvm-a")
    assert fleet.census().recovering == {}


def test_ten_thousand_hosts_are_counted_within_a_second() -> None:
    host, seen = made(condition("Ready", "True")), node(reports("Ready"))
    fleet = CensusCache(
        lambda: (state(host, seen, RENEWED, ZONE, NOW, counted=four) for _ in range(10_000)),
        FakeClock(),
        four,
    )
    with cpu() as used:
        assert fleet.census().total == 10_000
    assert used.seconds < 1


def test_peers_are_well_hosts_the_same_ones_for_the_same_question() -> None:
    well = (condition("AgentReporting", "True"), condition("NodeHealthy", "True"))

    def named(name: str, *conditions: Condition) -> Hypervisor:
        one = made(*conditions)
        return replace(one, metadata=replace(one.metadata, name=name))

    hosts = [named(f"kvm-{n}", *well) for n in range(9)] + [named("sick", well[0])]
    chosen = choose("kvm-3", hosts)
    assert len(set(chosen)) == 3
    assert "kvm-3" not in chosen
    assert "sick" not in chosen
    assert choose("kvm-3", reversed(hosts)) == chosen
