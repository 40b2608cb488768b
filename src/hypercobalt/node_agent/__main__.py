"""`python -m hypercobalt.node_agent SETTINGS`: the process that stays on every host.

`cobalt node-agent` reads the command line and becomes this, because what reads command lines would
otherwise stay in memory for good.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack

from hypercobalt import logs
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.node_agent import agent
from hypercobalt.node_agent.settings import Settings, decode_settings
from hypercobalt.runtime import load_connection

log = get_logger(__name__)


async def run(told: Settings) -> None:
    """Run the agent on its real host, or on one that is made up.

    Raises:
        ConfigurationError: a setting or the kubeconfig cannot be used.
    """
    connection = load_connection(told.kubeconfig)
    async with AsyncExitStack() as stack:
        # Imported here: the one needs libvirt's library, the other is for trying things out.
        if told.emulate:
            from hypercobalt.node_agent.emulated import emulated_host  # noqa: PLC0415

            host = emulated_host()
        else:
            from hypercobalt.node_agent.real import real_host  # noqa: PLC0415

            host = await stack.enter_async_context(real_host(told))
        await agent.run(told, connection, host)


def main() -> int:
    """Run with the settings of the one argument."""
    logs.configure()
    try:
        told = decode_settings(sys.argv[1])
        logs.configure(level=told.log_level, text=told.log_text)
        asyncio.run(run(told))
    except HypercobaltError as error:
        log.critical("ending", error=str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
