"""`python -m hypercobalt.ovs_agent DESCRIPTOR`: the process that stays on every host."""

from __future__ import annotations

import sys

from hypercobalt.ovs_agent import agent
from hypercobalt.ovs_agent.real import real_switch
from hypercobalt.ovs_agent.settings import OVSAgentSettings
from hypercobalt.runtime import load_connection
from hypercobalt.runtime.process import main


async def run(settings: OVSAgentSettings) -> None:
    """Run the agent of this host.

    Raises:
        ConfigurationError: a setting or the kubeconfig cannot be used.
    """
    await agent.run(settings, load_connection(settings.kubeconfig), real_switch(settings))


if __name__ == "__main__":
    sys.exit(main(OVSAgentSettings, run))
