"""Our agents in the hosts, as systemd services.

Source: systemd.service(5).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from hypercobalt.lab import rights, tokens
from hypercobalt.lab.commands import execute
from hypercobalt.lab.control import ControlPlane
from hypercobalt.lab.host import Host

KUBECONFIG: Final = "/etc/hypercobalt/kubeconfig"
"""In a host: the kubeconfig of its agents, readable by root only; their token is beside it."""
NAMESPACE: Final = rights.NAMESPACE
"""Where the agents keep Migrations, so that a plain `kubectl get migrations` shows them."""
STATE: Final = "/var/lib/hypercobalt"
"""In a host: what its agent remembers over a restart."""
NODE_AGENT: Final = "hypercobalt-node-agent.service"
_UNIT_FILE: Final = f"/etc/systemd/system/{NODE_AGENT}"

_UNIT = """\
[Unit]
Description=hypercobalt node agent
After=dbus.service network.target
StartLimitIntervalSec=0

[Service]
ExecStart={cobalt} node-agent --kubeconfig {kubeconfig} --node {node} \\
    --libvirt-uri {libvirt} --namespace {namespace} --store-definitions \\
    --state-dir {state}
Restart=always
RestartSec=1

[Install]
WantedBy=multi-user.target
"""


def node_agent_unit(cobalt: Path, node: str) -> str:
    """The unit file of the node agent on a host."""
    return _UNIT.format(
        cobalt=cobalt,
        kubeconfig=KUBECONFIG,
        node=node,
        libvirt="qemu+tcp://127.0.0.1/system",
        namespace=NAMESPACE,
        state=STATE,
    )


def cobalt_command() -> Path:
    """The `cobalt` of this installation; the hosts see it by the same path."""
    return Path(sys.executable).parent / "cobalt"


async def node_agent_exists() -> bool:
    """Whether this installation has the command.

    Raises:
        CommandError: `cobalt` cannot be started.
    """
    done = await execute((str(cobalt_command()), "node-agent", "--help"))
    return done.code == 0


def installed(host: Host) -> bool:
    """Whether the host has had an agent since it was made."""
    return bool(host.disk.read(_UNIT_FILE))


async def install(host: Host, control: ControlPlane) -> None:
    """Write the agent's files and start it; one that runs is left alone.

    Raises:
        LabError: the host is off, the API server has never run, or the unit does not start.
        HypercobaltError: the API server gives no token; the host has no Node.
    """
    kubeconfig = control.kubeconfig_with(Path(tokens.IN_HOST).name)
    host.disk.write(KUBECONFIG, kubeconfig, mode=0o600)
    async with control.client() as kube:
        await tokens.give_agent(kube, host.name, host.disk)
    host.disk.write(_UNIT_FILE, node_agent_unit(cobalt_command(), host.name))
    await host.run("systemctl", "daemon-reload")
    await host.run("systemctl", "enable", "--quiet", "--now", NODE_AGENT)
