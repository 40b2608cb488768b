"""A process with the pages of an agent, whose memory shows what its clients cost.

It prints the port of each, then serves until its standard input ends.
"""

from __future__ import annotations

import asyncio
import sys

from hypercobalt.agent.diagnostics.listener import ListenerTls
from hypercobalt.api.address import Address
from hypercobalt.launch import own_certificate
from hypercobalt.runtime.endpoints import Endpoints, Guard
from hypercobalt.runtime.memory import bound_memory
from hypercobalt.runtime.routes import Answer, Request, Requester, Route


async def _admits(request: Request, _: Route | None) -> Requester | Answer:
    return Requester("jane") if request.token == "jane" else Answer(401)


async def _serve() -> None:
    plain = Endpoints(Address(port=0), healthy={})
    guard = Guard(ListenerTls(own_certificate()).context, _admits)
    guarded = Endpoints(Address(port=0), healthy={}, guard=guard)
    ports = [(await pages.start()).port for pages in (plain, guarded)]
    print(*ports, flush=True)  # noqa: T201 - read by the test
    await asyncio.to_thread(sys.stdin.read)
    for pages in (plain, guarded):
        await pages.stop()


if __name__ == "__main__":
    bound_memory()
    asyncio.run(_serve())
