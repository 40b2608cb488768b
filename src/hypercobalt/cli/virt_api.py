"""`cobalt virt-api`: admission of VirtualMachineInstances, for an API server with webhooks."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
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
from hypercobalt.errors import ConfigurationError, HypercobaltError
from hypercobalt.runtime import load_connection
from hypercobalt.tls.self_signed import self_signed
from hypercobalt.virt.api.process import COMPONENT, VirtAPISettings, encode_settings

_LOG, _VIRT = LogFlags(), VirtFlags()


def virt_api(
    *,
    kubeconfig: Kubeconfig = None,
    bind_address: str = ":8443",
    certificate_path: Path | None = None,
    service_name: str = "virt-api",
    register: bool = True,
    virt: VirtFlags = _VIRT,
    metrics_bind_address: MetricsAddress = "0",
    metrics_secure: MetricsSecure = True,
    health_probe_bind_address: HealthAddress = ":8081",
    log: LogFlags = _LOG,
    version: Version = False,
) -> int:
    """Serve the webhooks that default and validate VirtualMachineInstances.

    Parameters
    ----------
    bind_address
        HOST:PORT of the webhooks; :PORT for all addresses.
    certificate_path
        Directory with tls.crt, tls.key and ca.crt, as cert-manager makes them. Without it one is
        made at start, for one process.
    service_name
        Service by which API servers reach the webhooks: a certificate that is made is for it.
    register
        Keep the CA in the configurations virt-api-mutator and virt-api-validator.
    """
    if version:
        print(version_line(COMPONENT))
        return 0
    try:
        listen = parse_address("--bind-address", bind_address)
        if listen is None:
            raise ConfigurationError("--bind-address 0: virt-api serves nothing else")
        settings = VirtAPISettings(
            listen,
            files=certificate_path,
            register=register,
            cluster=virt.cluster(),
            kubeconfig=kubeconfig,
            metrics=parse_address("--metrics-bind-address", metrics_bind_address),
            metrics_secure=metrics_secure,
            health=parse_address("--health-probe-bind-address", health_probe_bind_address),
            log_level=log.level(),
            log_text=log.as_text(),
        )
        load_connection(kubeconfig)  # one that cannot be used is refused here
    except HypercobaltError as error:
        return report_error("virt-api", error)
    return _become(settings, f"{service_name}.{virt.virt_namespace}.svc")


def _become(settings: VirtAPISettings, name: str) -> Never:
    """Replace this process by `python -m hypercobalt.virt.api`; it inherits its certificates."""
    if settings.files is None:
        settings = replace(settings, certificate=_inherited(name))
    if settings.metrics is not None and settings.metrics_secure:
        settings = replace(settings, metrics_certificate=_inherited())
    program = [sys.executable, "-m", "hypercobalt.virt.api", encode_settings(settings)]
    os.execv(sys.executable, program)  # noqa: S606 - our own interpreter and module


def _inherited(*names: str) -> int:
    descriptor = self_signed(*names)
    os.set_inheritable(descriptor, True)
    return descriptor
