"""How a host is counted, and when nothing is done about it."""

from __future__ import annotations

import dataclasses
import time

import pytest
from msgspec.structs import replace
from tests.unit.operator.samples import condition, hypervisor, node, reports

from hypercobalt.api.conditions import Condition
from hypercobalt.api.eviction import Eviction, EvictionSpec
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import Aggregate, HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.quantity import Quantity
from hypercobalt.compute.model import Host
from hypercobalt.ha.guard import HostState
from hypercobalt.operator.agent_leases import LeaseState, Sighting
from hypercobalt.operator.ha.facts import BEFORE
from hypercobalt.operator.ha.fleet import Fleet, state
from hypercobalt.operator.ha.peers import choose
from hypercobalt.operator.ha.silenced import PAUSE, silenced
from hypercobalt.runtime import FakeClock

SPEC = HypervisorSpec(highAvailability=True, lifecycleEnabled=True)
RENEWED = Sighting(LeaseState.RENEWED)
ZONE = ("topology.kubernetes.io/zone",)
IN_SERVICE = condition("Onboarding", "False", "Succeeded")
HOST = Host("kvm-a", "h", "s", enabled=True, servers=("i1",))


def made(
    *conditions: Condition, spec: HypervisorSpec = SPEC, notes: dict[str, str] | None = None
) -> Hypervisor:
    status = HypervisorStatus(
        conditions=conditions,
        numInstances=4,
        aggregates=(Aggregate(name="general", uuid="u"),),
        effectiveCapacity={"memory": Quantity("64Gi")},
        allocation={"memory": Quantity("16Gi")},
    )
    labels = {ZONE[0]: "a"}
    return hypervisor(spec=spec, labels=labels, annotations=notes, status=status)


def counted(host: Hypervisor, ready: str = "True", lease: Sighting | None = RENEWED) -> HostState:
    return state(host, node(reports("Ready", ready)), lease, ZONE)


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
    ("evicting", "recovering"),
    [((), 4), ((condition("Evicting", "True"),), 4), ((condition("Evicting", "False"),), None)],
    ids=["begins", "is evacuated", "is done"],
)
def test_recovered_host_counts_as_unwell_until_it_is_back(
    evicting: tuple[Condition, ...], recovering: int | None
) -> None:
    found = counted(made(*evicting, spec=replace(SPEC, maintenance="ha")))
    assert (found.unwell, found.recovering, found.free_mib) == (True, recovering, 0)


@pytest.mark.parametrize("lease", [None, Sighting(LeaseState.UNRENEWED)])
def test_host_whose_lease_was_not_watched_for_long_enough_is_not_observed(
    lease: Sighting | None,
) -> None:
    assert not counted(made(), lease=lease).observed


def test_recovery_that_begins_counts_before_it_is_written() -> None:
    clock, host = FakeClock(), made()
    fleet = Fleet(lambda: [counted(host)], clock)
    assert fleet.census().recovering == {}
    fleet.begin(host)
    assert fleet.census().recovering == {"kvm-a": 4}
    fleet.begun("kvm-a")
    assert fleet.census().recovering == {}


def test_ten_thousand_hosts_are_counted_within_a_second() -> None:
    host, seen = made(condition("Ready", "True")), node(reports("Ready"))
    fleet = Fleet(lambda: (state(host, seen, RENEWED, ZONE) for _ in range(10_000)), FakeClock())
    begun = time.process_time()
    assert fleet.census().total == 10_000
    assert time.process_time() - begun < 1


MANUAL = replace(SPEC, maintenance="manual", maintenanceReason="fan")
RUNNING = Eviction(metadata=ObjectMeta(name="kvm-a"), spec=EvictionSpec("kvm-a", "fan"))


@pytest.mark.parametrize(
    ("host", "evictions", "why"),
    [
        pytest.param(made(IN_SERVICE), (), "", id="in service"),
        pytest.param(made(IN_SERVICE, notes={PAUSE: "upgrade"}), (), "upgrade", id="paused"),
        pytest.param(
            made(IN_SERVICE, spec=replace(SPEC, highAvailability=False)),
            (),
            "spec.highAvailability is false",
            id="not wanted",
        ),
        pytest.param(made(), (), "not in service", id="not onboarded"),
        pytest.param(
            made(spec=replace(SPEC, maintenance="termination")), (), "", id="about to leave"
        ),
        pytest.param(
            made(spec=replace(SPEC, maintenance="ha"), notes={BEFORE: "termination"}),
            (),
            "",
            id="about to leave, and failed",
        ),
        pytest.param(
            made(IN_SERVICE, spec=MANUAL), (), "no Eviction empties it", id="a person has it"
        ),
        pytest.param(made(IN_SERVICE, spec=MANUAL), (RUNNING,), "", id="it is being emptied"),
    ],
)
def test_why_nothing_is_done(host: Hypervisor, evictions: tuple[Eviction, ...], why: str) -> None:
    found = silenced(host, HOST, evictions)
    assert why in found
    assert bool(found) is bool(why)


def test_host_that_the_compute_service_does_not_know_is_left_alone() -> None:
    assert silenced(made(IN_SERVICE), None, ()) == "the compute service does not know the host"


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
