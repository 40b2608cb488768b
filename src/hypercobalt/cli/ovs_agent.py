"""`cobalt ovs-agent`: the agent of Open vSwitch on one host."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from hypercobalt.adapters.ovs.model import Paths
from hypercobalt.agent.launch import become
from hypercobalt.agent.settings import LEASE, lease_duration
from hypercobalt.api.address import parse_address
from hypercobalt.api.names import namespace_name, node_name
from hypercobalt.cli.common_flags import (
    DiagnosticsAddress,
    HealthAddress,
    Kubeconfig,
    LogFlags,
    MetricsAcceptApiServerTokens,
    MetricsAddress,
    MetricsSecure,
    Span,
    Version,
)
from hypercobalt.cli.start import start
from hypercobalt.errors import ConfigurationError
from hypercobalt.ovs_agent.settings import (
    DEFAULT_COUNTERS,
    DEFAULT_NAMESPACE,
    DEFAULT_PROBE,
    OVSAgentSettings,
)

SHORTEST_COUNTERS: Final = timedelta(seconds=10)
LONGEST: Final = timedelta(days=1)
_LOG = LogFlags()


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class OVSAgentFlags:
    """What one OVS agent does; the environment counts where a flag is not given.

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

    kubeconfig: Kubeconfig = None
    node: str | None = None
    namespace: str | None = None
    lease_duration: Span = LEASE
    ovs_rundir: Path | None = None
    ovn_rundir: Path | None = None
    host_root: Path = Path("/")
    counters: Annotated[float, Parameter(name="--counters")] = DEFAULT_COUNTERS.seconds
    southbound_probe: Annotated[float, Parameter(name="--southbound-probe")] = DEFAULT_PROBE.seconds
    capture_by_mirror: bool = False
    table_metrics: bool = False
    metrics_bind_address: MetricsAddress = ":9178"
    metrics_secure: MetricsSecure = True
    metrics_accept_api_server_tokens: MetricsAcceptApiServerTokens = False
    health_probe_bind_address: HealthAddress = ":8082"
    diagnostics_bind_address: DiagnosticsAddress = "0"

    def settings(
        self, env: Mapping[str, str], hostname: str, log: LogFlags = _LOG
    ) -> OVSAgentSettings:
        """Put flags and environment together.

        The operating system's `hostname` counts when nothing else names the node. OVS_RUNDIR and
        OVN_RUNDIR count as they do for the daemons.

        Raises:
            ConfigurationError: a value of a flag or a variable cannot be used.
        """
        counters, probe = self.counters, self.southbound_probe
        if not SHORTEST_COUNTERS.total_seconds() <= counters <= LONGEST.total_seconds():
            raise ConfigurationError(
                f"--counters {counters:g}: must be {SHORTEST_COUNTERS.seconds} s or longer, up to "
                "a day"
            )
        if probe and not 1 <= probe <= LONGEST.total_seconds():
            raise ConfigurationError(
                f"--southbound-probe {probe:g}: must be 0 for never, or 1 s or longer, up to a day"
            )
        node = self.node or env.get("NODE_NAME") or env.get("HOSTNAME") or hostname
        namespace = self.namespace or env.get("NAMESPACE") or DEFAULT_NAMESPACE
        return OVSAgentSettings(
            node=node_name("--node", node),
            namespace=namespace_name("--namespace", namespace),
            lease=lease_duration(self.lease_duration),
            kubeconfig=self.kubeconfig,
            ovs_rundir=self.ovs_rundir or Path(env.get("OVS_RUNDIR") or Paths().ovs),
            ovn_rundir=self.ovn_rundir or Path(env.get("OVN_RUNDIR") or Paths().ovn),
            host_root=self.host_root,
            counters=timedelta(seconds=counters),
            southbound_probe=timedelta(seconds=probe),
            capture_by_mirror=self.capture_by_mirror,
            table_metrics=self.table_metrics,
            metrics=parse_address("--metrics-bind-address", self.metrics_bind_address),
            metrics_secure=self.metrics_secure,
            metrics_accept_api_server_tokens=self.metrics_accept_api_server_tokens,
            health=parse_address("--health-probe-bind-address", self.health_probe_bind_address),
            diagnostics=parse_address("--diagnostics-bind-address", self.diagnostics_bind_address),
            host_address=env.get("HOST_IP_ADDRESS", ""),
            log_level=log.level(),
            log_text=log.as_text(),
        )


_FLAGS = OVSAgentFlags()


def ovs_agent(
    *, flags: OVSAgentFlags = _FLAGS, log: LogFlags = _LOG, version: Version = False
) -> int:
    """Watch Open vSwitch and OVN on one host, and keep its OVSNode current."""
    return start(
        "hypercobalt-ovs-agent",
        "hypercobalt.ovs_agent",
        lambda: flags.settings(os.environ, socket.gethostname(), log),
        version=version,
        become=become,
    )
