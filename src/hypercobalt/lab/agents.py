"""Our agents in the hosts, as systemd services.

Source: systemd.service(5).
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Final

from hypercobalt.agent.settings import LEASE
from hypercobalt.lab import rights, services, tokens
from hypercobalt.lab.commands import cobalt_command
from hypercobalt.lab.control import ControlPlane
from hypercobalt.lab.host import Host
from hypercobalt.lab.state import LabState

KUBECONFIG: Final = "/etc/hypercobalt/kubeconfig"
"""In a host: the kubeconfig of its node agent, readable by root only; its token is beside it."""
OVS_KUBECONFIG: Final = "/etc/hypercobalt/ovs-agent/kubeconfig"
"""In a host: the same for its OVS agent, which has rights of its own."""
NAMESPACE: Final = rights.NAMESPACE
"""Where the node agents keep Migrations, so that a plain `kubectl get migrations` shows them."""
STATE: Final = "/var/lib/hypercobalt"
"""In a host: what its agent remembers over a restart."""
NODE_AGENT: Final = "hypercobalt-node-agent.service"
OVS_AGENT: Final = "hypercobalt-ovs-agent.service"
NODE_DIAGNOSTICS: Final = 9187
OVS_DIAGNOSTICS: Final = 9188
"""Ports at which people are served, as with the charts."""
SHORT_LEASE: Final = timedelta(seconds=16)
"""Where Nodes are soon Unknown; not shorter: a busy machine may hold up an agent for seconds."""

_UNIT = """\
[Unit]
Description={description}
After={after}
StartLimitIntervalSec=0

[Service]
ExecStart={command}
Restart=always
RestartSec=1

[Install]
WantedBy=multi-user.target
"""


def lease_of(state: LabState) -> timedelta:
    """How long the Leases of a lab's agents last.

    As at a site where there is an OpenStack: Nova has to miss a host before its agent's Lease ends.
    """
    return SHORT_LEASE if state.is_quick and not state.openstack else LEASE


def node_agent_unit(
    cobalt: Path, node: str, *, definitions: bool = True, lease: timedelta = LEASE
) -> str:
    """The unit file of the node agent on a host.

    Args:
        cobalt: the program.
        node: name of the host's Node.
        definitions: whether the agent stores the definitions of domains, for `--compute direct`.
        lease: how long its Lease lasts.
    """
    stored = " --store-definitions" if definitions else ""
    flags = (
        f"{cobalt} node-agent --kubeconfig {KUBECONFIG} --node {node}",
        f"--libvirt-uri qemu+tcp://127.0.0.1/system --namespace {NAMESPACE}{stored}",
        f"--state-dir {STATE} --diagnostics-bind-address=:{NODE_DIAGNOSTICS}",
        *_lasting(lease),
    )
    after = "dbus.service network.target"
    return unit("hypercobalt node agent", after, flags)


def ovs_agent_unit(cobalt: Path, node: str, *, lease: timedelta = LEASE) -> str:
    """The unit file of the OVS agent on a host."""
    flags = (
        f"{cobalt} ovs-agent --kubeconfig {OVS_KUBECONFIG} --node {node}",
        f"--namespace {rights.OVS_NAMESPACE} --diagnostics-bind-address=:{OVS_DIAGNOSTICS}",
        *_lasting(lease),
    )
    after = "openvswitch-switch.service network.target"
    return unit("hypercobalt OVS agent", after, flags)


def _lasting(lease: timedelta) -> tuple[str, ...]:
    return () if lease == LEASE else (f"--lease-duration {lease.total_seconds():g}s",)


def unit(description: str, after: str, flags: tuple[str, ...]) -> str:
    """The unit file of an agent, which is started again when it ends.

    Args:
        description: for people.
        after: units that are started before it.
        flags: words of the command, by lines.
    """
    command = " \\\n    ".join(flags)
    return _UNIT.format(description=description, after=after, command=command)


def installed(host: Host) -> bool:
    """Whether the host has had an agent since it was made."""
    return bool(host.disk.read(f"{services.UNITS}/{NODE_AGENT}"))


async def install(
    host: Host,
    control: ControlPlane,
    *,
    ovs: bool,
    definitions: bool = True,
    lease: timedelta = LEASE,
) -> None:
    """Write the agents' files and start them; one that runs is left alone.

    Args:
        host: which.
        control: where they report.
        ovs: the OVS agent, too: OVN is there for it to report.
        definitions: the node agent stores the definitions of domains.
        lease: how long the agents' Leases last.

    Raises:
        LabError: the host is off, the API server has never run, or a unit does not start.
        HypercobaltError: the API server gives no token; the host has no Node.
    """
    cobalt, disk = cobalt_command(), host.disk
    node_agent = node_agent_unit(cobalt, host.name, definitions=definitions, lease=lease)
    units = {NODE_AGENT: node_agent}
    given = {KUBECONFIG: tokens.OF_NODE_AGENT}
    if ovs:
        units[OVS_AGENT] = ovs_agent_unit(cobalt, host.name, lease=lease)
        given[OVS_KUBECONFIG] = tokens.OF_OVS_AGENT
    async with control.client() as kube:
        for kubeconfig, token in given.items():
            disk.write(kubeconfig, control.kubeconfig_with(Path(token).name), mode=0o600)
            await tokens.give_agent(kube, host.name, disk, token)
    await services.install(host, units)
