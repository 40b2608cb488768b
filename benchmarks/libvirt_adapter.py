"""What the libvirt adapter costs an agent, and how soon it notices faults, on a real libvirtd.

    python benchmarks/libvirt_adapter.py [--domains 200] [--running 50] [--json FILE]

Needs root, and the packages that `cobalt lab up` installs. The measured process is
`libvirt_process`.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import monotonic

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.harness import arguments, report, table
from tests.lab.kit.hand import Hand
from tests.lab.kit.libvirtd import Daemon, private_libvirtd

from hypercobalt.adapters.libvirt.connection import connect
from hypercobalt.adapters.libvirt.events import Connected, Disconnected

ROUNDS = 5
MEASURED = Path(__file__).with_name("libvirt_process.py")


async def faults(daemon: Daemon) -> dict[str, float]:
    """How long after the fault the adapter reports it, in milliseconds; medians."""
    found: dict[str, list[float]] = {}

    async def reported(kind: type[Connected | Disconnected], name: str, since: float) -> None:
        while not isinstance(await anext(events), kind):
            pass
        found.setdefault(name, []).append((monotonic() - since) * 1000)

    async with connect(daemon.uri) as subject:
        events = subject.events()
        await reported(Connected, "connected_after_start_ms", monotonic())
        for _ in range(ROUNDS):
            since = monotonic()
            await asyncio.gather(
                asyncio.to_thread(daemon.stop, signal.SIGKILL),
                reported(Disconnected, "killed_ms", since),
            )
            since = monotonic()
            await asyncio.to_thread(daemon.start)
            await reported(Connected, "started_again_ms", since)
            since = monotonic()
            daemon.send(signal.SIGSTOP)
            await reported(Disconnected, "hung_ms", since)
            since = monotonic()
            daemon.send(signal.SIGCONT)
            await reported(Connected, "goes_on_ms", since)
        await events.aclose()
    return {name: median(times) for name, times in found.items()}


def run(domains: int, running: int) -> dict[str, float]:
    """Make the domains and measure."""
    with private_libvirtd() as daemon:
        hand, names = Hand(daemon.uri), [f"guest-{number:03}" for number in range(domains)]
        hand.define(*(daemon.guest(name) for name in names))
        hand("; ".join(f"start {name}" for name in names[:running]))
        command = [sys.executable, str(MEASURED), daemon.uri]
        subprocess.run(command, check=True, capture_output=True)  # writes bytecode
        output = subprocess.run(command, check=True, capture_output=True).stdout
        costs: dict[str, float] = json.loads(output)
        return costs | asyncio.run(faults(daemon))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--domains", type=int, default=200)
    parser.add_argument("--running", type=int, default=50)
    options = parser.parse_args()
    found = run(options.domains, options.running)
    print(table(("figure", "value"), [(name, f"{value:.2f}") for name, value in found.items()]))
    sizes = {"domains": options.domains, "running": options.running}
    report(options.json, {"libvirt_adapter": sizes | found})


if __name__ == "__main__":
    main()
