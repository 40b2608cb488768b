"""What the OVS agent offers to people: a trace, the ports, a bridge, ovn-controller."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from hypercobalt.adapters.ovs.port import Switch
from hypercobalt.agent.diagnostics.use import BusyError, Use, UseRequest
from hypercobalt.ovs_agent.diagnostics import internals, ports, tracing
from hypercobalt.ovs_agent.facts import SwitchFacts
from hypercobalt.ovs_agent.rules.issues import Tracked
from hypercobalt.runtime.routes import Answer

SECONDS: Final = 20.0
"""Seconds for a trace with all names: 10 s of ovs-vswitchd, and the southbound database before and
after."""


def uses(
    switch: Switch, facts: Callable[[], SwitchFacts], issues: Callable[[], Iterable[Tracked]]
) -> Sequence[Use]:
    """What people may use.

    Args:
        switch: of this host.
        facts: returns the present facts.
        issues: returns the issues that last.
    """
    tracing_now = False

    async def trace(request: UseRequest) -> Answer:
        nonlocal tracing_now
        # ovs-vswitchd traces on the thread that serves all else: one at a time.
        if tracing_now:
            raise BusyError("a trace is under way on this host; try again in a few seconds")
        tracing_now = True
        try:
            return _answer(await tracing.trace(switch, facts(), request.parameters))
        finally:
            tracing_now = False

    async def list_ports(request: UseRequest) -> Answer:
        return _answer(await ports.ports(switch, facts(), issues(), request.parameters))

    async def show_bridge(request: UseRequest) -> Answer:
        return _answer(await internals.bridge(switch, facts(), request.parameters))

    async def show_controller(_: UseRequest) -> Answer:
        return _answer(await internals.controller(switch))

    return (
        Use("trace", "trace", trace, "POST", tracing.PARAMETERS, seconds=SECONDS),
        Use("ports", "diagnose", list_ports, "GET", ports.PARAMETERS),
        Use("bridge", "diagnose", show_bridge, "GET", internals.PARAMETERS),
        Use("ovn", "diagnose", show_controller),
    )


def _answer(report: object) -> Answer:
    return Answer(200, msgspec.json.encode(report), "application/json")
