"""What libvirt's adapter costs an agent, and how soon it notices, on a real libvirtd with QEMU.

    python benchmarks/libvirt_adapter.py [--domains 200] [--running 50] [--json FILE]

Needs root, and the packages that `cobalt lab up` installs. The measured process is a fresh one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

if TYPE_CHECKING:
    from tests.lab.libvirtd import Daemon

ROUNDS = 5
IDLE = 20.0


def resident_mib(kind: str = "VmRSS") -> float:
    """Resident memory of this process: all of it, or `RssAnon` for what it shares with nobody."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(kind))


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


async def timed(call: Callable[[], Awaitable[object]]) -> float:
    """Milliseconds that a call takes."""
    started = monotonic()
    await call()
    return (monotonic() - started) * 1000


async def measure(uri: str) -> dict[str, float]:
    """Passes, memory and idle time of one connection."""
    from hypercobalt.adapters.libvirt.connection import connect  # noqa: PLC0415
    from hypercobalt.adapters.libvirt.model import Connected  # noqa: PLC0415

    found = {"resident_imported_mib": resident_mib()}
    async with connect(uri) as subject:
        notices = subject.notices()
        while not isinstance(await anext(notices), Connected):
            pass
        found["first_pass_ms"] = await timed(subject.domains)
        found["next_pass_ms"] = median([await timed(subject.domains) for _ in range(ROUNDS)])
        found["counters_ms"] = median([await timed(subject.stats) for _ in range(ROUNDS)])
        found["resident_mib"] = resident_mib()
        found["resident_anonymous_mib"] = resident_mib("RssAnon")
        before = sum(os.times()[:2])
        await asyncio.sleep(IDLE)
        found["idle_percent_of_a_core"] = (sum(os.times()[:2]) - before) / IDLE * 100
        await notices.aclose()
    return found


async def faults(daemon: Daemon) -> dict[str, float]:
    """How long after the fault it is said, in milliseconds; medians."""
    from hypercobalt.adapters.libvirt.connection import connect  # noqa: PLC0415
    from hypercobalt.adapters.libvirt.model import Connected, Disconnected  # noqa: PLC0415

    found: dict[str, list[float]] = {}

    async def said(kind: type[Connected | Disconnected], name: str, since: float) -> None:
        while not isinstance(await anext(notices), kind):
            pass
        found.setdefault(name, []).append((monotonic() - since) * 1000)

    async with connect(daemon.uri) as subject:
        notices = subject.notices()
        await said(Connected, "connected_after_start_ms", monotonic())
        for _ in range(ROUNDS):
            since = monotonic()
            await asyncio.gather(
                asyncio.to_thread(daemon.stop, signal.SIGKILL),
                said(Disconnected, "killed_ms", since),
            )
            since = monotonic()
            await asyncio.to_thread(daemon.start)
            await said(Connected, "started_again_ms", since)
            since = monotonic()
            daemon.send(signal.SIGSTOP)
            await said(Disconnected, "hung_ms", since)
            since = monotonic()
            daemon.send(signal.SIGCONT)
            await said(Connected, "goes_on_ms", since)
        await notices.aclose()
    return {name: median(times) for name, times in found.items()}


def run(domains: int, running: int) -> dict[str, float]:
    """Make the domains and measure."""
    import libvirt  # noqa: PLC0415
    from tests.lab.libvirtd import private_libvirtd  # noqa: PLC0415

    with private_libvirtd() as daemon:
        hand = libvirt.open(daemon.uri)
        for number in range(domains):
            domain = hand.defineXML(daemon.guest(f"guest-{number:03}"))
            if number < running:
                domain.create()
        del domain
        hand.close()
        command = [sys.executable, __file__, "--measure", daemon.uri]
        subprocess.run(command, check=True, capture_output=True)  # writes bytecode
        output = subprocess.run(command, check=True, capture_output=True).stdout
        costs: dict[str, float] = json.loads(output)
        return costs | asyncio.run(faults(daemon))


def main() -> None:
    """Print a table, or with --measure one process's figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--domains", type=int, default=200)
    parser.add_argument("--running", type=int, default=50)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(asyncio.run(measure(options.measure))))
        return
    from benchmarks.runtime_sample import describe, table, write_json  # noqa: PLC0415

    found = run(options.domains, options.running)
    print(table(("figure", "value"), [(name, f"{value:.2f}") for name, value in found.items()]))
    sizes = {"domains": options.domains, "running": options.running}
    write_json(options.json, describe() | {"libvirt_adapter": sizes | found})


if __name__ == "__main__":
    main()
