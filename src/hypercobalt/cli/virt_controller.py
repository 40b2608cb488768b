"""`cobalt virt-controller`: pods of VirtualMachineInstances, and their hand-over to nodes."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Never

from hypercobalt.api.address import parse_address
from hypercobalt.cli.common_flags import (
    HealthAddress,
    Kubeconfig,
    LogFlags,
    MetricsAddress,
    MetricsSecure,
    Version,
    version_line,
)
from hypercobalt.cli.exit_codes import report_error
from hypercobalt.cli.virt_flags import VirtFlags
from hypercobalt.errors import HypercobaltError
from hypercobalt.runtime import load_connection
from hypercobalt.tls.self_signed import self_signed
from hypercobalt.virt.controller.process import (
    COMPONENT,
    VirtControllerSettings,
    encode_settings,
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
    if version:
        print(version_line(COMPONENT))
        return 0
    try:
        settings = VirtControllerSettings(
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
    except HypercobaltError as error:
        return report_error("virt-controller", error)
    return _become(settings)


def _become(settings: VirtControllerSettings) -> Never:
    """Replace this process by `python -m hypercobalt.virt.controller`."""
    if settings.metrics is not None and settings.metrics_secure:
        descriptor = self_signed()
        os.set_inheritable(descriptor, True)
        settings = replace(settings, metrics_certificate=descriptor)
    program = [sys.executable, "-m", "hypercobalt.virt.controller", encode_settings(settings)]
    os.execv(sys.executable, program)  # noqa: S606 - our own interpreter and module
