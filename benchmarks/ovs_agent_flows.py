"""The OVS agent on a switch with very many flows: its memory and CPU, and what the switch feels.

python benchmarks/ovs_agent_flows.py [--ports 200] [--flows 200000] [--seconds 180] [--idle]
    [--json FILE]

Root, Open vSwitch and OVN are needed (make prepare). Real daemons run in a network namespace: a
switch in user space, ovn-controller and OVN's databases, ports of instances that OVN has installed,
and that many flows of others. The agent runs in a memory cgroup of 128 MiB, which is what its chart
requests, and /metrics is read each 15 s. With --idle they are not read, and counters are written
as seldom as by default.

What the switch feels: a process requests the version of ovs-vswitchd each 2 ms, with the agent and
without it. An answer waits for the main thread, on which all requests are served; what counts is
the CPU time that the thread took until the answer, as it does not grow with the machine's load.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import httpx2
from benchmarks.empty_server import empty_server
from benchmarks.harness import arguments, cpu_seconds, memory_mib, report, table
from tests.following import follow
from tests.integration.agent.process import Process, lines_until, started, stopped
from tests.integration.ovs.central import Central
from tests.integration.ovs.daemons import VSWITCHD, Daemons

from hypercobalt.api.core import Namespace
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.ovsnode import OVSNode
from hypercobalt.runtime import Kube, load_connection

NODE, NAMESPACE = "kvm-1", "ovn-system"
TABLES = range(8, 88)
"""Tables that other flows are put into, evenly: few enough in each to be looked through."""

MEMORY = 128 * 1024**2
TRACES = 50
SCRAPES = 15.0  # seconds between two
READY = 120.0  # seconds until the agent has read everything
BETWEEN = 0.002  # seconds between two questions to ovs-vswitchd


@dataclass(slots=True)
class Felt:
    """How ovs-vswitchd answered: milliseconds until an answer, and of its main thread's CPU."""

    answers: int
    latency_p50: float
    latency_worst: float
    busy_p999: float
    busy_worst: float


@dataclass(slots=True)
class Result:
    """MiB and milliseconds."""

    ports: int
    flows: int
    load: float
    resident: float
    resident_peak: float
    anonymous: float
    cgroup_peak: float | None
    cpu_percent: float
    scrapes: list[tuple[float, float]]
    writes: int
    switch_cpu_percent: tuple[float, float]
    without: Felt
    with_agent: Felt
    traced: list[float]


def probe(control: str, pid: int, seconds: float) -> Felt:
    """Request the version of a daemon again and again, in a process of its own."""
    thread = Path(f"/proc/{pid}/task/{pid}/schedstat")
    latencies: list[float] = []
    busy: list[float] = []
    end = time.monotonic() + seconds
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(control)
        serial = 0
        while (began := time.monotonic()) < end:
            serial += 1
            ran = int(thread.read_text().split()[0])
            made.sendall(json.dumps({"id": serial, "method": "version", "params": []}).encode())
            answer = b""
            while not answer.endswith(b"}"):
                answer += made.recv(4096)
            busy.append((int(thread.read_text().split()[0]) - ran) / 1e6)
            latencies.append(1000 * (time.monotonic() - began))
            time.sleep(BETWEEN)  # the pace of the measurement
    return Felt(
        len(latencies),
        statistics.median(latencies),
        max(latencies),
        statistics.quantiles(busy, n=1000)[-1],
        max(busy),
    )


def lport(number: int) -> str:
    return f"c0ffee00-0000-4000-8000-{number:012}"


def plug(central: Central, ports: int) -> None:
    """Connect instances to one logical switch, and wait until OVN has installed their ports."""
    daemons = central.daemons
    central.nbctl("ls-add", "net")
    for number in range(ports):
        address = f"fa:16:3e:00:{number >> 8:02x}:{number & 255:02x}"
        central.nbctl(
            *("lsp-add", "net", lport(number)),
            *("--", "lsp-set-addresses", lport(number), f"{address} 10.0.{number >> 8}.{number}"),
        )
    for number in range(ports):
        daemons.vsctl(
            *("add-port", "br-int", f"tap{number}", "--", "set", "interface", f"tap{number}"),
            *("type=internal", f"external_ids:iface-id={lport(number)}"),
        )
        daemons.namespace.run("ip", "link", "set", f"tap{number}", "up")
    central.synchronize()


def fill(daemons: Daemons, flows: int) -> None:
    """Add flows as long as OVN's."""
    file = daemons.folder / "flows"
    file.write_text("".join(map(flow, range(flows))))
    command = daemons.namespace.command("ovs-ofctl", "add-flows", "br-int", str(file))
    subprocess.run(command, env=daemons.env, check=True, timeout=READY)


