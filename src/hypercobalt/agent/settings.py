"""The settings of every agent, and how they are passed to the agent's process."""

from __future__ import annotations

import logging
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from hypercobalt.api.address import Address
from hypercobalt.errors import ConfigurationError

LEASE: Final = timedelta(seconds=40)
"""Time that a Lease lasts, as the kubelet's own."""
SHORTEST_LEASE: Final = timedelta(seconds=8)
"""A renewal that fails is tried again after 2 s: several have to fail before the Lease runs out."""
LONGEST_LEASE: Final = timedelta(minutes=10)
"""Longest duration of a Lease that the operator counts."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """One agent; each kind adds its own.

    Args:
        node: name of the Node.
        namespace: of the agent's Lease, and of its other objects that have one.
        lease: how long the agent's Lease lasts without a renewal.
        kubeconfig: file; None looks where kubectl and pods do.
        metrics: where `/metrics` is served; None: nowhere.
        metrics_secure: over TLS, to those whom the API server allows it.
        metrics_accept_api_server_tokens: tokens for the API server are accepted there, too.
        metrics_certificate: descriptor of the certificate and its key; None makes one.
        health: where `/healthz` and `/readyz` are served; None: nowhere.
        diagnostics: where people are served; None: nowhere.
        diagnostics_certificate: descriptor of the certificate and its key; None makes one.
        host_address: of the host, where people reach it; "" finds it.
        log_level: the lowest that is logged, as `logging` counts.
        log_text: log text rather than JSON; None: text on a terminal.
    """

    node: str
    _: KW_ONLY
    namespace: str
    lease: timedelta = LEASE
    kubeconfig: Path | None = None
    metrics: Address | None = None
    metrics_secure: bool = False
    metrics_accept_api_server_tokens: bool = False
    metrics_certificate: int | None = None
    health: Address | None = None
    diagnostics: Address | None = None
    diagnostics_certificate: int | None = None
    host_address: str = ""
    log_level: int = logging.INFO
    log_text: bool | None = None


S = TypeVar("S", bound=AgentSettings)


def lease_duration(given: timedelta) -> timedelta:
    """Check the duration of an agent's Lease.

    Raises:
        ConfigurationError: it is too short or too long.
    """
    if not SHORTEST_LEASE <= given <= LONGEST_LEASE:
        raise ConfigurationError(
            f"--lease-duration {given.total_seconds():g}s: must be "
            f"{SHORTEST_LEASE.total_seconds():.0f} to {LONGEST_LEASE.total_seconds():.0f} s"
        )
    return given


def encode_settings(settings: AgentSettings) -> str:
    """Write settings as the argument of the agent's process; they hold no secret."""
    return msgspec.json.encode(settings, enc_hook=str).decode()


def decode_settings(text: str, kind: type[S]) -> S:
    """Read what `encode_settings` wrote.

    Raises:
        ConfigurationError: it did not.
    """
    try:
        return msgspec.json.decode(text, type=kind, dec_hook=lambda _type, value: Path(value))
    except msgspec.DecodeError as exc:
        raise ConfigurationError(f"settings {text[:64]!r}: {exc}") from exc
