"""Record what happens to domains on real hosts, as root: `python -m tests.traces.record_domains`.

Arguments are names of scenarios to record again.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final

from hypercobalt.lab.lab import Lab
from tests.traces.domain_scenarios import SCENARIOS, played
from tests.traces.domain_trace import DomainTrace, save
from tests.traces.record import record_all

_AFTERWARDS: Final = 2.0  # seconds in which late events still come


async def record(lab: Lab, name: str) -> None:
    """Play one scenario, and keep what its hosts report."""
    async with played(lab, name, lab.hosts[: SCENARIOS[name].hosts]) as stage:
        await asyncio.sleep(_AFTERWARDS)
        versions = stage.recorders[0].versions
        assert versions is not None
        source = f"libvirt {versions.libvirt}, QEMU {versions.hypervisor}, host of a lab"
        host, *target = [await one.side() for one in stage.recorders]
        save(name, DomainTrace(source, SCENARIOS[name].text, host, *target))


if __name__ == "__main__":
    asyncio.run(record_all(sys.argv[1:] or SCENARIOS, record))
