"""`cobalt virt-controller`: pods of VirtualMachineInstances, and their hand-over to nodes."""

from __future__ import annotations

from hypercobalt.api.address import parse_address
from hypercobalt.cli.common_flags import (
    HealthAddress,
    Kubeconfig,
    LogFlags,
    MetricsAddress,
    MetricsSecure,
    Version,
)
from hypercobalt.cli.start import start
from hypercobalt.cli.virt_flags import VirtFlags
from hypercobalt.kubeconfig import load as load_connection
from hypercobalt.virt.controller.process import (
    COMPONENT,
    VirtControllerSettings,
)

_LOG, _VIRT = LogFlags(), VirtFlags()


def virt_controller(
    *,
    kubeconfig: Kubeconfig = None,
    virt: VirtFlags = _VIRT,
    leader_elect: bool = True,
    metrics_bind_address: MetricsAddress = "0",
    metrics_secure: MetricsSecure = True,
    health_probe_bind_address: HealthAddress = ":8081",
    log: LogFlags = _LOG,
    version: Version = False,
) -> int:
    """Create the pods of VirtualMachineInstances, and hand them over to the handlers of nodes.

    Parameters
    ----------
    leader_elect
        Enable leader election: one of several processes is active. The Lease is in its namespace.
    """

    def settings() -> VirtControllerSettings:
        made = VirtControllerSettings(
            cluster=virt.cluster(),
            kubeconfig=kubeconfig,
            leader_elect=leader_elect,
            metrics=parse_address("--metrics-bind-address", metrics_bind_address),
            metrics_secure=metrics_secure,
            health=parse_address("--health-probe-bind-address", health_probe_bind_address),
            log_level=log.level(),
            log_text=log.as_text(),
        )
        load_connection(kubeconfig)  # one that cannot be used is refused here
        return made

    return start(COMPONENT, "hypercobalt.virt.controller", settings, version=version)