def flow(number: int) -> str:
    where = TABLES[number % len(TABLES)]
    address = f"172.{16 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"
    return (
        f"table={where},cookie={0x10000000 + number:#x},priority=50,ip,metadata=0x77,reg14=0x3,"
        f"nw_src={address},actions=set_field:0x1/0x1->xreg4,set_field:{number:#x}->reg0,"
        f"resubmit(,{where + 1})\n"
    )


def traces(daemons: Daemons, ports: int) -> list[float]:
    """Trace a broadcast of ports, as on a suspicion; milliseconds of the main thread for each."""
    thread = Path(f"/proc/{daemons.pid(VSWITCHD)}/task/{daemons.pid(VSWITCHD)}/schedstat")
    found: list[float] = []
    for number in range(min(ports, TRACES)):
        packet = f"in_port=tap{number},dl_src=fa:16:3e:00:00:{number:02x},dl_dst={'ff:' * 5}ff"
        command = daemons.namespace.command("ovs-appctl", "ofproto/trace", "br-int", packet)
        ran = int(thread.read_text().split()[0])
        subprocess.run(
            command, env=daemons.env, check=True, timeout=READY, stdout=subprocess.DEVNULL
        )
        found.append((int(thread.read_text().split()[0]) - ran) / 1e6)
    return found


@contextmanager
def memory_cgroup() -> Iterator[Path | None]:
    """A cgroup of MEMORY; None where the kernel or the container has none to give."""
    first, limit = Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"
    parent, limit = (first, limit) if first.is_dir() else (first.parent, "memory.max")
    folder = parent / f"ovs-agent-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError:
        yield None
        return
    try:
        (folder / limit).write_text(str(MEMORY))
        yield folder
    finally:
        folder.rmdir()


def peak_of(cgroup: Path | None) -> float | None:
    """MiB that a cgroup has had at most, files that it read first included."""
    names = ("memory.max_usage_in_bytes", "memory.peak")
    found = [cgroup / name for name in names if (cgroup / name).exists()] if cgroup else []
    return int(found[0].read_text()) / 1024**2 if found else None


@asynccontextmanager
async def agent(
    kubeconfig: Path, daemons: Daemons, cgroup: Path | None, counters: int
) -> AsyncIterator[tuple[Process, str]]:
    """The agent's process, and where its metrics are."""
    paths = daemons.paths
    enter = ("sh", "-c", f'echo $$ > {cgroup}/cgroup.procs && exec "$@"', "sh") if cgroup else ()
    command = (
        *(*enter, sys.executable, "-c", "from hypercobalt.cli import main; main()", "ovs-agent"),
        *("--kubeconfig", str(kubeconfig), "--node", NODE, "--namespace", NAMESPACE),
        *("--ovs-rundir", str(paths.ovs), "--ovn-rundir", str(paths.ovn)),
        *("--host-root", str(paths.root), "--metrics-bind-address", "127.0.0.1:0"),
        *("--no-metrics-secure", "--counters", f"{counters}", "--health-probe-bind-address", "0"),
    )
    async with started(*command) as process:
        lines = await lines_until(process, "lease_acquired")
        *_, port = (line["port"] for line in lines if line["event"] == "endpoints_opened")
        reading = asyncio.create_task(drain(process))
        try:
            yield process, f"http://127.0.0.1:{port}/metrics"
        finally:
            reading.cancel()
            await asyncio.wait([reading])


async def drain(process: Process) -> None:
    assert process.stderr is not None
    while await process.stderr.readline():
        pass


async def written(kubeconfig: Path, seconds: float) -> int:
    """How often the OVSNode is written in that time."""
    async with (
        Kube(load_connection(kubeconfig)) as kube,
        kube.watch(OVSNode, fields=f"metadata.name={NODE}") as events,
    ):
        found = -1  # the object as it is comes first
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                async for event in events:
                    found += event.object is not None
        return found


async def scrape(url: str, pid: int, flows: int, seconds: float) -> list[tuple[float, float]]:
    """Read the metrics now and then, and return milliseconds and CPU of each time."""
    found: list[tuple[float, float]] = []
    end = time.monotonic() + seconds
    async with httpx2.AsyncClient(timeout=30) as client:
        while time.monotonic() < end:
            began, ran = time.monotonic(), 1000 * cpu_seconds(pid)
            page = (await client.get(url)).raise_for_status().text
            found.append((1000 * (time.monotonic() - began), 1000 * cpu_seconds(pid) - ran))
            assert f'ovs_vswitchd_bridge_flows_total{{bridge="br-int"}} {flows:.1f}' in page
            await asyncio.sleep(SCRAPES)  # as Prometheus does
    return found


