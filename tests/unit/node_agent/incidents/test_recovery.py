"""When the own Hypervisor is read before something is done, and how old that read may be."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.integration.runtime.scripted import eventually
from tests.unit.ha.signs import NODE, NOON, U1, uuid
from tests.unit.node_agent.incidents.recovering import Recovering
from tests.unit.node_agent.incidents.server import Server

from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.adapters.libvirt.vocabulary import PausedReason
from hypercobalt.api.conditions import ConditionStatus, set_condition
from hypercobalt.api.eviction import Eviction, EvictionInstance, EvictionSpec, EvictionStatus
from hypercobalt.api.hypervisor import HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.incident import SINCE, IncidentType, Reaction
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.migration import Migration, MigrationSpec
from hypercobalt.api.times import parse_time
from hypercobalt.ha.incidents.cases import (
    MOST_EVICTIONS,
    Case,
    InstanceRecord,
    MadeEviction,
    State,
    Step,
    eviction_name,
    key_of,
)
from hypercobalt.ha.incidents.config import HaConfig, RecoveryLimits
from hypercobalt.ha.incidents.holding import LOOK_AGAIN
from hypercobalt.ha.incidents.signals import HOST
from hypercobalt.runtime import FakeClock, ForbiddenError, ListResult
from hypercobalt.runtime.client.errors import Status
from hypercobalt.runtime.tasks import first

U2 = uuid(2)


class Acting(Recovering):
    """The recoveries of a host, by a server that a test moves."""

    def __init__(self) -> None:
        self.server = Server()
        super().__init__(self.server)

    async def until(self, good: Callable[[], bool]) -> None:
        await first(self.recoveries.run(), eventually(good, seconds=1.5))


async def test_answer_that_lay_in_the_socket_of_a_frozen_host_resumes_nothing() -> None:
    acting, resumed = Acting(), list[int]()

    def thaw() -> None:
        resumed.append(acting.libvirt.calls["resume"])
        if acting.server.reads == 1:
            acting.clock.advance(timedelta(minutes=2))

    acting.server.meanwhile = thaw
    acting.open(Step.RESUME, State.PAUSED)
    await acting.until(lambda: acting.libvirt.calls["resume"] == 1)
    assert resumed == [0, 0], "by the second answer, which is new"


@pytest.mark.parametrize(
    ("state", "next_step"), [(State.PAUSED, Step.PROBE), (State.RUNNING, Step.RECOVER)]
)
async def test_instance_that_waits_for_a_storage_that_other_hosts_miss_too_is_not_recovered(
    state: State, next_step: Step
) -> None:
    acting = Acting()
    acting.server.status = HypervisorStatus(failingStorage=("/pool",))
    acting.open(Step.RECOVER, state)
    text = "the storage /pool fails on other hosts, too"
    await acting.until(lambda: text in acting.store.get(U1).cases[0].evidence)
    (waits,) = acting.store.get(U1).cases
    assert (waits.step, waits.eviction, acting.server.evictions) == (next_step, "", {})
    assert waits.due is not None
    assert waits.due > acting.clock.now()
    assert acting.store.get(U1).recoveries == (), "it is no recovery"


async def test_instance_that_waits_for_a_storage_of_its_host_alone_is_recovered() -> None:
    acting = Acting()
    acting.server.status = HypervisorStatus(failingStorage=("/other",))
    acting.open(Step.RECOVER, State.PAUSED)
    await acting.until(lambda: len(acting.server.evictions) == 1)


async def test_each_eviction_is_made_by_a_hypervisor_that_was_just_read() -> None:
    acting, reads = Acting(), list[int]()

    def slow() -> None:
        reads.append(acting.server.reads)
        acting.clock.advance(timedelta(seconds=3))

    acting.server.meanwhile = slow
    for who in (U1, U2):
        acting.open(Step.RECOVER, State.RUNNING, who, IncidentType.WATCHDOG)
    await acting.until(lambda: len(acting.server.evictions) == 2)
    assert reads == [1, 1, 2, 2], "each after 3 s, and 6 s are too long"


@pytest.mark.parametrize(
    ("state", "reason", "resumed"),
    [
        pytest.param(DomainState.PAUSED, PausedReason.IO_ERROR, 1, id="paused by the error still"),
        pytest.param(DomainState.PAUSED, PausedReason.UNKNOWN, 1, id="libvirt has lost the reason"),
        pytest.param(DomainState.PAUSED, PausedReason.USER, 0, id="paused by a person since"),
        pytest.param(DomainState.RUNNING, 1, 0, id="resumed by a person"),
    ],
)
async def test_resume_does_not_undo_an_action_of_a_person(
    state: DomainState, reason: int, resumed: int
) -> None:
    acting = Acting()
    acting.open(Step.RESUME, State.PAUSED)
    acting.libvirt.put(Domain(U1, U1, True, state, reason=reason))
    await acting.until(lambda: acting.server.reads > 0)
    assert acting.libvirt.calls["resume"] == resumed
    assert [case.step for case in acting.store.get(U1).cases] == [Step.PROBE] * resumed


async def test_instance_is_not_resumed_while_libvirt_does_not_answer() -> None:
    acting = Acting()
    acting.open(Step.RESUME, State.PAUSED)
    acting.libvirt.disconnect()
    await acting.until(lambda: acting.store.get(U1).cases[0].step is Step.PROBE)
    assert (acting.libvirt.calls["resume"], acting.store.get(U1).resumes) == (0, 0)


MOVING = ListResult([Migration(metadata=ObjectMeta(name=U1), spec=MigrationSpec())], "9", {})
UNREADABLE: ListResult[Migration] = ListResult([], "9", {f"default/{U1}": "status: no object"})


@pytest.mark.parametrize(
    ("migrations", "why"),
    [
        pytest.param(MOVING, f"Migration {U1}", id="under-way"),
        pytest.param(UNREADABLE, f"Migration default/{U1}, which cannot be read", id="unreadable"),
    ],
)
async def test_recovery_waits_ten_minutes_for_what_may_be_under_way(
    migrations: ListResult[Migration], why: str
) -> None:
    """Ten minutes from the first look, however old the incident is by then."""
    acting = Acting()
    acting.server.migrations = migrations
    acting.open(Step.RECOVER, State.OFF)
    acting.clock.advance(timedelta(minutes=11))  # the agent was away

    def waits() -> bool:
        (case,) = acting.store.get(U1).cases
        return f"recovery waits for {why}" in case.evidence

    await acting.until(waits)
    assert acting.server.evictions == {}
    acting.clock.advance(timedelta(minutes=11))
    await acting.until(lambda: len(acting.server.evictions) == 1)


async def test_evictions_are_bounded_by_removing_the_oldest_that_have_ended() -> None:
    acting, now = Acting(), FakeClock().now()
    made = [MadeEviction(name=f"ha-{number}", at=now) for number in range(MOST_EVICTIONS)]
    ended = set_condition((), "Evicting", ConditionStatus.FALSE, "Succeeded", "", now=now)
    for one in made:
        eviction = Eviction(
            metadata=ObjectMeta(name=one.name),
            spec=EvictionSpec(hypervisor=NODE, reason="r"),
            status=EvictionStatus(conditions=ended),
        )
        acting.server.evictions[one.name] = eviction
    acting.store.put(InstanceRecord(uuid=HOST, evictions=tuple(made)))
    acting.open(Step.RECOVER, State.RUNNING, U1, IncidentType.WATCHDOG)
    await acting.until(lambda: acting.store.host.evictions != tuple(made))
    names = [one.name for one in acting.store.host.evictions]
    assert (len(names), names[0]) == (MOST_EVICTIONS, "ha-1")
    assert set(acting.server.evictions) == set(names)


async def test_eviction_of_the_host_is_left_to_people() -> None:
    """The Eviction keeps a host out of service until its failed memory has been replaced."""
    acting = Acting()
    acting.open(Step.RECOVER, State.UNKNOWN, HOST, IncidentType.MEMORY_FAILURE)
    followed = (Step.FOLLOW,)
    await acting.until(lambda: tuple(c.step for c in acting.store.host.cases) == followed)
    assert [one.spec.instances for one in acting.server.evictions.values()] == [()]
    assert acting.store.host.evictions == ()


async def test_api_server_is_not_read_without_a_due_recovery() -> None:
    acting = Acting()
    for who in (U1, U2):
        acting.open(Step.RECOVER, State.RUNNING, who)
    later = acting.clock.now() + timedelta(seconds=30)
    await acting.until(
        lambda: all((acting.store.get(who).cases[0].due or later) > later for who in (U1, U2))
    )
    assert acting.server.reads == 0


@pytest.mark.parametrize(
    ("steps", "made"), [(-3600, 1), (0, 0), (3600, 1)], ids=["back", "not at all", "forward"]
)
async def test_clock_that_is_set_holds_up_no_recovery(steps: int, made: int) -> None:
    """The clock is set after a boot, from the hardware clock."""
    acting, due_in = Acting(), timedelta(seconds=20)
    acting.open(Step.RECOVER, State.RUNNING, U1, IncidentType.WATCHDOG, due_in)
    passed = due_in if steps else due_in / 2
    acting.clock.step(timedelta(seconds=steps))
    acting.clock.advance(passed)
    if made:
        await acting.until(lambda: len(acting.server.evictions) == made)
    else:
        await first(acting.recoveries.run(), asyncio.sleep(0.05))
    assert len(acting.server.evictions) == made


class Held(Acting):
    """A crash of each instance that is due in maintenance."""

    def __init__(self, *who: str) -> None:
        super().__init__()
        self.server.spec = HypervisorSpec(maintenance="manual")
        for one in who or (U1,):
            self.crash(one)

    def crash(self, who: str) -> None:
        self.open(Step.RECOVER, State.OFF, who, IncidentType.CRASH)
        self.libvirt.put(Domain(who, who, False, DomainState.SHUTOFF))
        self.store.put(replace(self.store.get(who), domain_id=-1))

    def case(self, who: str = U1) -> Case:
        (case,) = self.store.get(who).cases
        return case

    async def is_held(self, *who: str) -> None:
        await self.until(lambda: all(self.case(one).step is Step.HELD for one in who or (U1,)))

    async def look_again(self) -> None:
        """Let a pass go by in which what is held back is due."""
        self.clock.advance(LOOK_AGAIN)
        reads = self.server.reads
        await self.until(lambda: self.server.reads > reads)


async def test_recovery_that_maintenance_held_back_is_made_once_it_is_over() -> None:
    acting = Held()
    await acting.is_held()
    await acting.look_again()
    assert (acting.case().step, acting.server.evictions) == (Step.HELD, {})
    acting.server.spec = HypervisorSpec()
    acting.clock.advance(LOOK_AGAIN)
    await acting.until(lambda: acting.case().step is Step.FOLLOW)
    (eviction,) = acting.server.evictions.values()
    assert eviction.spec.instances == (U1,)
    since = parse_time(eviction.metadata.annotations[SINCE])
    assert since == acting.case().first_seen, "what its owner has requested since then counts"


async def test_recovery_that_a_dry_run_held_back_is_made_once_it_is_over() -> None:
    acting = Held()
    acting.server.spec, acting.config = HypervisorSpec(), HaConfig(dry_run=True)
    await acting.is_held()
    await acting.look_again()
    assert acting.case().evidence == ("dry run: an Eviction of mode auto would be created",)
    acting.config = HaConfig()
    acting.clock.advance(LOOK_AGAIN)
    await acting.until(lambda: acting.case().step is Step.FOLLOW)


async def test_held_back_recovery_is_dropped_when_high_availability_is_turned_off() -> None:
    acting = Held()
    await acting.is_held()
    acting.server.spec = HypervisorSpec(highAvailability=False)
    acting.clock.advance(LOOK_AGAIN)
    await acting.until(lambda: acting.case().step is Step.NONE)
    assert "restart the instance in the compute service" in acting.case().evidence[-1]


async def test_held_back_instance_that_runs_by_then_is_not_recovered() -> None:
    acting = Held()
    await acting.is_held()
    acting.server.spec = HypervisorSpec()
    acting.libvirt.put(Domain(U1, U1, True, DomainState.RUNNING))
    await acting.look_again()
    assert (acting.case().step, acting.server.evictions) == (Step.HELD, {})


async def test_held_back_incident_of_an_instance_that_left_is_closed() -> None:
    acting = Held()
    await acting.is_held()
    acting.server.spec = HypervisorSpec()
    acting.libvirt.here.clear()
    acting.clock.advance(LOOK_AGAIN)
    await acting.until(lambda: not acting.store.get(U1).cases)
    assert acting.server.evictions == {}


async def test_held_back_recovery_is_not_released_while_libvirt_is_away() -> None:
    acting = Held()
    await acting.is_held()
    acting.server.spec = HypervisorSpec()
    acting.libvirt.disconnect()
    due = acting.case().due
    acting.clock.advance(LOOK_AGAIN)
    await acting.until(lambda: acting.case().due != due)
    assert (acting.case().step, acting.server.evictions) == (Step.HELD, {})


async def test_held_back_recoveries_are_released_within_the_limit_of_a_minute() -> None:
    many = [uuid(number) for number in range(13)]
    acting = Held(*many)
    acting.config = HaConfig(limits=RecoveryLimits(incidents_per_minute=100))
    await acting.is_held(*many)
    acting.server.spec, acting.config = HypervisorSpec(), HaConfig()
    acting.clock.advance(timedelta(minutes=2))
    await acting.until(lambda: len(acting.server.evictions) == 10)
    waiting = [one for one in many if acting.case(one).step is Step.HELD]
    why = "recovery waits for its turn (limits.incidentsPerMinute)"
    assert [acting.case(one).evidence[-1] for one in waiting] == [why] * 3
    assert acting.store.host.case(IncidentType.EVENT_STORM) is None
    acting.clock.advance(timedelta(minutes=1))
    await acting.until(lambda: len(acting.server.evictions) == 13)


async def test_held_back_recovery_waits_for_an_eviction_that_is_under_way() -> None:
    """However long ago it crashed: the host's own Eviction may be ending still."""
    acting = Held()
    await acting.is_held()
    acting.clock.advance(timedelta(hours=5))
    acting.server.spec = HypervisorSpec()
    acting.server.evictions[NODE] = Eviction(
        metadata=ObjectMeta(name=NODE), spec=EvictionSpec(hypervisor=NODE, reason="r")
    )
    await acting.until(lambda: acting.case().evidence[-1] == f"recovery waits for Eviction {NODE}")
    assert set(acting.server.evictions) == {NODE}


