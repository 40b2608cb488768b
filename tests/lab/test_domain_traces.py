"""Real hosts still report what was recorded of each domain scenario."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from itertools import dropwhile, groupby

import pytest

from hypercobalt.lab.lab import Lab
from tests.lab.conftest import TakeHosts
from tests.traces.domain_scenarios import SCENARIOS, Recorder, played
from tests.traces.domain_trace import Found, Link, Side, load, names, steps

pytestmark = pytest.mark.timeout(180)
BOUND = 20.0  # seconds
_SILENT = "has not answered"


def test_every_scenario_is_recorded() -> None:
    assert names() == sorted(SCENARIOS)


@pytest.mark.parametrize("name", SCENARIOS)
async def test_each_scenario_happens_as_it_was_recorded(
    lab: Lab, hosts: TakeHosts, name: str
) -> None:
    taken, recorded = await hosts(SCENARIOS[name].hosts), load(name)
    async with played(lab, name, taken) as stage:
        for recorder, side in zip(
            stage.recorders, filter(None, (recorded.host, recorded.target)), strict=True
        ):
            await _reports(recorder, side)


async def _reports(recorder: Recorder, side: Side) -> None:
    expected = steps(side.events)
    await recorder.until(lambda: len(steps(recorder.events)) >= len(expected))
    assert steps(recorder.events)[: len(expected)] == expected
    silence = any(_SILENT in link.lost for link in side.links)
    assert _changes(recorder.links, silence=silence) == _changes(side.links)
    assert _meaning(await _settled(recorder, side.after)) == _meaning(side.after)


async def _settled(recorder: Recorder, recorded: Found | None) -> Found | None:
    """How the domain is as soon as it is as recorded, or else after `BOUND`.

    Around an event libvirt has questions of its own to the emulator, after a reset for example:
    while one is open the way to the emulator is occupied, for as long as a busy machine takes. That
    has no event when it ends.
    """
    found = (await recorder.side()).after
    with suppress(TimeoutError):
        async with asyncio.timeout(BOUND):
            while _meaning(found) != _meaning(recorded):
                await asyncio.sleep(0.05)
                found = (await recorder.side()).after
    return found


def _changes(links: Iterable[Link], *, silence: bool = True) -> list[bool]:
    """Whether the connection stands, change by change: failed attempts are a matter of time.

    Without `silence`, so are answers that are late: on a busy machine a daemon that is well needs
    longer than a heartbeat now and then.
    """
    meant = (link for link in links if silence or _SILENT not in link.lost)
    since_the_first = dropwhile(lambda link: link.lost, meant)
    return [stands for stands, _ in groupby(not one.lost for one in since_the_first)]


def _meaning(found: Found | None) -> tuple[object, ...] | None:
    if found is None:
        return None
    return found.state, found.reason, found.id >= 0, found.control, found.errors
