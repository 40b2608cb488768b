"""`cobalt virt-api`: admission and consoles of instances, for an API server that calls others."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

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
from hypercobalt.errors import ConfigurationError
from hypercobalt.kubeconfig import load as load_connection
from hypercobalt.launch import inherited
from hypercobalt.tls.self_signed import self_signed
from hypercobalt.virt.api.handler_address import HANDLER_PORT, HandlerNetwork
from hypercobalt.virt.api.process import COMPONENT, VirtAPISettings

_LOG, _VIRT = LogFlags(), VirtFlags()
_MAX_PORT = 65535


def virt_api(
    *,
    kubeconfig: Kubeconfig = None,
    bind_address: str = ":8443",
    certificate_path: Path | None = None,
    service_name: str = "virt-api",
    register: bool = True,
    subresources_bind_address: str = "0",
    handler_port: int = HANDLER_PORT,
    handler_networks: tuple[str, ...] = (),
    virt: VirtFlags = _VIRT,
    metrics_bind_address: MetricsAddress = "0",
    metrics_secure: MetricsSecure = True,
    health_probe_bind_address: HealthAddress = ":8081",
    log: LogFlags = _LOG,
    version: Version = False,
) -> int:
    """Serve the webhooks that default and validate VirtualMachineInstances, and their consoles.

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
        Keep the CA in the configurations virt-api-mutator and virt-api-validator, and in the
        APIService v1.subresources.kubevirt.io.
    subresources_bind_address
        HOST:PORT of consoles, for the API server that passes people's requests on; 0 for none.
    handler_port
        Port at which every virt-handler serves consoles.
    handler_networks
        Networks that the addresses of virt-handlers are in, such as 10.0.0.0/16; else any that a
        host can have.
    """

    def settings() -> VirtAPISettings:
        listen = parse_address("--bind-address", bind_address)
        if listen is None:
            raise ConfigurationError("--bind-address 0: virt-api serves nothing else")
        made = VirtAPISettings(
            listen,
            files=certificate_path,
            register=register,
            subresources=parse_address("--subresources-bind-address", subresources_bind_address),
            handlers=_handlers(handler_port, handler_networks),
            cluster=virt.cluster(),
            kubeconfig=kubeconfig,
            metrics=parse_address("--metrics-bind-address", metrics_bind_address),
            metrics_secure=metrics_secure,
            health=parse_address("--health-probe-bind-address", health_probe_bind_address),
            log_level=log.level(),
            log_text=log.as_text(),
        )
        load_connection(kubeconfig)  # one that cannot be used is refused here
        if certificate_path is not None:
            return made
        name = f"{service_name}.{virt.virt_namespace}.svc"
        return replace(made, certificate=inherited(self_signed(name)))

    return start(COMPONENT, "hypercobalt.virt.api", settings, version=version)


def _handlers(port: int, networks: Sequence[str]) -> HandlerNetwork:
    """Where handlers are.

    Raises:
        ConfigurationError: there is no such port or network.
    """
    if not 0 < port <= _MAX_PORT:
        raise ConfigurationError(f"--handler-port {port}: must be 1 to {_MAX_PORT}")
    try:
        found = tuple(str(ipaddress.ip_network(one)) for one in networks)
    except ValueError as error:
        raise ConfigurationError(f"--handler-networks: {error}") from error
    return HandlerNetwork(port, found)
