"""Settings of a node agent: flags first, then the existing agent's environment. Pure.

Source: kvm-node-agent, cmd/main.go and its chart.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit

from hypercobalt.agent.settings import AgentSettings
from hypercobalt.api.host_certificate import CertificateSource
from hypercobalt.errors import ConfigurationError
from hypercobalt.runtime import parse_address

DEFAULT_URI: Final = "qemu:///system"
DEFAULT_NAMESPACE: Final = "monsoon3"
DEFAULT_UNITS: Final = ("libvirtd.service", "openvswitch-switch.service")


class MigrationNames(StrEnum):
    """How Migrations are called."""

    START = "start"  # server UUID and start: one object for each migration
    SERVER = "server"  # server UUID, as the existing agent: each migration overwrites the last


@dataclass(frozen=True, slots=True)
class Retention:
    """How long finished Migrations of this host are kept.

    Args:
        age: since their start.
        count: most of them; the oldest go first.
    """

    age: timedelta = timedelta(days=30)
    count: int = 50


@dataclass(frozen=True, slots=True)
class Settings(AgentSettings):
    """One node agent.

    Args:
        label: this host's name in Migrations.
        libvirt_uri: of the daemon.
        namespace: of the Lease, Migrations, Secret and Certificate.
        units: systemd units with a condition each.
        pki: directory for certificates; None installs none.
        source: of the certificate.
        issuer: cert-manager Issuer; "" requests no Certificate.
        issuer_kind: Issuer in the agent's namespace, or ClusterIssuer.
        ca: file with the CA, where the issuer does not give it.
        addresses: of the host, for its Certificate.
        host_root: where the host's file system is; in a container it is mounted somewhere else.
        names: how Migrations are called.
        retention: of finished Migrations.
        emulate: use the fakes for libvirt and the host's services.
    """

    label: str
    _: KW_ONLY
    namespace: str = DEFAULT_NAMESPACE
    libvirt_uri: str = DEFAULT_URI
    units: tuple[str, ...] = DEFAULT_UNITS
    pki: Path | None = None
    source: CertificateSource = CertificateSource.SECRET
    issuer: str = ""
    issuer_kind: str = "Issuer"
    ca: Path | None = None
    addresses: tuple[str, ...] = ()
    host_root: Path = Path("/")
    names: MigrationNames = MigrationNames.START
    retention: Retention = Retention()
    emulate: bool = False


def settings(
    env: Mapping[str, str],
    *,
    hostname: str,
    node: str | None = None,
    libvirt_uri: str | None = None,
    namespace: str | None = None,
    units: Sequence[str] | None = None,
    kubeconfig: Path | None = None,
    pki_path: Path | None = None,
    certificate_source: CertificateSource | None = None,
    pki_ca_file: Path | None = None,
    host_root: Path = Path("/"),
    names: MigrationNames = MigrationNames.START,
    retention: Retention | None = None,
    metrics: str = "0",
    metrics_secure: bool = False,
    health: str = "0",
    log_level: int = logging.INFO,
    log_text: bool | None = None,
) -> Settings:
    """Put flags and environment together; a flag that is given goes first.

    The arguments are those of `Settings`, None where a flag is not given; `metrics` and `health`
    are addresses as `HOST:PORT` or `:PORT`, `0` for none. The operating system's `hostname` counts
    when nothing else names the node.

    Raises:
        ConfigurationError: an address or CERTIFICATE_SOURCE cannot be used.
    """
    name = node or env.get("HOSTNAME") or hostname
    pki = pki_path or (Path(env["PKI_PATH"]) if env.get("PKI_PATH") else None)
    return Settings(
        node=name,
        label=env.get("NODE_LABEL") or name,
        libvirt_uri=libvirt_uri or uri_from(env),
        namespace=namespace or env.get("NAMESPACE") or DEFAULT_NAMESPACE,
        units=DEFAULT_UNITS if units is None else tuple(units),
        kubeconfig=kubeconfig,
        pki=pki,
        source=certificate_source or _source(env),
        issuer=env.get("ISSUER_NAME", ""),
        issuer_kind=env.get("ISSUER_KIND") or "Issuer",
        ca=pki_ca_file,
        addresses=tuple(filter(None, [env.get("HOST_IP_ADDRESS", "")])),
        host_root=host_root,
        names=names,
        retention=retention or Retention(),
        metrics=parse_address("--metrics-bind-address", metrics),
        metrics_secure=metrics_secure,
        health=parse_address("--health-probe-bind-address", health),
        log_level=log_level,
        log_text=log_text,
        emulate=bool(env.get("EMULATE")),
    )


def _source(env: Mapping[str, str]) -> CertificateSource:
    text = env.get("CERTIFICATE_SOURCE") or CertificateSource.SECRET
    try:
        return CertificateSource(text)
    except ValueError as exc:
        known = ", ".join(CertificateSource)
        raise ConfigurationError(
            f"CERTIFICATE_SOURCE {text[:64]!r}: must be one of {known}"
        ) from exc


def uri_from(env: Mapping[str, str]) -> str:
    """The libvirt URI that LIBVIRT_DEFAULT_URI and LIBVIRT_SOCKET mean together."""
    uri, socket = env.get("LIBVIRT_DEFAULT_URI") or DEFAULT_URI, env.get("LIBVIRT_SOCKET")
    parts = urlsplit(uri)
    if not socket or parts.netloc or parts.query:
        return uri
    driver = parts.scheme.partition("+")[0]
    return f"{driver}+unix://{parts.path}?socket={quote(socket)}"
