"""An agent with a capture that does not end, and a person's command that reads it.

usage: python -m tests.integration.agent.capturing_agent agent|person KUBECONFIG
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.contracts.agent_access import NODE, Engine, agent

from hypercobalt.api.ovsnode import OVSNode
from hypercobalt.cli import agents, api_command
from hypercobalt.runtime import Kube, load_connection


def show(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def serve(kubeconfig: Path) -> int:
    engine = Engine()
    async with Kube(load_connection(kubeconfig)) as kube, agent(kube, engine):
        show("serving")
        await engine.closed.wait()
        show("closed")
        await asyncio.Event().wait()
    return 0


async def read(kubeconfig: Path) -> int:
    use = agents.opened(OVSNode, NODE, "capture", {}, method="POST", kubeconfig=kubeconfig)
    async with use as reply:
        async for chunk in reply.chunks:
            show(chunk.decode())
    return 0


if __name__ == "__main__":
    role, file = sys.argv[1], Path(sys.argv[2])
    sys.exit(api_command.run("capture", serve(file) if role == "agent" else read(file)))
