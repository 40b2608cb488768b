"""`python -m hypercobalt.ovs_agent SETTINGS`: the process that stays on every host."""

from __future__ import annotations

import sys

from hypercobalt.agent.process import main
from hypercobalt.ovs_agent import agent
from hypercobalt.ovs_agent.real import real_switch
from hypercobalt.ovs_agent.settings import Settings
from hypercobalt.runtime import load_connection


async def run(settings: Settings) -> None:
    """Run the agent of this host.

    Raises:
        ConfigurationError: a setting or the kubeconfig cannot be used.
    """
    await agent.run(settings, load_connection(settings.kubeconfig), real_switch(settings))


if __name__ == "__main__":
    sys.exit(main(Settings, run))
