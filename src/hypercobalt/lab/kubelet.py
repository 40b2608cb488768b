"""The stand-in for the kubelet, installed in a host: its credentials and its systemd service.

Source: systemd.service(5).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from hypercobalt.lab import heartbeat, services
from hypercobalt.lab.control import ControlPlane
from hypercobalt.lab.host import Host
from hypercobalt.lab.state import NODE_GRACE

CREDENTIALS: Final = "/etc/hypercobalt/kubelet"
"""In a host: a client certificate for `system:node:NAME`, readable by root only."""
SERVICE: Final = "hypercobalt-heartbeat.service"

_UNIT = """\
[Unit]
Description=heartbeat of this host's Node, for the kubelet that the lab does not run
After=network.target
StartLimitIntervalSec=0

[Service]
ExecStart={python} -m hypercobalt.lab.heartbeat --server {server} --credentials {credentials} \\
    --node {host.name} --node-ip {host.address} --system-uuid {host.identity.uuid} \\
    --interval {interval:g} --pods {pods}
Restart=always
RestartSec=1

[Install]
WantedBy=multi-user.target
"""


def unit(host: Host, server: str, grace: timedelta = NODE_GRACE, pods: int = 0) -> str:
    """The unit file of a host's heartbeat, which renews five times within the grace period.

    Args:
        host: which.
        server: URL of the API server.
        grace: how long its Node may be silent.
        pods: how many the host can have; with none it reports no capacity.
    """
    return _UNIT.format(
        python=sys.executable,
        server=server,
        credentials=CREDENTIALS,
        host=host,
        interval=grace.total_seconds() / 5,
        pods=pods,
    )


async def report(host: Host, troubles: Iterable[heartbeat.Trouble]) -> None:
    """Have the kubelet of a host report these troubles from now on, and no others.

    Raises:
        LabError: the host is off.
    """
    host.disk.write(heartbeat.TROUBLES, "".join(f"{trouble}\n" for trouble in troubles))
    await host.run("systemctl", "try-restart", SERVICE)  # at once, not at the next renewal


async def install(
    host: Host, control: ControlPlane, grace: timedelta = NODE_GRACE, *, pods: int = 0
) -> None:
    """Write the heartbeat's files and start it; one that runs is left alone.

    Args:
        host: which.
        control: where it reports.
        grace: how long its Node may be silent.
        pods: how many it can have.

    Raises:
        LabError: the host is off, the API server has never run, or the unit does not start.
    """
    authority = control.authority.certificate
    if host.disk.read(f"{CREDENTIALS}/{heartbeat.CA}") != authority:
        client = await asyncio.to_thread(control.node_certificate, host.name)
        for file, content in (
            (heartbeat.KEY, client.key),
            (heartbeat.CERTIFICATE, client.certificate),
            (heartbeat.CA, authority),  # last: then the others are there
        ):
            host.disk.write(f"{CREDENTIALS}/{file}", content, mode=0o600)
    await services.install(host, {SERVICE: unit(host, control.url, grace, pods)})
