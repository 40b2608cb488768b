"""The node agent on real hosts: memory, idle cost, delay from a domain's event to the status.

python benchmarks/node_agent.py [--data DIR] [--guests 50] [--json FILE]

Boots a small lab of its own (root, systemd-nspawn, libvirt and QEMU are needed) and takes it down.
Delays are counted from the return of libvirt's own call, in the host, to the event of a watch here,
so they are a little longer than the time that matters: until the status is stored.
"""

from __future__ import annotations

import asyncio
import json
import logging
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.harness import arguments, report, table

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.migration import Migration, MigrationType
from hypercobalt.lab.agents import NODE_AGENT
from hypercobalt.lab.host import Host
from hypercobalt.lab.lab import Lab, down
from hypercobalt.lab.setup import Setup
from hypercobalt.lab.vms.fleet import Fleet
from hypercobalt.lab.vms.request import VMRequest
from hypercobalt.runtime import Kube, configure_logs

CYCLES = 50
IDLE = 60.0  # seconds over which CPU time and writes of doing nothing are counted
PAUSE = 0.3  # seconds that a domain is left in each state: longer than the status takes to show it
LONG = timedelta(minutes=10)

DOMAIN = """<domain type='qemu'><name>{name}</name><memory unit='MiB'>16</memory><vcpu>1</vcpu>
<os><type arch='x86_64'>hvm</type></os><on_crash>destroy</on_crash></domain>"""

PYTHON = "/usr/bin/python3"  # with Debian's python3-libvirt

# Runs in the host, on libvirt's own calls; prints the wall clock after each.
CYCLE = """
import json, sys, time, libvirt
arguments = json.load(sys.stdin)
libvirt.registerErrorHandler(lambda *_: None, None)
connection, times = libvirt.open("qemu:///system"), []
for _ in range(arguments["cycles"]):
    domain = connection.createXML(arguments["xml"])
    times.append(time.time())
    time.sleep(arguments["pause"])
    domain.destroy()
    times.append(time.time())
    time.sleep(arguments["pause"])
print(json.dumps(times))
"""
FILL = """
import json, sys, libvirt
arguments = json.load(sys.stdin)
connection = libvirt.open("qemu:///system")
for xml in arguments["documents"]:
    (connection.createXML if arguments["start"] else connection.defineXML)(xml)
"""
# Nanoseconds of all its threads; the ticks of proc_pid_stat(5) are too coarse for an idle process.
CPU = """
import glob, sys
files = glob.glob(f"/proc/{sys.argv[1]}/task/*/schedstat")
print(sum(int(open(one).read().split()[0]) for one in files))
"""
CLEAR = """
import libvirt
connection = libvirt.open("qemu:///system")
for domain in connection.listAllDomains():
    domain.destroy() if domain.isActive() else domain.undefine()
"""


async def in_host(host: Host, program: str, **arguments: object) -> str:
    return await host.run(PYTHON, "-c", program, stdin=json.dumps(arguments), within=LONG)


