"""When a host may leave OpenStack."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace as with_fields
from tests.unit.operator.lifecycle.facts import ON, facts, state_of
from tests.unit.operator.lifecycle.pods import launcher_pods
from tests.unit.operator.samples import NOW, condition

from hypercobalt.api.conditions import Condition
from hypercobalt.api.hypervisor import HypervisorSpec
from hypercobalt.api.hypervisor_status import Aggregate
from hypercobalt.compute.errors import UnreachableError
from hypercobalt.compute.fake import FakeCompute
from hypercobalt.compute.fake.registry import provider_of
from hypercobalt.compute.model import Server, Size
from hypercobalt.operator.lifecycle.offboarding import (
    Offboarding,
    OffboardingAction,
    OffboardingPlan,
    decide,
)
from hypercobalt.operator.lifecycle.step import PATIENCE, POLL, LifecycleFacts
from hypercobalt.operator.shared.guests import HostGuest, HostGuests

LEAVING = with_fields(ON, maintenance="termination")
EVICTED = condition("Evicting", "False", "Succeeded")
NO_AGENTS = condition("AgentPodsEvicted", "True", "NoAgentPods")


def deleted(of: LifecycleFacts) -> LifecycleFacts:
    meta = with_fields(of.hypervisor.metadata, deletionTimestamp=NOW)
    return replace(of, hypervisor=with_fields(of.hypervisor, metadata=meta))


@pytest.mark.parametrize(
    ("known", "step", "words"),
    [
        pytest.param((), OffboardingAction.WAIT, "to be evicted", id="it has servers"),
        pytest.param(
            (condition("Evicting", "True", "Running", "Evicting again: 1 server"),),
            *(OffboardingAction.WAIT, "to be evicted: Evicting again: 1 server"),
            id="it has some again",
        ),
        pytest.param(
            (condition("Evicting", "False", "Failed", "i1 stays"),),
            *(OffboardingAction.WAIT, "to be evicted: i1 stays"),
            id="its eviction has failed",
        ),
        pytest.param(
            (EVICTED,),
            OffboardingAction.WAIT,
            "agent pods to be evicted",
            id="its agents are not seen",
        ),
        pytest.param(
            (EVICTED, condition("AgentPodsEvicted", "False", "AgentPodsRunning", "2 run")),
            *(OffboardingAction.WAIT, "agent pods to be evicted: 2 run"),
            id="its agents run",
        ),
        pytest.param(
            (EVICTED, NO_AGENTS, condition("Onboarding", "True", "Testing", "booting")),
            *(OffboardingAction.WAIT, "onboarding to be aborted: booting"),
            id="it is being onboarded",
        ),
        pytest.param(
            (EVICTED, NO_AGENTS, condition("Onboarding", "False", "Succeeded")),
            *(OffboardingAction.REMOVE, ""),
            id="it was in service",
        ),
        pytest.param(
            (EVICTED, NO_AGENTS, condition("Registered", "Unknown", "Unreachable", "503")),
            *(OffboardingAction.WAIT, "503"),
            id="Nova is away",
        ),
        pytest.param(
            (EVICTED, NO_AGENTS, condition("Registered", "True", "Registered")),
            *(OffboardingAction.REMOVE, ""),
            id="it is registered",
        ),
        pytest.param(
            (EVICTED, NO_AGENTS, condition("Offboarded", "True", "Offboarded")),
            *(OffboardingAction.LOOK_AGAIN, ""),
            id="it has left",
        ),
        pytest.param((EVICTED, NO_AGENTS), OffboardingAction.REMOVE, "", id="nothing is left"),
    ],
)
def test_offboarding_names_what_it_waits_for(
    known: tuple[Condition, ...], step: OffboardingAction, words: str
) -> None:
    plan = decide(facts(*known, spec=LEAVING))
    assert plan.next is step
    assert words in plan.text
    assert bool(plan.waits_for) is (step is OffboardingAction.WAIT)


@pytest.mark.parametrize(
    "spec",
    [ON, with_fields(LEAVING, lifecycleEnabled=False), with_fields(ON, lifecycleEnabled=False)],
    ids=["it stays", "lifecycle is off", "neither"],
)
def test_host_that_is_not_to_leave_stays(spec: HypervisorSpec) -> None:
    assert decide(facts(EVICTED, NO_AGENTS, spec=spec)) == OffboardingPlan(
        OffboardingAction.NOTHING
    )


FORGED = (condition("Offboarded", "True", "Offboarded"),)
"""As a captured host writes it where no policy stops it: no step before has been taken."""


@pytest.mark.parametrize("servers", [0, 1], ids=["empty", "with a server"])
async def test_forged_end_removes_at_most_the_own_service_of_an_empty_host(servers: int) -> None:
    """The service is found by the host's name, whatever ids the host claims."""
    compute = FakeCompute(lambda: NOW)
    own, victim = (compute.world.add_host(name) for name in ("kvm-a", "kvm-b"))
    for number in range(servers):
        compute.moves.add(Server(str(number), "vm", own.name, "ACTIVE", size=Size(1, 1024, 0)))
    claimed = facts(
        *FORGED,
        spec=LEAVING,
        host=await compute.hosts.get(own.name),
        hypervisorId=victim.hypervisor_id,
        serviceId=victim.service_id,
    )
    assert decide(claimed).next is OffboardingAction.LOOK_AGAIN
    await Offboarding(compute, launcher_pods()).run(claimed)
    left = {own.name, victim.name} if servers else {victim.name}
    assert set(compute.world.hosts) == left
    assert victim.hypervisor_id in compute.world.traits


