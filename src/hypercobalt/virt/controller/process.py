"""virt-controller's process: its settings, passed on by the command line, and what runs in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Final

from hypercobalt.launch import ProcessSettings
from hypercobalt.runtime import Election, load_connection, process_identity
from hypercobalt.runtime.process import managed
from hypercobalt.virt.controller.assembly import add_controller
from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.pod import launcher_pod

COMPONENT: Final = "virt-controller"
LEASE: Final = COMPONENT
"""Name of the Lease of the election, in the namespace of the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtControllerSettings(ProcessSettings):
    """Settings that the command line passes to the process; they hold no secret.

    Args:
        cluster: settings of KubeVirt.
        leader_elect: one of several processes is active.
    """

    cluster: ClusterConfig
    leader_elect: bool


async def run(settings: VirtControllerSettings) -> None:
    """Run the controller until it has to stop.

    Raises:
        ConfigurationError: the kubeconfig or an address cannot be used.
    """
    agent = f"{COMPONENT}/{version('hypercobalt')}"
    connection = load_connection(settings.kubeconfig)
    election = Election(LEASE, connection.namespace, process_identity())
    candidate = election if settings.leader_elect else None
    async with managed(settings, connection, agent, election=candidate) as manager:
        add_controller(manager, partial(launcher_pod, cluster=settings.cluster))
        await manager.run()
