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
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.agent import Host
from hypercobalt.node_agent.settings import NodeAgentSettings

log = get_logger(__name__)


@asynccontextmanager
async def real_host(settings: NodeAgentSettings) -> AsyncGenerator[Host]:
    """Connect to the host's libvirt and services; they connect again by themselves.

    Raises:
        ConfigurationError: the libvirt URI cannot be used.
    """
    async with connect(settings.libvirt_uri) as libvirt:
        system, boot = HostSystem(root=settings.host_root), this_boot()
        if not boot.id:
            log.warning("boot_id_not_read", file="/proc/sys/kernel/random/boot_id")
        yield Host(libvirt, SystemdUnits(), LogindShutdown(), system, boot, SystemdPods())
