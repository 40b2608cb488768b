"""`cobalt ovs-agent`: the agent of Open vSwitch on one host."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from hypercobalt.agent.settings import LEASE
from hypercobalt.cli.agent_start import start
from hypercobalt.cli.common_flags import (
    DiagnosticsAddress,
    HealthAddress,
    Kubeconfig,
    LogFlags,
    MetricsAddress,
    MetricsSecure,
    Span,
    Version,
)
from hypercobalt.ovs_agent.settings import settings

_LOG = LogFlags()


def ovs_agent(
    *,
    kubeconfig: Kubeconfig = None,
    node: str | None = None,
    namespace: str | None = None,
    lease_duration: Span = LEASE,
    ovs_rundir: Path | None = None,
    ovn_rundir: Path | None = None,
    host_root: Path = Path("/"),
    counters: Annotated[float, Parameter(name="--counters")] = 300,
    southbound_probe: Annotated[float, Parameter(name="--southbound-probe")] = 10,
    capture_by_mirror: bool = False,
    table_metrics: bool = False,
    metrics_bind_address: MetricsAddress = ":9178",
    metrics_secure: MetricsSecure = True,
    health_probe_bind_address: HealthAddress = ":8082",
    diagnostics_bind_address: DiagnosticsAddress = "0",
    log: LogFlags = _LOG,
    version: Version = False,
) -> int:
    """Watch Open vSwitch and OVN on one host, and keep its OVSNode current.

    Parameters
    ----------
    node
        Name of the Node and the OVSNode; else NODE_NAME, else HOSTNAME, else the system's host
        name.
    namespace
        Of the OVSNode and the Lease; else NAMESPACE, else ovn-system.
    lease_duration
        How long the agent's Lease lasts without a renewal, 8 to 600 s; it is renewed four times in
        that. The operator counts a host's agent as silent after it, and reads it from the Lease.
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
    capture_by_mirror
        Capture on ports without a network device, such as vhost-user, by a mirror: it changes the
        bridge while the capture lasts.
    table_metrics
        Export flows by table in /metrics, too: some 80 series a host.
    """
    return start(
        "ovs-agent",
        lambda: settings(
            os.environ,
            hostname=socket.gethostname(),
            node=node,
            namespace=namespace,
            lease=lease_duration,
            kubeconfig=kubeconfig,
            ovs_rundir=ovs_rundir,
            ovn_rundir=ovn_rundir,
            host_root=host_root,
            counters=counters,
            southbound_probe=southbound_probe,
            capture_by_mirror=capture_by_mirror,
            table_metrics=table_metrics,
            metrics=metrics_bind_address,
            metrics_secure=metrics_secure,
            health=health_probe_bind_address,
            diagnostics=diagnostics_bind_address,
            log_level=log.level(),
            log_text=log.as_text(),
        ),
        version=version,
    )