async def measure(
    daemons: Daemons,
    kubeconfig: Path,
    cgroup: Path | None,
    ports: int,
    seconds: float,
    *,
    idle: bool,
) -> Result:
    loop, vswitchd = asyncio.get_running_loop(), daemons.pid(VSWITCHD)
    probed = (str(daemons.control(VSWITCHD)), vswitchd, seconds)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        begun = 1000 * cpu_seconds(vswitchd)
        without = await loop.run_in_executor(pool, probe, *probed)
        switch_without = (1000 * cpu_seconds(vswitchd) - begun) / seconds / 10
        async with Kube(load_connection(kubeconfig)) as kube:
            await kube.create(Namespace(metadata=ObjectMeta(name=NAMESPACE)))
        async with (
            Kube(load_connection(kubeconfig)) as kube,
            agent(kubeconfig, daemons, cgroup, 300 if idle else 30) as (process, url),
        ):
            flows = total(await follow(kube, OVSNode, NODE, is_read, seconds=READY))
            begun, own, start = (
                1000 * cpu_seconds(vswitchd),
                1000 * cpu_seconds(process.pid),
                time.monotonic(),
            )
            felt, scrapes, writes = await asyncio.gather(
                loop.run_in_executor(pool, probe, *probed),
                scrape(url, process.pid, flows, 0 if idle else seconds),
                written(kubeconfig, seconds),
            )
            took = time.monotonic() - start
            result = Result(
                ports,
                flows,
                os.getloadavg()[1],
                memory_mib(process.pid),
                memory_mib(process.pid, "VmHWM"),
                memory_mib(process.pid, "RssAnon"),
                peak_of(cgroup),
                (1000 * cpu_seconds(process.pid) - own) / took / 10,
                scrapes,
                writes,
                (switch_without, (1000 * cpu_seconds(vswitchd) - begun) / took / 10),
                without,
                felt,
                traces(daemons, ports),
            )
            assert await stopped(process) == 0
    return result


def total(node: OVSNode) -> int:
    return (node.status.flowStats.totalFlows or 0) if node.status.flowStats else 0


def is_read(node: OVSNode) -> bool:
    """Whether counters of flows and ports are there."""
    return bool(total(node)) and node.status.metrics is not None


def rows(found: Result) -> list[tuple[str, str]]:
    scraped, of_cpu = (
        f"{statistics.median(one):.0f} / {max(one):.0f} ms" if one else "none"
        for one in ([each[place] for each in found.scrapes] for place in (0, 1))
    )
    peak = "no cgroup" if found.cgroup_peak is None else f"{found.cgroup_peak:.1f} MiB"
    before, after = found.switch_cpu_percent
    felt = (("without the agent", found.without), ("with it", found.with_agent))
    return [
        ("ports / flows / load", f"{found.ports} / {found.flows} / {found.load:.1f}"),
        ("resident now / at most", f"{found.resident:.1f} / {found.resident_peak:.1f} MiB"),
        ("- its own pages", f"{found.anonymous:.1f} MiB"),
        ("cgroup of 128 MiB at most", peak),
        ("CPU of the agent, of a core", f"{found.cpu_percent:.2f} %"),
        ("writes of the OVSNode", f"{found.writes}"),
        ("CPU of ovs-vswitchd without / with it", f"{before:.2f} / {after:.2f} %"),
        ("a scrape, p50 / worst", scraped),
        (
            "a trace of a suspect, main thread of ovs-vswitchd, p50 / worst",
            f"{statistics.median(found.traced):.2f} / {max(found.traced):.2f} ms",
        ),
        ("- its CPU of the agent, p50 / worst", of_cpu),
        *(
            (
                f"switch busy before an answer {name}, p99.9 / worst",
                f"{one.busy_p999:.1f} / {one.busy_worst:.1f} ms",
            )
            for name, one in felt
        ),
        *(
            (
                f"its answer {name}, p50 / worst",
                f"{one.latency_p50:.2f} / {one.latency_worst:.1f} ms",
            )
            for name, one in felt
        ),
    ]


async def main() -> None:
    """Measure, print, and write the file."""
    parser = arguments(__doc__)
    parser.add_argument("--ports", type=int, default=200)
    parser.add_argument("--flows", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--idle", action="store_true")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ovs-"))  # a socket's path has 107 characters at most
    daemons = Daemons(folder)
    (folder / "ovn").mkdir()
    central = Central(folder / "ovn", daemons)
    try:
        daemons.create()
        central.create()
        central.join()
        fill(daemons, options.flows)
        plug(central, options.ports)
        with memory_cgroup() as cgroup, empty_server() as kubeconfig:
            found = await measure(
                daemons, kubeconfig, cgroup, options.ports, options.seconds, idle=options.idle
            )
    finally:
        central.close()
        daemons.close()
        shutil.rmtree(folder)
    print(table(("figure", "value"), rows(found)))
    report(options.json, asdict(found))


if __name__ == "__main__":
    asyncio.run(main())
