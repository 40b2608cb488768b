"""The certificate of a host: where its key is made, whom it names, and what it is for.

What the node agent requests and what the operator requires are the same names.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from hypercobalt.api.addresses import parse_host_address

LIFETIME: Final = timedelta(days=47)
"""Lifetime of a certificate whose key was made on the host; the issuer may give less."""

USAGES: Final = ("digital signature", "server auth", "client auth")

KEY: Final = "kvm.cloud.sap/certificate-key"
"""Annotation of a Hypervisor: SHA-256 of its host's public key, in hex digits, or `ANY_KEY`.

The operator records the first key that it approves; a write of the status changes no annotation, so
no agent changes the record.
"""
ANY_KEY: Final = "any"
"""The record of a host that has a new key at each start, since it keeps no files."""

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
AGENT: Final = "hypercobalt-node-agent"
"""Value of the label `MANAGED_BY` on objects that a node agent has made."""


class CertificateSource(StrEnum):
    """Where the hosts' certificates come from. Our agents know the first only."""

    REQUEST = "request"  # the key is made on the host, a CertificateRequest has its public half
    SECRET = "secret"  # noqa: S105 - a Secret has both, for the existing agent


class CertificateReason(StrEnum):
    """Reasons of the condition that the host's certificate is installed."""

    INSTALLING = "Installing"
    READY = "Ready"
    FAILED_TO_UPDATE = "FailedToUpdateTLSCertificate"
    FAILED_TO_START_UPDATE = "FailedToStartUpdateTLSService"
    REQUEST_PENDING = "RequestPending"  # ours, and those below: with a key made on the host
    REQUEST_DENIED = "RequestDenied"
    REQUEST_FAILED = "RequestFailed"


@dataclass(frozen=True, slots=True)
class HostNames:
    """Names and addresses in a certificate of a host.

    Args:
        name: of the Node.
        addresses: each once and in its one form, sorted.
    """

    name: str
    addresses: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Every name and address."""
        return self.name, *self.addresses

    @classmethod
    def of(cls, name: str, addresses: Iterable[str]) -> HostNames:
        """Return the names of a host; text that is no address of a host is left out.

        Args:
            name: of the Node.
            addresses: as the Node or the agent's environment has them.
        """
        found: set[str] = set()
        for text in addresses:
            with suppress(ValueError):
                found.add(str(parse_host_address(text)))
        return cls(name, tuple(sorted(found)))