class Follower:
    """The host's object over time, by this machine's clock, which is the hosts' too."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, Hypervisor]] = []
        self._news = asyncio.Event()

    async def run(self, api: Kube, name: str) -> None:
        while True:
            async with api.watch(Hypervisor, fields=f"metadata.name={name}") as events:
                async for event in events:
                    if event.object is not None:
                        self.seen.append((time.time(), event.object))
                        self._news.set()

    async def until(self, good: Callable[[Hypervisor], bool], since: int = 0) -> float:
        """When the object was first as wanted, after version number `since`."""
        async with asyncio.timeout(120):
            while True:
                for at, seen in self.seen[since:]:
                    if good(seen):
                        return at
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def following(api: Kube, name: str) -> AsyncIterator[Follower]:
    follower = Follower()
    task = asyncio.create_task(follower.run(api, name))
    try:
        yield follower
    finally:
        task.cancel()
        await asyncio.wait({task})


def instances(count: int) -> Callable[[Hypervisor], bool]:
    return lambda seen: seen.status.numInstances == count


def connected(wanted: bool) -> Callable[[Hypervisor], bool]:
    def good(seen: Hypervisor) -> bool:
        found = get_condition(seen.conditions, "LibVirtConnection")
        return found is not None and (found.status == "True") is wanted

    return good


async def usage(host: Host) -> dict[str, float]:
    """Resident memory in MiB and CPU seconds of the agent."""
    show = ("systemctl", "show", "--property=MainPID", "--value", NODE_AGENT)
    pid = (await host.run(*show)).strip()
    status = dict(
        line.split(":", 1) for line in (await host.run("cat", f"/proc/{pid}/status")).splitlines()
    )
    cpu = int(await host.run(PYTHON, "-c", CPU, pid))
    kib = {name: int(status[name].split()[0]) for name in ("VmRSS", "RssAnon")}
    return {
        "resident": kib["VmRSS"] / 1024,
        "anonymous": kib["RssAnon"] / 1024,
        "cpu": cpu / 1e9,
    }


async def delays(host: Host, follower: Follower, base: int) -> list[float]:
    """Seconds from the return of each start and stop to the status that shows it."""
    since = len(follower.seen)
    xml = DOMAIN.format(name="cycled")
    times = json.loads(await in_host(host, CYCLE, cycles=CYCLES, xml=xml, pause=PAUSE))
    await follower.until(instances(base), len(follower.seen) - 1)
    changes, count = [], base
    for at, seen in follower.seen[since:]:
        if seen.status.numInstances != count:
            count = seen.status.numInstances or 0
            changes.append(at)
    assert len(changes) == len(times), f"{len(changes)} changes of {len(times)} events"
    return [seen - done for seen, done in zip(changes, times, strict=True)]


def spread(values: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return {"p50": statistics.median(values), "p99": cuts[98], "worst": max(values)}


async def libvirt_gone(host: Host, follower: Follower) -> dict[str, float]:
    sockets = tuple(f"libvirtd{kind}.socket" for kind in ("", "-ro", "-admin", "-tcp"))
    since = len(follower.seen)
    await host.run("systemctl", "stop", *sockets, "libvirtd.service")
    stopped = time.time()
    lost = await follower.until(connected(wanted=False), since) - stopped
    since = len(follower.seen)
    await host.run("systemctl", "start", *sockets, "libvirtd.service")
    started = time.time()
    return {"lost": lost, "back": await follower.until(connected(wanted=True), since) - started}


async def migration(lab: Lab, api: Kube) -> dict[str, float]:
    """Progress values of a throttled migration, and when the first one came."""
    fleet, progress = Fleet(lab), list[tuple[float, str]]()
    await fleet.add(VMRequest(name="moved", host=lab.hosts[0].name, network=False))

    async def follow() -> None:
        async with api.watch(Migration) as events:
            async for event in events:
                if event.object is not None and event.object.status.timeElapsed:
                    progress.append((time.time(), event.object.status.timeElapsed))
                    if event.object.status.type == MigrationType.COMPLETED:
                        return

    task = asyncio.create_task(follow())
    begun = time.time()
    await fleet.move("moved", lab.hosts[1].name, mib_per_second=8)
    took = time.time() - begun
    await asyncio.wait_for(task, 120)
    values = [at for at, _ in progress]
    gaps = [later - one for one, later in pairwise(values)]
    await fleet.remove("moved")
    return {
        "seconds": took,
        "first value after": values[0] - begun,
        "values": float(len(values)),
        "longest gap": max(gaps, default=0.0),
    }


async def measure(lab: Lab, guests: int) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    host = lab.hosts[0]
    async with lab.control.client() as api, following(api, host.name) as follower:
        await follower.until(lambda hv: connected(wanted=True)(hv) and instances(0)(hv))
        found["empty host"] = await usage(host)
        print("delays with no other domain", file=sys.stderr)
        found["event to status, s"] = spread(await delays(host, follower, 0))
        print("migration", file=sys.stderr)
        found["migration at 8 MiB/s, s"] = await migration(lab, api)
        print(f"{guests} guests", file=sys.stderr)
        documents = [DOMAIN.format(name=f"guest-{n}") for n in range(guests)]
        await in_host(host, FILL, documents=documents, start=True)
        await follower.until(instances(guests))
        await asyncio.sleep(20)  # their firmware looks for something to boot
        before, writes = await usage(host), len(follower.seen)
        await asyncio.sleep(IDLE)  # what is measured: doing nothing
        after = await usage(host)
        cpu = 100 * (after["cpu"] - before["cpu"]) / IDLE
        found[f"idle with {guests} guests"] = {
            "resident": after["resident"],
            "anonymous": after["anonymous"],
            "cpu %": cpu,
            "writes a minute": float(len(follower.seen) - writes),
        }
        found[f"event to status with {guests}, s"] = spread(await delays(host, follower, guests))
        found["libvirtd stopped and started, s"] = await libvirt_gone(host, follower)
        await in_host(host, CLEAR)
        await follower.until(instances(0), len(follower.seen) - 1)
        print("200 domains", file=sys.stderr)
        documents = [DOMAIN.format(name=f"defined-{n}") for n in range(200)]
        await in_host(host, FILL, documents=documents, start=False)
        await follower.until(instances(200))
        found["event to status with 200, s"] = spread(await delays(host, follower, 200))
        found["after 200 domains"] = await usage(host)
        await in_host(host, CLEAR)
    return found


async def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--guests", type=int, default=50)
    options = parser.parse_args()
    configure_logs(level=logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="cobalt-bench-") as directory:
        data = options.data or Path(directory) / "lab"
        lab = await Lab.make(data)
        try:
            await lab.up(Setup(hosts=2, ovn=False))
            found = await measure(lab, options.guests)
        finally:
            await down(data)
    rows = [
        (what, name, f"{value:.3f}" if value < 10 else f"{value:.1f}")
        for what, figures in found.items()
        for name, value in figures.items()
    ]
    print(table(("what", "figure", "value"), rows))
    if options.json:
        report(options.json, found)


if __name__ == "__main__":
    asyncio.run(main())
