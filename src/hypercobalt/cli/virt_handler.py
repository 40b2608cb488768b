"""`cobalt virt-handler`: the guests of one node."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cyclopts import Parameter

from hypercobalt.agent.launch import become
from hypercobalt.agent.settings import LEASE, lease_duration
from hypercobalt.api.address import parse_address
from hypercobalt.api.names import namespace_name, node_name
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
from hypercobalt.cli.start import start
from hypercobalt.kubeconfig import load as load_connection
from hypercobalt.virt.handler.settings import (
    CAPABILITIES,
    COMPONENT,
    DEFAULT_NAMESPACE,
    PODS,
    VirtHandlerSettings,
)

_LOG: Final = LogFlags()


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class VirtHandlerFlags:
    """What one virt-handler does; the environment counts where a flag is not given.

    Parameters
    ----------
    node
        Name of the Node; else NODE_NAME, else HOSTNAME, else the system's host name.
    namespace
        Of the Lease, and of virt-api's service account, which names persons; else NAMESPACE, else
        kubevirt.
    lease_duration
        How long the Lease lasts without a renewal, 8 to 600 s; it is renewed four times in that.
    pods_dir
        Directory in which the kubelet of the node has a directory for each pod.
    capabilities
        Directory of libvirt's capability cache, from which the Node's labels of machine types and
        CPU models are made; empty leaves those labels as they are.
    use_emulation
        Guests run without KVM; must be the same for all processes of KubeVirt.
    """

    kubeconfig: Kubeconfig = None
    node: str | None = None
    namespace: str | None = None
    lease_duration: Span = LEASE
    pods_dir: Path = PODS
    capabilities: str = str(CAPABILITIES)
    use_emulation: bool = False
    metrics_bind_address: MetricsAddress = "0"
    metrics_secure: MetricsSecure = True
    health_probe_bind_address: HealthAddress = ":8083"
    diagnostics_bind_address: DiagnosticsAddress = "0"

    def settings(
        self, env: Mapping[str, str], hostname: str, log: LogFlags = _LOG
    ) -> VirtHandlerSettings:
        """Put flags and environment together.

        Raises:
            ConfigurationError: a value of a flag or a variable cannot be used.
        """
        node = self.node or env.get("NODE_NAME") or env.get("HOSTNAME") or hostname
        namespace = self.namespace or env.get("NAMESPACE") or DEFAULT_NAMESPACE
        made = VirtHandlerSettings(
            node=node_name("--node", node),
            namespace=namespace_name("--namespace", namespace),
            lease=lease_duration(self.lease_duration),
            kubeconfig=self.kubeconfig,
            pods=self.pods_dir,
            emulation=self.use_emulation,
            capabilities=Path(self.capabilities) if self.capabilities else None,
            metrics=parse_address("--metrics-bind-address", self.metrics_bind_address),
            metrics_secure=self.metrics_secure,
            health=parse_address("--health-probe-bind-address", self.health_probe_bind_address),
            diagnostics=parse_address("--diagnostics-bind-address", self.diagnostics_bind_address),
            host_address=env.get("HOST_IP_ADDRESS", ""),
            log_level=log.level(),
            log_text=log.as_text(),
        )
        load_connection(self.kubeconfig)  # one that cannot be used is refused here
        return made


_FLAGS: Final = VirtHandlerFlags()


def virt_handler(
    *, flags: VirtHandlerFlags = _FLAGS, log: LogFlags = _LOG, version: Version = False
) -> int:
    """Run the guests of one node's VirtualMachineInstances, from their hand-over to their end."""
    return start(
        COMPONENT,
        "hypercobalt.virt.handler",
        lambda: flags.settings(os.environ, socket.gethostname(), log),
        version=version,
        become=become,
    )