async def test_forged_end_of_a_host_without_a_service_removes_nothing() -> None:
    compute = FakeCompute(lambda: NOW)
    victim = compute.world.add_host("kvm-b")
    claimed = facts(
        *FORGED,
        spec=LEAVING,
        host=None,
        hypervisorId=victim.hypervisor_id,
        serviceId=victim.service_id,
    )
    await Offboarding(compute, launcher_pods()).run(claimed)
    assert set(compute.world.hosts) == {victim.name}
    assert victim.hypervisor_id in compute.world.traits


UNKNOWN = condition("Registered", "False", "NotRegistered")


@pytest.mark.parametrize(
    ("given", "waits_for"),
    [
        pytest.param(deleted(facts(UNKNOWN, spec=LEAVING)), "AgentPodsEvicted", id="forgotten"),
        pytest.param(facts(UNKNOWN, spec=LEAVING), "Evicting", id="it may come back"),
        pytest.param(deleted(facts(spec=LEAVING)), "Evicting", id="Nova has it"),
        pytest.param(facts(spec=LEAVING, serviceId=None), "AgentPodsEvicted", id="it never was"),
    ],
)
def test_only_a_host_that_nova_forgot_needs_no_eviction(
    given: LifecycleFacts, waits_for: str
) -> None:
    assert decide(given).waits_for == waits_for


NEVER_REGISTERED = facts(
    UNKNOWN, NO_AGENTS, condition("Evicting", "False", "Failed", "2 run"),
    spec=LEAVING, serviceId=None, hypervisorId=None, host=None,
)  # fmt: skip


def test_host_that_nova_never_had_does_not_leave_over_instances_that_its_agent_reports() -> None:
    plan = decide(NEVER_REGISTERED)
    assert (plan.next, plan.waits_for) == (OffboardingAction.WAIT, "Evicting")
    assert "2 run" in plan.text
    runs = condition("Evicting", "True", "Running", "waits for guests")
    assert decide(facts(runs, NO_AGENTS, spec=LEAVING, serviceId=None)).waits_for == "Evicting"


def test_host_that_nova_never_had_leaves_once_it_is_evicted_or_its_node_is_gone() -> None:
    assert (
        decide(facts(EVICTED, NO_AGENTS, spec=LEAVING, serviceId=None)).next
        is OffboardingAction.REMOVE
    )
    assert decide(deleted(NEVER_REGISTERED)).next is OffboardingAction.REMOVE


def test_host_of_another_hypervisor_leaves_without_an_eviction() -> None:
    """What runs there is that one's."""
    another = condition("Registered", "False", "Claimed")
    fails = condition("Evicting", "False", "Failed")
    given = facts(another, fails, NO_AGENTS, spec=LEAVING, serviceId=None)
    assert decide(given).next is OffboardingAction.REMOVE


@pytest.mark.parametrize(
    ("registered", "step"),
    [
        pytest.param(
            condition("Registered", "True", "Registered"), OffboardingAction.WAIT, id="registered"
        ),
        pytest.param(UNKNOWN, OffboardingAction.REMOVE, id="Nova has forgotten it"),
        pytest.param(
            condition("Registered", "False", "Claimed"), OffboardingAction.REMOVE, id="another's"
        ),
    ],
)
def test_aggregates_are_waited_for_while_nova_has_the_host(
    registered: Condition, step: OffboardingAction
) -> None:
    left = (Aggregate(name="general", uuid="1"),)
    given = facts(EVICTED, NO_AGENTS, registered, spec=LEAVING, aggregates=left)
    assert decide(given).next is step


CALLS = ["hosts.get kvm-a", "hosts.remove kvm-a", "providers.exists kvm-a"]


