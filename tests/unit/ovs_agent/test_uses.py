"""Bridges and bonds in the answers of the agent."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from tests.unit.ovs_agent.switches import (
    NOW,
    bond,
    database,
    healthy,
    interface,
    shown,
    tap,
    without,
)

from hypercobalt.adapters.ovs.fake import FakeSwitch
from hypercobalt.adapters.ovs.port import SwitchError
from hypercobalt.agent.diagnostics.use import Use, UseRequest
from hypercobalt.api.ovsnode import Bond, Bridge
from hypercobalt.ovs_agent.facts import Reading, SwitchFacts
from hypercobalt.ovs_agent.judging import Judge
from hypercobalt.ovs_agent.observing import SwitchObserver
from hypercobalt.ovs_agent.status.parts import Board, Parts
from hypercobalt.ovs_agent.uses import uses
from hypercobalt.runtime import FakeClock
from hypercobalt.runtime.routes import Answer, Requester

REQUEST = UseRequest({}, b"", Requester("jane"))


def offered(facts: SwitchFacts) -> dict[str, Use]:
    clock, fake = FakeClock(NOW), FakeSwitch()
    observer = SwitchObserver(fake, clock)
    observer.facts.set(facts)
    judge = Judge(observer.facts, Board(clock, Parts()), clock, counters=timedelta(minutes=5))
    return {one.name: one for one in uses(fake, observer, judge)}


async def statuses(facts: SwitchFacts) -> dict[str, str | None]:
    answer = await offered(facts)["bridges"].handle(REQUEST)
    assert isinstance(answer, Answer)
    bridges = msgspec.json.decode(answer.body, type=tuple[Bridge, ...])
    return {one.name: one.status for one in bridges}


async def test_bridges_are_those_of_this_moment() -> None:
    use = offered(healthy())["bridges"]
    assert (use.method, use.right) == ("GET", "diagnose")
    assert await statuses(healthy()) == {"br-ex": "Active", "br-int": "Active"}
    away = without(healthy(), "vswitchd")
    assert await statuses(away) == {"br-ex": "Unknown", "br-int": "Unknown"}


async def test_bonds_are_those_of_this_moment() -> None:
    members = bond("bond0", interface("a", 1), interface("b", 2, link_up=False))
    rows = database({"br-int": [tap()], "br-ex": [members]})
    facts = healthy(rows, bonds=Reading((shown("bond0", {"a": True, "b": False}),)))
    use = offered(facts)["bonds"]
    assert (use.method, use.right) == ("GET", "diagnose")
    answer = await use.handle(REQUEST)
    assert isinstance(answer, Answer)
    (found,) = msgspec.json.decode(answer.body, type=tuple[Bond, ...])
    assert (found.name, found.status, found.activeMembers) == ("bond0", "Degraded", 1)


@pytest.mark.parametrize("name", ["bridges", "bonds"])
async def test_use_is_refused_before_the_switch_was_read(name: str) -> None:
    with pytest.raises(SwitchError, match="not read yet"):
        await offered(SwitchFacts())[name].handle(REQUEST)
