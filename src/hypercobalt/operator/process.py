"""The operator's process: its settings, passed on by the command line, and its start.

The command line becomes this process (`cli/operator.py`): what reads flags and makes certificates
would otherwise stay in its memory for good. Settings have no secrets, but can be longer than an
argument may be, since a file of fence devices names every host: they are passed in memory.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final, Literal

import msgspec
from prometheus_client import CollectorRegistry

from hypercobalt.api.address import Address
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.compute.connect import connect_direct, connect_nova
from hypercobalt.compute.direct.settings import DirectSettings
from hypercobalt.compute.nova.settings import NovaSettings
from hypercobalt.operator.assembly import Connect, Options, add_controllers
from hypercobalt.operator.election import election
from hypercobalt.operator.ha.contract import AUDIENCE, add_contract
from hypercobalt.runtime import (
    Kube,
    Manager,
    Metrics,
    load_connection,
)
from hypercobalt.runtime.endpoints import Guard
from hypercobalt.runtime.guard import METRICS, guard

COMPONENT: Final = "hypercobalt-operator"

Kind = Literal["nova", "direct", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSettings:
    """Settings that the command line passes to the process.

    Args:
        options: of the controllers.
        compute: where instances run.
        direct: how `direct` reaches hosts.
        nova: settings of `nova`.
        kubeconfig: file; None looks where kubectl and pods do.
        leader_elect: one of several processes is active.
        metrics: where `/metrics` is served; None: nowhere.
        metrics_secure: serve `/metrics` over TLS, to clients that the API server allows.
        metrics_accept_api_server_tokens: tokens for the API server are accepted there, too.
        metrics_certificate: descriptor of the certificate and its key; None makes one.
        health: where `/healthz` and `/readyz` are served; None: nowhere.
        contract: where other controllers switch high availability; None: nowhere.
        contract_secure: as `metrics_secure`.
        contract_files: directory of the certificate and its key; None: the next counts.
        contract_certificate: as `metrics_certificate`.
        log_level: the lowest that is logged, as `logging` counts.
        log_text: log text rather than JSON; None: text on a terminal.
    """

    options: Options
    compute: Kind
    direct: DirectSettings
    nova: NovaSettings
    kubeconfig: Path | None
    leader_elect: bool
    metrics: Address | None
    metrics_secure: bool
    metrics_accept_api_server_tokens: bool
    health: Address | None
    contract: Address | None
    contract_secure: bool
    contract_files: Path | None
    log_level: int
    log_text: bool | None
    metrics_certificate: int | None = None
    contract_certificate: int | None = None


def encode_settings(settings: ProcessSettings) -> bytes:
    """Write settings for the process."""
    return msgspec.json.encode(settings, enc_hook=str)


def decode_settings(data: bytes) -> ProcessSettings:
    """Read what `encode_settings` wrote."""
    return msgspec.json.decode(
        data, type=ProcessSettings, dec_hook=lambda _type, value: Path(value)
    )


async def run(settings: ProcessSettings) -> None:
    """Run the operator until it has to stop.

    Raises:
        ConfigurationError: the account, the kubeconfig or an address cannot be used.
    """
    options, metrics = settings.options, Metrics()
    agent = f"{COMPONENT}/{version('hypercobalt')}"
    connection = load_connection(settings.kubeconfig)
    async with Kube(connection, field_manager=agent, metrics=metrics) as kube:
        elects = settings.leader_elect
        secure = settings.metrics is not None and settings.metrics_secure
        manager = Manager(
            kube,
            metrics=metrics,
            election=election(options.label_selector, kube.namespace) if elects else None,
            address=settings.health,
            metrics_address=settings.metrics,
            metrics_guard=_metrics_guard(kube, settings) if secure else None,
        )
        add_controllers(manager, options, metrics, _connect(settings, metrics.registry))
        if settings.contract is not None:
            hypervisors = manager.informer(Hypervisor, labels=options.label_selector)
            certificate = settings.contract_files or settings.contract_certificate
            admitted = guard(kube, AUDIENCE, certificate) if settings.contract_secure else None
            add_contract(manager, kube, hypervisors, settings.contract, admitted)
        await manager.run()


def _metrics_guard(kube: Kube, settings: ProcessSettings) -> Guard:
    return guard(
        kube,
        METRICS,
        settings.metrics_certificate,
        accepts_api_server_tokens=settings.metrics_accept_api_server_tokens,
    )


def _connect(settings: ProcessSettings, registry: CollectorRegistry) -> Connect | None:
    """Return the factory of the chosen compute service, called with the Hypervisors; None for none.

    Calling it raises `ConfigurationError` if it cannot be made of settings and environment.
    """
    if settings.compute == "direct":
        return lambda hypervisors, guard, definitions: connect_direct(
            hypervisors, registry, settings.direct, guard, definitions
        )
    if settings.compute == "none":
        return None
    return lambda _, guard, __: connect_nova(os.environ, registry, settings.nova, guard)
