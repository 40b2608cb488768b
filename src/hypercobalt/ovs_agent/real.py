"""The real switch of an agent."""

from __future__ import annotations

from hypercobalt.adapters.ovs.host import HostSwitch
from hypercobalt.adapters.ovs.port import Switch
from hypercobalt.ovs_agent.settings import OVSAgentSettings


def real_switch(settings: OVSAgentSettings) -> Switch:
    """The switch of this host; every call connects by itself."""
    return HostSwitch(settings.paths)