def eviction(name: str, who: str, *, ended: bool = False) -> Eviction:
    spec = EvictionSpec(hypervisor=NODE, reason="r", instances=(who,))
    done = set_condition((), "Evicting", ConditionStatus.FALSE, "Succeeded", "", now=NOON)
    status = EvictionStatus(conditions=done if ended else ())
    return Eviction(metadata=ObjectMeta(name=name), spec=spec, status=status)


@pytest.mark.parametrize("name", [f"ha-{U1[:8]}-earlier", f"ha-{NODE}-earlier"])
async def test_second_crash_waits_for_the_end_of_the_first_one_s_eviction(name: str) -> None:
    """The instance runs again before the Eviction has found that, and crashes once more."""
    acting = Acting()
    made = (MadeEviction(name=name, at=acting.clock.now()),)
    acting.store.put(replace(acting.store.host, evictions=made))
    acting.server.evictions[name] = eviction(name, U1)
    acting.open(Step.RECOVER, State.OFF, type_=IncidentType.CRASH)
    waits = f"recovery waits for Eviction {name}"
    await acting.until(lambda: waits in acting.store.get(U1).cases[0].evidence)
    assert set(acting.server.evictions) == {name}
    acting.server.evictions[name] = eviction(name, U1, ended=True)
    acting.clock.advance(timedelta(seconds=5))
    await acting.until(lambda: len(acting.server.evictions) == 2)


