"""Settings of an OVS agent: flags first, then the environment. Pure."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from hypercobalt.adapters.ovs.model import Paths
from hypercobalt.agent.settings import LEASE, AgentSettings, lease_duration
from hypercobalt.api.address import parse_address
from hypercobalt.api.names import namespace_name, node_name
from hypercobalt.errors import ConfigurationError

DEFAULT_NAMESPACE: Final = "ovn-system"
DEFAULT_COUNTERS: Final = timedelta(minutes=5)
SHORTEST_COUNTERS: Final = timedelta(seconds=10)
LONGEST: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Settings(AgentSettings):
    """One OVS agent.

    Args:
        namespace: of the OVSNode and the Lease.
        ovs_rundir: run directory of Open vSwitch.
        ovn_rundir: run directory of ovn-controller.
        host_root: what `/proc` and `/sys` are below.
        counters: how often counters are written to an OVSNode that changes in nothing else.
        southbound_probe: how often the agent itself probes the southbound database; 0: never.
        capture_by_mirror: capture on ports without a network device by a mirror, which changes the
            bridge.
        table_metrics: have `/metrics` show flows by table.
    """

    _: KW_ONLY
    namespace: str = DEFAULT_NAMESPACE
    ovs_rundir: Path = Paths().ovs
    ovn_rundir: Path = Paths().ovn
    host_root: Path = Path("/")
    counters: timedelta = DEFAULT_COUNTERS
    southbound_probe: timedelta = timedelta(seconds=10)
    capture_by_mirror: bool = False
    table_metrics: bool = False

    @property
    def paths(self) -> Paths:
        """Where the host keeps what is read."""
        return Paths(self.ovs_rundir, self.ovn_rundir, self.host_root)


def settings(
    env: Mapping[str, str],
    *,
    hostname: str,
    node: str | None = None,
    namespace: str | None = None,
    lease: timedelta = LEASE,
    kubeconfig: Path | None = None,
    ovs_rundir: Path | None = None,
    ovn_rundir: Path | None = None,
    host_root: Path = Path("/"),
    counters: float = DEFAULT_COUNTERS.total_seconds(),
    southbound_probe: float = 10.0,
    capture_by_mirror: bool = False,
    table_metrics: bool = False,
    metrics: str = "0",
    metrics_secure: bool = False,
    health: str = "0",
    diagnostics: str = "0",
    log_level: int = logging.INFO,
    log_text: bool | None = None,
) -> Settings:
    """Put flags and environment together; a flag that is given goes first.

    The arguments are those of `Settings`, None where a flag is not given, times in seconds;
    `metrics`, `health` and `diagnostics` are addresses as `HOST:PORT` or `:PORT`, `0` for none.
    OVS_RUNDIR and OVN_RUNDIR count as they do for the daemons.

    Raises:
        ConfigurationError: a name, an address or a time cannot be used.
    """
    if not SHORTEST_COUNTERS.total_seconds() <= counters <= LONGEST.total_seconds():
        raise ConfigurationError(
            f"--counters {counters:g}: must be {SHORTEST_COUNTERS.seconds} s or longer, up to a day"
        )
    if southbound_probe and not 1 <= southbound_probe <= LONGEST.total_seconds():
        raise ConfigurationError(
            f"--southbound-probe {southbound_probe:g}: must be 0 for never, or 1 s or longer, up "
            "to a day"
        )
    return Settings(
        node=node_name("--node", node or env.get("NODE_NAME") or env.get("HOSTNAME") or hostname),
        namespace=namespace_name(
            "--namespace", namespace or env.get("NAMESPACE") or DEFAULT_NAMESPACE
        ),
        lease=lease_duration(lease),
        kubeconfig=kubeconfig,
        ovs_rundir=ovs_rundir or Path(env.get("OVS_RUNDIR") or Paths().ovs),
        ovn_rundir=ovn_rundir or Path(env.get("OVN_RUNDIR") or Paths().ovn),
        host_root=host_root,
        counters=timedelta(seconds=counters),
        southbound_probe=timedelta(seconds=southbound_probe),
        capture_by_mirror=capture_by_mirror,
        table_metrics=table_metrics,
        metrics=parse_address("--metrics-bind-address", metrics),
        metrics_secure=metrics_secure,
        health=parse_address("--health-probe-bind-address", health),
        diagnostics=parse_address("--diagnostics-bind-address", diagnostics),
        host_address=env.get("HOST_IP_ADDRESS", ""),
        log_level=log_level,
        log_text=log_text,
    )
