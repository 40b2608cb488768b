"""Traces a packet of the ports that a suspicion is about, as `cobalt trace` does.

The rules name the ports, two at most; each is traced once when the suspicion appears, then once a
period while it lasts. A trace that fails or is late leaves the finding as it is without one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Final

from hypercobalt.adapters.ovn.logical import Explained
from hypercobalt.adapters.ovs.packet import parse_packet
from hypercobalt.adapters.ovs.port import Switch, SwitchError
from hypercobalt.adapters.ovs.traced import Trace
from hypercobalt.ovs_agent.diagnostics.completing import BROADCAST
from hypercobalt.ovs_agent.diagnostics.verdict import verdict
from hypercobalt.ovs_agent.facts import Reading, SuspectTrace, SwitchFacts
from hypercobalt.ovs_agent.observing import SwitchObserver, SwitchProbe
from hypercobalt.ovs_agent.rules.findings import plain
from hypercobalt.ovs_agent.rules.suspects import Suspect, suspects

PERIOD: Final = timedelta(seconds=55)
"""Time between two traces of a port while its suspicion lasts."""

DEADLINE: Final = timedelta(seconds=2)
"""Longest time of one trace: ovs-vswitchd does nothing else meanwhile."""

LONGEST: Final = 200
"""Characters of a trace's result in a message."""

Traces = Mapping[str, SuspectTrace]


def begin(tasks: asyncio.TaskGroup, switch: Switch, observer: SwitchObserver) -> None:
    """Have suspects traced for as long as the agent runs."""
    tasks.create_task(observer.poll(_probe(switch, observer)), name="poll-suspects")


def _probe(switch: Switch, observer: SwitchObserver) -> SwitchProbe[Traces]:

    async def read() -> Traces:
        found: dict[str, SuspectTrace] = {}
        for suspect in suspects(observer.facts.value):
            with suppress(SwitchError, TimeoutError):
                async with asyncio.timeout(DEADLINE.total_seconds()):
                    found[suspect.uuid] = await _trace(switch, observer.facts.value, suspect)
        return found

    return SwitchProbe(
        "suspects",
        PERIOD,
        read,
        lambda _facts: Reading(),
        lambda facts, reading: replace(facts, traces=reading.value or {}),
        wanted=lambda facts: bool(suspects(facts)),
        reads=suspects,
        again=PERIOD,
    )


async def _trace(switch: Switch, facts: SwitchFacts, suspect: Suspect) -> SuspectTrace:
    source = {"eth_src": suspect.mac} if suspect.mac else {}
    packet = parse_packet({**source, "eth_dst": BROADCAST})
    found = await switch.trace(suspect.bridge, suspect.ofport, packet)
    database = facts.effective
    if database is None:
        raise TimeoutError  # the switch has gone meanwhile
    text = verdict(found, database, Explained(), facts.links.proven).text
    return SuspectTrace(plain(text, LONGEST), _ends_at_once(found))


def _ends_at_once(found: Trace) -> bool:
    """Whether the packet gets no further than table 0."""
    return all(step.table == 0 for one in found.passes for step in one.steps)