def leaving(compute: FakeCompute, **fields: object) -> LifecycleFacts:
    """An empty host of the compute service whose agents are gone."""
    host = compute.world.add_host("kvm-a")
    known = {"hypervisorId": host.hypervisor_id, "serviceId": host.service_id, **fields}
    return facts(EVICTED, NO_AGENTS, spec=LEAVING, host=host).with_status(**known)


async def test_service_and_provider_are_removed() -> None:
    compute = FakeCompute(lambda: NOW)
    done = await Offboarding(compute, launcher_pods()).run(leaving(compute))
    assert state_of(done.facts, "Offboarded") == "True/Offboarded"
    expected = [*CALLS, "providers.remove kvm-a"]
    assert compute.world.calls == expected


async def test_host_with_an_incoming_migration_does_not_leave() -> None:
    compute = FakeCompute(lambda: NOW)
    given = leaving(compute)
    compute.world.add_host("kvm-b")
    compute.moves.hosts.update({name: Size(8, 65536) for name in ("kvm-a", "kvm-b")})
    server = Server("i1", "vm-1", "kvm-b", "ACTIVE", running=True, size=Size(1, 1024))
    compute.moves.add(server)
    await compute.moves.live_migrate(server, "kvm-a")
    done = await Offboarding(compute, launcher_pods()).run(given)
    found = done.facts.condition("Offboarded")
    assert found is not None
    assert (found.status, done.look_again) == ("False", POLL)
    assert "Waiting for 1 incoming migration: i1 from kvm-b" in found.message
    assert "kvm-a" in compute.world.hosts


async def test_host_without_a_provider_leaves() -> None:
    compute = FakeCompute(lambda: NOW)
    given = leaving(compute)
    compute.world.traits.clear()
    done = await Offboarding(compute, launcher_pods()).run(given)
    assert state_of(done.facts, "Offboarded") == "True/Offboarded"
    assert compute.world.calls == CALLS


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("hosts.get", "cannot find the host: no answer"),
        ("hosts.remove", "cannot delete service: no answer"),
        ("providers.exists", "cannot get resource provider: no answer"),
        ("providers.remove", "cannot clean up resource provider: no answer"),
    ],
)
async def test_call_that_fails_is_named_and_made_again(call: str, text: str) -> None:
    compute = FakeCompute(lambda: NOW)
    given = leaving(compute)
    compute.world.fault = lambda what, _: UnreachableError("no answer") if what == call else None
    done = await Offboarding(compute, launcher_pods()).run(given)
    shown = done.facts.condition("Offboarded")
    assert shown is not None
    assert shown.message.startswith(text)
    assert (done.look_again, str(done.error)) == (PATIENCE, "no answer")


@pytest.mark.parametrize(
    ("known", "removed"),
    [
        pytest.param({}, True, id="it has the host's name"),
        pytest.param({"serviceId": None}, True, id="of a host whose service is gone"),
        pytest.param({"hypervisorId": None}, False, id="no hypervisor was noted"),
        pytest.param({"hypervisorId": provider_of("kvm-b")}, False, id="it has another name"),
        pytest.param({"hypervisorId": "../../os-services/1"}, False, id="no UUID"),
    ],
)
async def test_provider_of_a_host_that_nova_forgot_is_removed_if_it_is_found_by_name(
    known: dict[str, str | None], removed: bool
) -> None:
    compute = FakeCompute(lambda: NOW)
    other = compute.world.add_host("kvm-b")
    given = replace(leaving(compute, **known), host=None)
    del compute.world.hosts["kvm-a"], compute.world.hosts["kvm-b"]
    done = await Offboarding(compute, launcher_pods()).run(given)
    assert state_of(done.facts, "Offboarded") == "True/Offboarded"
    assert (provider_of("kvm-a") not in compute.world.traits) is removed
    assert other.hypervisor_id in compute.world.traits
    assert not [call for call in compute.world.calls if call.startswith("hosts.remove ")]


LEFT = condition("Offboarded", "True", "Offboarded")


def left(compute: FakeCompute, now: datetime = NOW) -> LifecycleFacts:
    """A host that has left, whose nova-compute has made its resource provider again."""
    given = leaving(compute)
    del compute.world.hosts["kvm-a"]
    return replace(given, host=None, now=now).with_status(
        conditions=(*given.hypervisor.conditions, UNKNOWN, LEFT)
    )


async def test_provider_that_is_made_again_once_the_host_has_left_is_removed() -> None:
    compute = FakeCompute(lambda: NOW)
    done = await Offboarding(compute, launcher_pods()).run(left(compute))
    assert (state_of(done.facts, "Offboarded"), done.look_again) == ("True/Offboarded", PATIENCE)
    assert provider_of("kvm-a") not in compute.world.traits