@pytest.mark.parametrize(
    ("name", "who", "minutes"),
    [
        pytest.param(f"ha-{U2[:8]}-earlier", U2, 0, id="another instance"),
        pytest.param(f"ha-{NODE}-earlier", U2, 0, id="many others"),
        pytest.param(f"ha-{U1[:8]}-earlier", U1, 10, id="one that never ends"),
    ],
)
async def test_other_evictions_are_not_waited_for(name: str, who: str, minutes: int) -> None:
    acting = Acting()
    made = (MadeEviction(name=name, at=acting.clock.now()),)
    acting.clock.advance(timedelta(minutes=minutes))
    acting.store.put(replace(acting.store.host, evictions=made))
    acting.server.evictions[name] = eviction(name, who)
    acting.open(Step.RECOVER, State.OFF, type_=IncidentType.CRASH)
    await acting.until(lambda: len(acting.server.evictions) == 2)


def foreign(name: str, *, host: str = "kvm-b", who: str = U2, ended: bool = False) -> Eviction:
    """An Eviction that another host's agent has made, or one of another instance of this host."""
    found = eviction(name, who, ended=ended)
    return replace(found, spec=replace(found.spec, hypervisor=host))


@pytest.mark.parametrize(
    "taken",
    [
        pytest.param({}, id="of another host"),
        pytest.param({"who": U1}, id="of another host, with this instance's UUID"),
        pytest.param({"ended": True}, id="of another host, and ended well"),
        pytest.param({"host": NODE}, id="of another instance"),
    ],
)
async def test_name_that_is_taken_by_a_foreign_eviction_holds_up_no_recovery(
    taken: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever can read the incidents of a host can reckon the names of its next Evictions."""
    acting, name = Acting(), eviction_name(key_of(U1, "1.1", IncidentType.CRASH), NODE)
    acting.server.evictions[name] = foreign(name, **taken)
    acting.open(Step.RECOVER, State.OFF, type_=IncidentType.CRASH)
    await acting.until(lambda: len(acting.server.evictions) == 2)
    (made,) = acting.server.evictions.keys() - {name}
    assert re.fullmatch(f"ha-{U1[:8]}-[0-9a-f]{{10}}", made), "the policy allows no other form"
    spec = acting.server.evictions[made].spec
    assert (spec.hypervisor, spec.instances) == (NODE, (U1,))
    await acting.until(lambda: acting.store.get(U1).cases[0].step is Step.FOLLOW)
    assert acting.store.get(U1).cases[0].eviction == made
    assert acting.server.evictions[name] == foreign(name, **taken), "it is not this agent's"
    assert f"eviction_name_taken eviction={name}" in caplog.text
    assert f"instead={made}" in caplog.text


async def test_name_that_one_s_own_eviction_has_is_followed_under_that_name() -> None:
    acting, name = Acting(), eviction_name(key_of(U1, "1.1", IncidentType.CRASH), NODE)
    acting.server.evictions[name] = eviction(name, U1)
    acting.open(Step.RECOVER, State.OFF, type_=IncidentType.CRASH)
    await acting.until(lambda: acting.store.get(U1).cases[0].step is Step.FOLLOW)
    assert set(acting.server.evictions) == {name}


async def test_eviction_of_another_host_is_not_followed_as_one_s_own() -> None:
    """Its own was deleted, and its name taken."""
    acting = Acting()
    acting.open(Step.FOLLOW, State.OFF, U1, IncidentType.CRASH)
    instance = acting.store.get(U1)
    acting.store.put(instance.with_case(replace(instance.cases[0], eviction="ha-1")))
    acting.server.evictions["ha-1"] = foreign("ha-1", who=U1, ended=True)
    await acting.until(lambda: acting.store.get(U1).cases[0].step is not Step.FOLLOW)
    assert acting.store.get(U1).cases[0].evidence[-1] == "Eviction ha-1 was deleted"


async def test_eviction_of_another_host_is_neither_waited_for_nor_deleted() -> None:
    acting, name = Acting(), f"ha-{U1[:8]}-earlier"
    acting.store.put(
        replace(acting.store.host, evictions=(MadeEviction(name=name, at=acting.clock.now()),))
    )
    acting.clock.advance(timedelta(minutes=1))
    acting.server.evictions[name] = foreign(name, who=U1)
    acting.open(Step.RECOVER, State.OFF, type_=IncidentType.CRASH)
    await acting.until(lambda: len(acting.server.evictions) == 2)
    acting.server.evictions[name] = foreign(name, who=U1, ended=True)
    acting.clock.advance(timedelta(days=2))
    acting.open(Step.RECOVER, State.OFF, U2, type_=IncidentType.CRASH)
    await acting.until(lambda: len(acting.server.evictions) >= 3)
    assert name in acting.server.evictions


async def test_host_does_not_claim_an_eviction_of_many_that_was_held_back() -> None:
    many = [uuid(number) for number in range(4)]
    acting = Held(*many)
    now = acting.clock.now()
    for who in many:
        acting.store.put(replace(acting.store.get(who), crashes=(now,)))
    await acting.is_held(*many)
    together = acting.store.host.case(IncidentType.MANY_CRASHES)
    assert together is not None
    assert (together.eviction, together.reaction) == ("", Reaction.WAIT)
    assert together.evidence[-1].startswith("held back: maintenance: manual")


@pytest.mark.parametrize(
    ("known", "present"),
    [
        pytest.param(
            (State.OFF, -1), Domain(U1, U1, True, DomainState.RUNNING, id=9), id="started since"
        ),
        pytest.param(
            (State.RUNNING, 8), Domain(U1, U1, True, DomainState.RUNNING, id=9), id="another start"
        ),
        pytest.param(
            (State.RUNNING, 8), Domain(U1, U1, False, DomainState.SHUTOFF), id="ended since"
        ),
        pytest.param(
            (State.PAUSED, 9), Domain(U1, U1, True, DomainState.RUNNING, id=9), id="resumed since"
        ),
        pytest.param((State.RUNNING, 8), None, id="gone"),
    ],
)
async def test_instance_that_libvirt_shows_otherwise_is_not_recovered_by_old_events(
    known: tuple[State, int], present: Domain | None
) -> None:
    """The events are late, or were lost with the connection: the listing after it comes."""
    acting = Acting()
    for who in (U1, U2):
        acting.open(Step.RECOVER, State.RUNNING, who, IncidentType.WATCHDOG)
    state, domain_id = known
    acting.store.put(replace(acting.store.get(U1), state=state, domain_id=domain_id))
    acting.libvirt.here.pop(U1)
    if present is not None:
        acting.libvirt.put(present)
    await acting.until(lambda: bool(acting.server.evictions))
    (made,) = acting.server.evictions.values()
    assert made.spec.instances == (U2,)
    (case,) = acting.store.get(U1).cases
    assert (case.step, case.eviction) == (Step.RECOVER, "")


async def test_recoveries_wait_for_libvirt() -> None:
    acting = Acting()
    acting.open(Step.RECOVER, State.RUNNING, U1, IncidentType.WATCHDOG)
    acting.libvirt.disconnect()
    await acting.until(
        lambda: acting.store.get(U1).cases[0].evidence[-1:] == ("recovery waits for libvirt",)
    )
    assert acting.server.evictions == {}
    acting.libvirt.connect()
    acting.clock.advance(timedelta(seconds=5))
    await acting.until(lambda: len(acting.server.evictions) == 1)


async def test_eviction_that_is_refused_holds_up_no_other_one() -> None:
    """A policy of the site or a quota may refuse it, for example."""
    acting = Acting()
    for who in (U1, U2):
        acting.open(Step.RECOVER, State.RUNNING, who, IncidentType.WATCHDOG)
    refused = acting.store.get(U1).cases[0]
    acting.server.refusals[eviction_name(refused.id, NODE)] = ForbiddenError(
        "create Eviction", Status(code=403, reason="Forbidden", message="denied by policy x")
    )
    await acting.until(lambda: bool(acting.server.evictions))
    (made,) = acting.server.evictions.values()
    assert made.spec.instances == (U2,)
    (case,) = acting.store.get(U1).cases
    assert case.step is Step.RECOVER
    assert "denied by policy x" in case.evidence[-1]
    acting.server.refusals.clear()
    acting.clock.advance(timedelta(minutes=1))
    await acting.until(lambda: len(acting.server.evictions) == 2)


@pytest.mark.parametrize(
    ("state", "phase", "mode", "steps"),
    [
        pytest.param(State.OFF, "Succeeded", "restart", [Step.RECOVER], id="it has ended again"),
        pytest.param(State.RUNNING, "Succeeded", "restart", [], id="it runs"),
        pytest.param(State.OFF, "Skipped", None, [], id="its owner has stopped it"),
        pytest.param(State.OFF, "Succeeded", "cold", [], id="it has left"),
    ],
)
async def test_restarted_instance_that_is_off_again_does_not_count_as_recovered(
    state: State, phase: str, mode: str | None, steps: list[Step]
) -> None:
    """The agent was restarted, and missed start and end of the instance."""
    acting, now = Acting(), FakeClock().now()
    acting.open(Step.FOLLOW, state, U1, IncidentType.CRASH)
    instance = acting.store.get(U1)
    acting.store.put(instance.with_case(replace(instance.cases[0], eviction="ha-1")))
    acting.server.evictions["ha-1"] = Eviction(
        metadata=ObjectMeta(name="ha-1"),
        spec=EvictionSpec(hypervisor=NODE, reason="r", instances=(U1,)),
        status=EvictionStatus(
            instances=(EvictionInstance(id=U1, phase=phase, mode=mode),),
            conditions=set_condition((), "Evicting", "False", "Succeeded", "", now=now),
        ),
    )
    await acting.until(lambda: [one.step for one in acting.store.get(U1).cases] == steps)
    if steps:
        (case,) = acting.store.get(U1).cases
        assert case.evidence[-1] == "Eviction ha-1 restarted the instance, which is off again"
        assert case.due is not None
        assert case.due > now + HaConfig().limits.cool_down
