"""`cobalt ovs-agent`: the agent of Open vSwitch on one host."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from hypercobalt.agent.launch import become
from hypercobalt.cli.common_flags import LogFlags, version_line
from hypercobalt.errors import HypercobaltError
from hypercobalt.ovs_agent.settings import settings

COMPONENT: Final = "hypercobalt-ovs-agent"

_LOG = LogFlags()


def ovs_agent(
    *,
    kubeconfig: Path | None = None,
    node: str | None = None,
    namespace: str | None = None,
    ovs_rundir: Path | None = None,
    ovn_rundir: Path | None = None,
    host_root: Path = Path("/"),
    counters: Annotated[float, Parameter(name="--counters")] = 300,
    southbound_probe: Annotated[float, Parameter(name="--southbound-probe")] = 10,
    metrics_bind_address: str = ":9178",
    metrics_secure: bool = True,
    health_probe_bind_address: str = ":8082",
    log: LogFlags = _LOG,
    version: bool = False,
) -> int:
    """Watch Open vSwitch and OVN on one host, and keep its OVSNode current.

    Parameters
    ----------
    kubeconfig
        As kubectl's; else $KUBECONFIG, the pod's service account, ~/.kube/config.
    node
        Name of the Node and the OVSNode; else NODE_NAME, else HOSTNAME, else the system's host
        name.
    namespace
        Of the OVSNode and the Lease; else NAMESPACE, else ovn-system.
    ovs_rundir
        Run directory of ovsdb-server and ovs-vswitchd; else OVS_RUNDIR, else /run/openvswitch.
    ovn_rundir
        Run directory of ovn-controller; else OVN_RUNDIR, else /run/ovn.
    host_root
        What /proc and /sys are below; in a container without the host's, where they are mounted.
    counters
        Seconds between two writes of counters to an OVSNode in which nothing else changes, at
        least 10. Live ones are in /metrics.
    southbound_probe
        Seconds between two probes of the southbound database, at least 1; 0 for none, and then a
        database that hangs and late flows go unnoticed.
    metrics_bind_address
        HOST:PORT of /metrics; :PORT for all addresses, 0 for none.
    metrics_secure
        Serve /metrics over TLS, to users that the API server authorizes.
    health_probe_bind_address
        HOST:PORT of /healthz and /readyz; :PORT for all addresses, 0 for none.
    version
        Print the version and exit.
    """
    if version:
        print(version_line(COMPONENT))
        return 0
    try:
        parsed = settings(
            os.environ,
            hostname=socket.gethostname(),
            node=node,
            namespace=namespace,
            kubeconfig=kubeconfig,
            ovs_rundir=ovs_rundir,
            ovn_rundir=ovn_rundir,
            host_root=host_root,
            counters=counters,
            southbound_probe=southbound_probe,
            metrics=metrics_bind_address,
            metrics_secure=metrics_secure,
            health=health_probe_bind_address,
            log_level=log.level(),
            log_text=log.as_text(),
        )
    except HypercobaltError as error:
        print(f"cobalt ovs-agent: {error}", file=sys.stderr)
        return 2
    return become("hypercobalt.ovs_agent", parsed)
