"""Where instances are that have left: reports that cost nothing first, then few calls."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.records import recorded
from tests.unit.operator.eviction.made import BEGAN, NOW, entry, facts, move, server, situation

from hypercobalt.api.conditions import Condition, set_condition
from hypercobalt.api.eviction import EvictionStatus
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType as _Type
from hypercobalt.api.hypervisor_status import HypervisorStatus, Instance
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.errors import UnreachableError
from hypercobalt.compute.fake import FakeCompute
from hypercobalt.compute.model import ServerAction
from hypercobalt.operator.eviction.model.whereabouts import Whereabouts
from hypercobalt.operator.eviction.observing import whereabouts
from hypercobalt.runtime import SystemClock

STOP = ServerAction("stop", BEGAN, user="its owner")


def host(
    name: str, *instances: Instance, reporting: str = "True", libvirt: str = "True"
) -> Hypervisor:
    wanted = {_Type.AGENT_REPORTING: reporting, _Type.LIBVIRT_CONNECTION: libvirt}
    conditions: tuple[Condition, ...] = ()
    for type_, value in wanted.items():
        conditions = set_condition(conditions, type_, value, "Reporting", "", now=NOW.now)
    status = HypervisorStatus(conditions=conditions, instances=instances)
    return recorded(Hypervisor(metadata=ObjectMeta(name=name), status=status))


def running(id_: str, *, active: bool = True) -> Instance:
    return Instance(id_, f"instance-{id_}", active)


def test_instance_is_expected_on_the_target_of_its_newest_completed_move() -> None:
    status = EvictionStatus(instances=(entry("a"), entry("b", target="noted"), entry("c")))
    moves = (
        move("error", "a", target="refused"),
        move("completed", "a", target="there"),
        move("completed", "a", target="before"),
    )
    found = whereabouts.expected(replace(facts(moves=moves), status=status), "abc")
    assert found == {"a": "there", "b": "noted", "c": ""}


def test_only_guest_that_an_agent_shows_active_now_on_its_target_is_seen() -> None:
    targets = {"a": "there", "b": "there", "c": "there", "d": "silent", "e": "", "f": "blind"}
    hosts = [
        host("there", running("a"), running("b", active=False)),
        host("other", running("c"), running("e")),
        host("silent", running("d"), reporting="False"),
        host("blind", running("f"), libvirt="False"),
    ]
    assert whereabouts.reported(targets, hosts) == {"a": Whereabouts(runs_on="there")}


def test_live_moves_and_entries_show_what_ran() -> None:
    status = EvictionStatus(instances=(entry("a"), entry("b"), entry("c", ran=True), entry("d")))
    moves = (
        move("completed", "a"),
        move("completed", "d"),
        move("confirmed", "b", kind="migration"),
    )
    of = situation(replace(facts(moves=moves), status=status))
    assert whereabouts.ran(of, frozenset("abc")) == {"a", "c"}


async def test_instances_on_one_target_cost_one_call() -> None:
    compute = FakeCompute(SystemClock().now)
    compute.moves.add(*(server(id_, host="there") for id_ in "abc"))
    targets = dict.fromkeys("abc", "there")
    found = await whereabouts.WhereaboutsReader(compute).read(targets, {}, "abc", BEGAN)
    assert {id_: one.server and one.server.host for id_, one in found.items()} == targets
    assert dict(compute.moves.calls) == {"servers": 1}


async def test_instances_that_agents_report_cost_one_call_for_all_of_them() -> None:
    compute = FakeCompute(SystemClock().now)
    compute.moves.add(server("a", host="x"), server("b", "ERROR", host="y"))
    targets, known = {"a": "x", "b": "y"}, {id_: Whereabouts(runs_on="?") for id_ in "ab"}
    found = await whereabouts.WhereaboutsReader(compute).read(targets, known, "ab", BEGAN)
    assert found["a"] == known["a"]
    assert found["b"].server is not None
    assert found["b"].server.status == "ERROR"
    assert dict(compute.moves.calls) == {"in_error": 1}


async def test_instance_that_is_not_on_its_target_is_looked_up_by_itself() -> None:
    compute = FakeCompute(SystemClock().now)
    compute.moves.add(server("a", host="further"))
    targets = {"a": "there", "b": ""}
    found = await whereabouts.WhereaboutsReader(compute).read(targets, {}, "", BEGAN)
    assert found["a"].server is not None
    assert found["a"].server.host == "further"
    assert found["b"] == Whereabouts()
    assert dict(compute.moves.calls) == {"servers": 1, "server": 2}


async def test_requests_are_read_of_what_ran_and_is_off_only() -> None:
    compute = FakeCompute(SystemClock().now)
    compute.moves.add(server("a", "SHUTOFF", host="there"), server("b", "SHUTOFF", host="there"))
    compute.moves.add(server("c", host="there"))
    compute.moves.acted["a"] = [STOP]
    targets = dict.fromkeys("abc", "there")
    found = await whereabouts.WhereaboutsReader(compute).read(targets, {}, "ac", BEGAN)
    assert {id_: one.requests for id_, one in found.items()} == {"a": (STOP,), "b": (), "c": ()}
    assert compute.moves.calls["actions"] == 1


async def test_host_that_does_not_answer_leaves_only_its_own_instances_unread() -> None:
    def fails(name: str, about: str) -> None:
        if about == "silent":
            raise UnreachableError("no answer")

    compute = FakeCompute(SystemClock().now)
    compute.moves.add(server("a", host="silent"), server("b", host="there"))
    compute.moves.on_call = fails
    targets = {"a": "silent", "b": "there"}
    with pytest.raises(UnreachableError):
        await whereabouts.WhereaboutsReader(compute).read(targets, {}, "", BEGAN)
    compute.counts_servers = False
    found = await whereabouts.WhereaboutsReader(compute).read(targets, {}, "", BEGAN)
    assert found["a"] == Whereabouts(unread="no answer")
    assert found["b"].server is not None
