"""virt-handler's process: the agent of KubeVirt's guests on one node."""

from __future__ import annotations

from hypercobalt.adapters.network.guest_nics import KernelGuestNics
from hypercobalt.agent.process import Agent, managed
from hypercobalt.api.core import Node
from hypercobalt.logs import get_logger
from hypercobalt.runtime import Manager, load_connection
from hypercobalt.runtime.write_cache import Latest
from hypercobalt.virt.handler.assembly import consoles, guests, labels
from hypercobalt.virt.handler.kernel_taps import KernelTaps
from hypercobalt.virt.handler.link import LauncherPlaces
from hypercobalt.virt.handler.settings import COMPONENT, VirtHandlerSettings
from hypercobalt.virt.handler.sockets import CheckPeer, check_peer
from hypercobalt.virt.handler.taps import PodTaps

log = get_logger(__name__)


async def run(settings: VirtHandlerSettings) -> None:
    """Run the handler of one node until SIGTERM or SIGINT.

    Raises:
        ConfigurationError: a setting or the kubeconfig cannot be used.
    """
    connection = load_connection(settings.kubeconfig)
    async with managed(settings, connection, COMPONENT) as manager:
        taps = KernelTaps(KernelGuestNics(), settings.launcher_user)
        register(settings, manager, taps, check_peer)
        log.info("virt_handler_started", node=settings.node, pods=str(settings.pods))
        await manager.run()


def register(
    settings: VirtHandlerSettings, manager: Manager, taps: PodTaps, check: CheckPeer
) -> None:
    """Have the manager run everything of a handler.

    Args:
        settings: of the handler.
        manager: runs it.
        taps: makes the guests' networks.
        check: tells launchers from processes of other pods.
    """
    informer = manager.informer(Node, fields=f"metadata.name={settings.node}")
    node = Latest(informer)
    agent = Agent(COMPONENT, settings, manager, lambda: node.value)
    places = LauncherPlaces(settings.pods, settings.launcher_user, check)
    agent.act("guests", guests(manager, settings.node, places, taps, emulation=settings.emulation))
    node_labels = labels(
        manager, informer, node, settings.capabilities, emulation=settings.emulation
    )
    agent.act("labels", node_labels.run)
    if serve := consoles(manager, settings, places, node_labels.publish):
        agent.act("consoles", serve)
