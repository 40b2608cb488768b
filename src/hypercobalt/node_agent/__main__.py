"""`python -m hypercobalt.node_agent DESCRIPTOR`: the process that stays on every host."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack

from hypercobalt.node_agent import agent
from hypercobalt.node_agent.settings import NodeAgentSettings
from hypercobalt.runtime import load_connection
from hypercobalt.runtime.process import main


async def run(settings: NodeAgentSettings) -> None:
    """Run the agent on its real host, or on an emulated one.

    Raises:
        ConfigurationError: a setting or the kubeconfig cannot be used.
    """
    connection = load_connection(settings.kubeconfig)
    async with AsyncExitStack() as stack:
        # Imported here: the real one needs libvirt's library, the emulated one needs fakes.
        if settings.emulate:
            from hypercobalt.node_agent.emulated import emulated_host  # noqa: PLC0415

            host = emulated_host()
        else:
            from hypercobalt.node_agent.real import real_host  # noqa: PLC0415

            host = await stack.enter_async_context(real_host(settings))
        await agent.run(settings, connection, host)


if __name__ == "__main__":
    sys.exit(main(NodeAgentSettings, run))