async def test_host_that_has_left_stays_so_while_nova_is_away() -> None:
    compute = FakeCompute(lambda: NOW)
    given, away = left(compute), UnreachableError("no answer")
    compute.world.fault = lambda what, _: away if what == "hosts.get" else None
    done = await Offboarding(compute, launcher_pods()).run(given)
    assert state_of(done.facts, "Offboarded") == "True/Offboarded"
    assert (done.look_again, done.error) == (PATIENCE, away)


async def test_provider_that_cannot_be_removed_again_is_shown() -> None:
    compute = FakeCompute(lambda: NOW)
    given, refused = left(compute), UnreachableError("no answer")
    compute.world.fault = lambda what, _: refused if what == "providers.remove" else None
    done = await Offboarding(compute, launcher_pods()).run(given)
    shown = done.facts.condition("Offboarded")
    assert shown is not None
    assert (shown.status, done.look_again, done.error) == ("False", PATIENCE, refused)


@pytest.mark.parametrize(
    ("since", "again"), [(timedelta(seconds=59), PATIENCE), (PATIENCE, None)], ids=str
)
async def test_host_that_has_left_is_looked_at_once_more(
    since: timedelta, again: timedelta | None
) -> None:
    compute = FakeCompute(lambda: NOW)
    given = left(compute, LEFT.lastTransitionTime + since)
    compute.world.traits.clear()
    assert (await Offboarding(compute, launcher_pods()).run(given)).look_again == again


async def test_host_that_is_registered_again_leaves_again() -> None:
    compute = FakeCompute(lambda: NOW)
    given = leaving(compute)
    again = given.with_status(conditions=(*given.hypervisor.conditions, LEFT))
    done = await Offboarding(compute, launcher_pods()).run(again)
    assert state_of(done.facts, "Offboarded") == "True/Offboarded"
    assert "kvm-a" not in compute.world.hosts


async def test_ids_that_nova_does_not_confirm_by_name_delete_nothing() -> None:
    compute = FakeCompute(lambda: NOW)
    victim = compute.world.add_host("kvm-b")
    given = facts(EVICTED, NO_AGENTS, UNKNOWN, spec=LEAVING).with_status(
        hypervisorId=victim.hypervisor_id, serviceId=victim.service_id
    )
    done = await Offboarding(compute, launcher_pods()).run(given)
    shown = done.facts.condition("Offboarded")
    assert shown is not None
    assert (
        shown.message == "Offboarding successful; fake has no host kvm-a: nothing was deleted there"
    )
    assert compute.world.hosts["kvm-b"] == victim


async def test_host_that_this_pass_has_not_found_to_be_its_own_is_not_removed() -> None:
    compute = FakeCompute(lambda: NOW)
    given = leaving(compute)
    for own in (None, replace(compute.world.hosts["kvm-a"], service_id="another")):
        compute.world.calls.clear()
        done = await Offboarding(compute, launcher_pods()).run(replace(given, host=own))
        assert state_of(done.facts, "Offboarded") == "True/Offboarded"
        assert compute.world.calls == ["hosts.get kvm-a"]


async def test_host_is_counted_in_openstack_at_the_last_moment() -> None:
    compute = FakeCompute(lambda: datetime.now(UTC))
    made = compute.world.add_host("kvm-a", servers=("late",))
    given = facts(
        EVICTED,
        NO_AGENTS,
        spec=LEAVING,
        host=made,
        hypervisorId=made.hypervisor_id,
        serviceId=made.service_id,
    )
    after = (await Offboarding(compute, launcher_pods()).run(given)).facts
    found = after.condition("Offboarded")
    assert found is not None
    assert "still has 1 running VMs" in found.message
    assert "--host kvm-a" in found.message
    compute.world.change_host("kvm-a", servers=())
    assert (
        state_of((await Offboarding(compute, launcher_pods()).run(given)).facts, "Offboarded")[:4]
        == "True"
    )


@pytest.mark.parametrize(
    ("guests", "words"),
    [
        pytest.param(
            HostGuests((HostGuest("default", "a", uid="p", owner="v"),)),
            "Waiting for 1 VirtualMachineInstance on",
            id="one-runs",
        ),
        pytest.param(HostGuests(unread="403"), "Cannot list the launcher pods", id="not-read"),
    ],
)
async def test_host_with_a_launcher_pod_does_not_leave(guests: HostGuests, words: str) -> None:
    compute = FakeCompute(lambda: NOW)
    given = leaving(compute)
    held = await Offboarding(compute, launcher_pods(guests)).run(given)
    found = held.facts.condition("Offboarded")
    assert found is not None
    assert (found.status, found.reason) == ("False", "Offboarding")
    assert words in found.message
    assert given.host is not None
    assert given.host.name in compute.world.hosts
    done = await Offboarding(compute, launcher_pods()).run(given)
    assert state_of(done.facts, "Offboarded") == "True/Offboarded"
