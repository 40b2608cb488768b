"""No domain document holds the node agent's loop, stays in memory or raises.

Short as it stands; `LIBVIRT_DOCUMENTS=10000` and -s give the figures of docs/security.md.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import pytest
from tests.cost import grown, on_loop, resident_mib, spare_the_collector
from tests.unit.adapters.libvirt.documents.hostile import LARGEST, document

from hypercobalt.adapters.libvirt.documents import domain
from hypercobalt.adapters.libvirt.model import (
    Domain,
    DomainCapabilities,
    DomainState,
    HostCapabilities,
    HostCell,
    Versions,
)
from hypercobalt.node_agent.status.inventory import status_of
from hypercobalt.node_agent.status.parts import Inventory

Result = TypeVar("Result")

DOCUMENTS = int(os.environ.get("LIBVIRT_DOCUMENTS", "60"))
FAILED = (84, 242)
"""Seeds whose documents were once too much: sets that were refused late, each of them."""

HELD_MS = 250
LEAK_MIB = 10
TICK = 0.001  # seconds
HOST = HostCapabilities(
    "x86_64",
    tuple(HostCell(n, 2**36, frozenset(range(n * 64, n * 64 + 64)), 64) for n in range(4)),
)


async def aside(work: Callable[[], Result]) -> tuple[Result, float]:
    """Do work on a thread, as the adapter does, and return how long it kept the loop from a turn.

    That is the most CPU, in milliseconds, that this process used between two turns: other
    programs do not count.
    """
    done = asyncio.create_task(asyncio.to_thread(work))
    spare_the_collector()
    longest, last = 0.0, time.process_time()
    while not done.done():
        await asyncio.sleep(TICK)
        now = time.process_time()
        longest, last = max(longest, now - last), now
    return await done, longest * 1000


def inventory(definition: domain.Definition) -> Inventory:
    guest = Domain(
        "8c7d4ba7-3b07-43c6-9a25-a2b6ba2e3b1e",
        "hostile",
        active=True,
        state=DomainState.RUNNING,
        memory_bytes=definition.memory_bytes,
        vcpus=definition.vcpus,
        pins=definition.pins,
        memory_nodes=definition.memory_nodes,
        problem=definition.problem,
    )
    return Inventory(
        Versions("9.0.0", "8.2.0"), HOST, DomainCapabilities("x86_64", "kvm"), (guest,)
    )


@pytest.mark.timeout(120 + DOCUMENTS)
async def test_hostile_documents_neither_hold_the_loop_nor_stay_in_memory() -> None:
    resident = list[float]()
    longest, worst, largest, unread = 0.0, 0, 0, 0
    for number, seed in enumerate((*FAILED, *range(DOCUMENTS))):
        text = document(seed)
        definition, held = await aside(partial(domain.parse, text))
        shown = on_loop(partial(status_of, inventory(definition), {}))
        for ms in (held, shown):
            assert ms < HELD_MS, f"seed {seed}: the loop waits {ms:.0f} ms"
            longest, worst = max((longest, worst), (ms, seed))
        assert len(definition.problem or "") < 1000, f"seed {seed}"
        largest, unread = max(largest, len(text)), unread + bool(definition.problem)
        if number % max(1, DOCUMENTS // 10) == 0:
            resident.append(resident_mib())
    growth = grown(resident)
    sys.stdout.write(
        f"{DOCUMENTS} documents of up to {largest / 2**20:.1f} MiB, {unread} not read completely: "
        f"the loop waited {longest:.0f} ms at most (seed {worst}), "
        f"grown by {growth:.1f} MiB\n"
    )
    assert growth < LEAK_MIB, resident
    assert largest > LARGEST / 2
    assert 0 < unread < DOCUMENTS
