"""Settings of an OVS agent."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from hypercobalt.adapters.ovs.model import Paths
from hypercobalt.agent.settings import AgentSettings

DEFAULT_NAMESPACE: Final = "ovn-system"
DEFAULT_COUNTERS: Final = timedelta(minutes=5)
DEFAULT_PROBE: Final = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class OVSAgentSettings(AgentSettings):
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
    southbound_probe: timedelta = DEFAULT_PROBE
    capture_by_mirror: bool = False
    table_metrics: bool = False

    @property
    def paths(self) -> Paths:
        """Where the host keeps what is read."""
        return Paths(self.ovs_rundir, self.ovn_rundir, self.host_root)
