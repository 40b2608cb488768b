"""The settings of every agent."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Final

from hypercobalt.api.address import Address
from hypercobalt.errors import ConfigurationError
from hypercobalt.launch import ProcessSettings

LEASE: Final = timedelta(seconds=40)
"""Time that a Lease lasts, as the kubelet's own."""
SHORTEST_LEASE: Final = timedelta(seconds=8)
"""A renewal that fails is tried again after 2 s: several have to fail before the Lease runs out."""
LONGEST_LEASE: Final = timedelta(minutes=10)
"""Longest duration of a Lease that the operator counts."""


@dataclass(frozen=True, slots=True)
class AgentSettings(ProcessSettings):
    """One agent; each kind adds its own.

    Args:
        node: name of the Node.
        namespace: of the agent's Lease, and of its other objects that have one.
        lease: how long the agent's Lease lasts without a renewal.
        diagnostics: where people are served; None: nowhere.
        diagnostics_certificate: descriptor of the certificate and its key; None makes one.
        host_address: of the host, where people reach it; "" finds it.
    """

    node: str
    _: KW_ONLY
    namespace: str
    lease: timedelta = LEASE
    diagnostics: Address | None = None
    diagnostics_certificate: int | None = None
    host_address: str = ""


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
