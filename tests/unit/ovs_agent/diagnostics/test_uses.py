"""What the agent offers to people, under which right, and how much at once."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from tests.unit.ovs_agent.diagnostics.networks import facts, mac, switch

from hypercobalt.adapters.ovs.fake import FakeSwitch
from hypercobalt.adapters.ovs.packet import Packet
from hypercobalt.adapters.ovs.traced import Trace
from hypercobalt.agent.diagnostics.use import BusyError, Use, UseRequest
from hypercobalt.ovs_agent.diagnostics.report import (
    BridgeReport,
    ControllerReport,
    PortsReport,
    TraceReport,
)
from hypercobalt.ovs_agent.diagnostics.uses import uses
from hypercobalt.runtime.routes import Answer, Requester

TRACE = {"from": "tap1", "eth_dst": mac(2)}


def offered(fake: FakeSwitch) -> dict[str, Use]:
    return {one.name: one for one in uses(fake, facts, lambda: ())}


def request(**parameters: str) -> UseRequest:
    return UseRequest(parameters, b"", Requester("jane"))


def test_each_use_needs_its_right() -> None:
    assert {(one.name, one.method, one.right) for one in offered(switch()).values()} == {
        ("trace", "POST", "trace"),
        ("ports", "GET", "diagnose"),
        ("bridge", "GET", "diagnose"),
        ("ovn", "GET", "diagnose"),
    }


async def test_a_trace_and_the_ports_are_answered() -> None:
    found = offered(switch())
    traced = await found["trace"].handle(request(**TRACE))
    listed = await found["ports"].handle(request(port="tap1"))
    assert isinstance(traced, Answer)
    assert isinstance(listed, Answer)
    assert msgspec.json.decode(traced.body, type=TraceReport).port == "tap1"
    assert msgspec.json.decode(listed.body, type=PortsReport).ports[0].name == "tap1"


async def test_a_bridge_and_ovn_controller_are_answered() -> None:
    found = offered(switch())
    bridge = await found["bridge"].handle(request(bridge="br-int"))
    controller = await found["ovn"].handle(request())
    assert isinstance(bridge, Answer)
    assert isinstance(controller, Answer)
    assert msgspec.json.decode(bridge.body, type=BridgeReport).name == "br-int"
    assert msgspec.json.decode(controller.body, type=ControllerReport).connected is True


async def test_one_trace_at_a_time_is_made() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    class Slow(FakeSwitch):
        async def trace(
            self, bridge: str, in_port: int, packet: Packet, states: tuple[str, ...] = ()
        ) -> Trace:
            begun.set()
            await go_on.wait()
            return await super().trace(bridge, in_port, packet, states)

    slow = Slow()
    slow.flow_table["br-int"] = ()
    found = offered(slow)["trace"]
    first = asyncio.create_task(found.handle(request(**TRACE)))
    await begun.wait()
    with pytest.raises(BusyError, match="under way"):
        await found.handle(request(**TRACE))
    go_on.set()
    await first
    await found.handle(request(**TRACE))
