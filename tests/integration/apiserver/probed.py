"""Run an embedded server in this process, and measure how long its loop is held by one turn.

    python probed.py DATA TOKENS

Prints the URL; at SIGTERM the longest turn, in milliseconds of this thread's CPU: other programs on
the machine do not count.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import msgspec
import uvloop

from hypercobalt.api import crd
from hypercobalt.apiserver.server import Server, ServerOptions, run
from hypercobalt.runtime.memory import bound_memory

TICK = 0.01  # seconds


class Probe:
    """Looks every TICK at what the loop's thread has used since."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._last = time.thread_time()
        self._loop = asyncio.get_running_loop()
        self._look()

    def _look(self) -> None:
        now = time.thread_time()
        self.longest = max(self.longest, now - self._last - TICK)
        self._last = now
        self._loop.call_later(TICK, self._look)


async def main(data: Path, tokens: Path) -> None:
    probes: list[Probe] = []

    async def ready(server: Server) -> None:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        probes.append(Probe())

    manifests = tuple(msgspec.json.encode(crd.manifest(kind)) for kind in crd.KINDS)
    await run(ServerOptions(data, port=0, token_auth_file=tokens, manifests=manifests), ready)
    sys.stdout.write(f"{probes[0].longest * 1000}\n")


if __name__ == "__main__":
    bound_memory()
    uvloop.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
