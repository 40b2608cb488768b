"""virt-handler in a host, as a systemd service with a token that is bound to the host's Node.

Source: systemd.service(5).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hypercobalt.lab import services, tokens
from hypercobalt.lab.agents import unit
from hypercobalt.lab.commands import cobalt_command
from hypercobalt.lab.control import ControlPlane
from hypercobalt.lab.host import Host
from hypercobalt.lab.pods.rights import VIRT_NAMESPACE
from hypercobalt.lab.pods.running.settings import HANDLER

KUBECONFIG: Final = "/etc/hypercobalt/virt-handler/kubeconfig"
"""In a host: the kubeconfig of its virt-handler, readable by root only; its token is beside it."""
SERVICE: Final = HANDLER
DIAGNOSTICS: Final = 9189
"""Port at which people are served consoles."""


def handler_unit(cobalt: Path, node: str) -> str:
    """The unit file of virt-handler on a host.

    Args:
        cobalt: the program.
        node: name of the host's Node.
    """
    flags = (
        f"{cobalt} virt-handler --kubeconfig {KUBECONFIG} --node {node}",
        f"--namespace {VIRT_NAMESPACE} --use-emulation --health-probe-bind-address=0",
        f"--diagnostics-bind-address=:{DIAGNOSTICS}",
    )
    return unit("hypercobalt virt-handler", "dbus.service network.target", flags)


async def install(host: Host, control: ControlPlane) -> None:
    """Write virt-handler's files and start it; one that runs is left alone.

    Raises:
        LabError: the host is off, or the unit does not start.
        HypercobaltError: the API server gives no token; the host has no Node.
    """
    token = tokens.OF_VIRT_HANDLER
    config = control.kubeconfig_with(Path(token).name, VIRT_NAMESPACE)
    host.disk.write(KUBECONFIG, config, mode=0o600)
    async with control.client() as kube:
        await tokens.give_agent(kube, host.name, host.disk, token)
    await services.install(host, {SERVICE: handler_unit(cobalt_command(), host.name)})
