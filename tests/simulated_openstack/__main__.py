"""A simulated cloud as a process: `python -m tests.simulated_openstack --hosts 1000`.

It writes its addresses as one line of JSON when it is ready. Benchmarks call `/simulated`:
`GET /simulated/calls` how often each kind of call came, `GET /simulated/times` when each came first
(by the machine's monotonic clock), `DELETE /simulated/calls` to begin the counts again.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys

import uvloop

from tests.simulated_openstack.compute.aggregates import make
from tests.simulated_openstack.http import encode
from tests.simulated_openstack.pace import Pace
from tests.simulated_openstack.serve import serve
from tests.simulated_openstack.world import World


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulated_openstack")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--hosts", type=int, default=2, help="named PREFIX0, PREFIX1 …")
    parser.add_argument("--prefix", default="node", help="of their names")
    parser.add_argument("--servers", type=int, default=0, help="on the first host")
    parser.add_argument("--disabled", action="store_true", help="hosts take no servers yet")
    parser.add_argument("--zones", nargs="*", default=[], help="aggregates that are zones")
    parser.add_argument("--aggregates", nargs="*", default=[], help="names of further ones")
    parser.add_argument("--latency", type=float, default=0, help="seconds that each call takes")
    parser.add_argument("--live", type=float, default=2, help="seconds of a live migration")
    parser.add_argument("--boot", type=float, default=2, help="seconds until a server runs")
    return parser.parse_args()


async def _main(arguments: argparse.Namespace) -> None:
    world = World(Pace(live=arguments.live, boot=arguments.boot))
    for number in range(arguments.hosts):
        world.add_host(f"{arguments.prefix}{number}", enabled=not arguments.disabled)
    for _ in range(arguments.servers):
        world.add_server(f"{arguments.prefix}0")
    for zone in arguments.zones:
        make(world, zone, zone)
    for name in arguments.aggregates:
        make(world, name)
    stopped = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stopped.set)
    async with serve(world, port=arguments.port) as simulation:
        simulation.script.latency = arguments.latency
        account = simulation.admin
        shown = {
            "url": simulation.url,
            "auth_url": account.auth_url,
            "user": account.user,
            "password": account.password,
            "project": account.project,
            "region": account.region,
        }
        sys.stdout.write(f"{encode(shown).decode()}\n")
        sys.stdout.flush()
        await stopped.wait()


uvloop.run(_main(_arguments()))
