"""virt-controller's process: its settings, passed on by the command line, and what runs in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec

from hypercobalt.api.address import Address
from hypercobalt.runtime import (
    Election,
    Kube,
    Manager,
    Metrics,
    load_connection,
    process_identity,
)
from hypercobalt.runtime.guard import METRICS, guard
from hypercobalt.virt.controller.assembly import add_controller
from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.pod import launcher_pod

COMPONENT: Final = "virt-controller"
LEASE: Final = COMPONENT
"""Name of the Lease of the election, in the namespace of the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtControllerSettings:
    """Settings that the command line passes to the process; they hold no secret.

    Args:
        cluster: settings of KubeVirt.
        kubeconfig: file; None looks where kubectl and pods do.
        leader_elect: one of several processes is active.
        metrics: where `/metrics` is served; None: nowhere.
        metrics_secure: serve `/metrics` over TLS, to clients that the API server allows.
        metrics_certificate: descriptor of the certificate and its key; None makes one.
        health: where `/healthz` and `/readyz` are served; None: nowhere.
        log_level: the lowest that is logged, as `logging` counts.
        log_text: log text rather than JSON; None: text on a terminal.
    """

    cluster: ClusterConfig
    kubeconfig: Path | None
    leader_elect: bool
    metrics: Address | None
    metrics_secure: bool
    health: Address | None
    log_level: int
    log_text: bool | None
    metrics_certificate: int | None = None


def encode_settings(settings: VirtControllerSettings) -> str:
    """Write settings as the argument of the process."""
    return msgspec.json.encode(settings, enc_hook=str).decode()


def decode_settings(text: str) -> VirtControllerSettings:
    """Read what `encode_settings` wrote."""
    return msgspec.json.decode(
        text, type=VirtControllerSettings, dec_hook=lambda _type, value: Path(value)
    )


async def run(settings: VirtControllerSettings) -> None:
    """Run the controller until it has to stop.

    Raises:
        ConfigurationError: the kubeconfig or an address cannot be used.
    """
    metrics = Metrics()
    agent = f"{COMPONENT}/{version('hypercobalt')}"
    connection = load_connection(settings.kubeconfig)
    async with Kube(connection, field_manager=agent, metrics=metrics) as kube:
        election = Election(LEASE, kube.namespace, process_identity())
        secure = settings.metrics is not None and settings.metrics_secure
        manager = Manager(
            kube,
            metrics=metrics,
            election=election if settings.leader_elect else None,
            address=settings.health,
            metrics_address=settings.metrics,
            metrics_guard=guard(kube, METRICS, settings.metrics_certificate) if secure else None,
        )
        add_controller(manager, partial(launcher_pod, cluster=settings.cluster))
        await manager.run()
