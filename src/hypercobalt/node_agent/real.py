"""The real host of an agent."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from hypercobalt.adapters.host.boot import this_boot
from hypercobalt.adapters.host.pods import SystemdPods
from hypercobalt.adapters.host.shutdown import LogindShutdown
from hypercobalt.adapters.host.system import HostSystem
from hypercobalt.adapters.host.units import SystemdUnits
from hypercobalt.adapters.libvirt.connection import connect
from hypercobalt.node_agent.agent import Host
from hypercobalt.node_agent.settings import NodeAgentSettings


@asynccontextmanager
async def real_host(settings: NodeAgentSettings) -> AsyncGenerator[Host]:
    """Connect to the host's libvirt and services; they connect again by themselves.

    Raises:
        ConfigurationError: the libvirt URI cannot be used.
    """
    async with connect(settings.libvirt_uri) as libvirt:
        system = HostSystem(root=settings.host_root)
        yield Host(libvirt, SystemdUnits(), LogindShutdown(), system, this_boot(), SystemdPods())
