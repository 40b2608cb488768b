"""Sessions with a real libvirtd that stands still, as its host may: callers must go on."""

from __future__ import annotations

import asyncio
import signal
from time import monotonic

import pytest

from hypercobalt.adapters.libvirt.host import DEADLINE
from hypercobalt.adapters.libvirt.on_demand import OnDemandConnection
from hypercobalt.adapters.libvirt.rpc.client import Client
from hypercobalt.adapters.libvirt.rpc.protocol import GET_LIB_VERSION, Version, Void
from tests.lab.kit.libvirtd import Daemon

IDLE = 0.1
WATCHED = 2.0
PAUSE = 1.0  # closing a connection to a daemon that stands still takes half a minute


async def version(client: Client) -> Version:
    return await client.call(GET_LIB_VERSION, Void())


async def longest_pause() -> float:
    """How long the event loop did nothing, at most, seconds."""
    longest, end = 0.0, monotonic() + WATCHED
    while (began := monotonic()) < end:
        await asyncio.sleep(0.01)  # the pulse that is measured
        longest = max(longest, monotonic() - began)
    return longest


@pytest.mark.timed
@pytest.mark.parametrize("by_hand", [False, True], ids=["idle", "close"])
async def test_closing_waits_for_no_daemon(libvirtd: Daemon, by_hand: bool) -> None:
    session = OnDemandConnection(libvirtd.uri, idle=IDLE)
    assert await session.run("version", version, DEADLINE)
    libvirtd.send(signal.SIGSTOP)
    try:
        began = monotonic()
        if by_hand:
            session.close()
        assert monotonic() - began < PAUSE
        assert await longest_pause() < PAUSE
    finally:
        libvirtd.send(signal.SIGCONT)

    assert await session.run("version", version, DEADLINE)
    session.close()
