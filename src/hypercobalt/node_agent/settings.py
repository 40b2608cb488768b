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

from hypercobalt.adapters.host.model import UnitNameError, check_unit_name
from hypercobalt.agent.settings import LEASE, AgentSettings, lease_duration
from hypercobalt.api.address import parse_address
from hypercobalt.api.host_certificate import CertificateSource
from hypercobalt.api.hypervisor_conditions import MOST_UNITS
from hypercobalt.api.names import namespace_name, node_name
from hypercobalt.errors import ConfigurationError

DEFAULT_URI: Final = "qemu:///system"
DEFAULT_NAMESPACE: Final = "monsoon3"
DEFAULT_HA_CONFIG: Final = "hypercobalt-ha"
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
class SelfFencing:
    """When the agent ends the guests of a host that is cut off.

    Args:
        window: for how long the API, all witnesses and the storage have to be silent.
        witnesses: programs that answer HTTP, as host and port; agents of other hosts will do.
        storage: directory on the storage that hosts share.
        watchdog: device that resets a host whose agent does not run; None for none.
    """

    window: timedelta
    witnesses: tuple[tuple[str, int], ...]
    storage: Path
    watchdog: Path | None = None


@dataclass(frozen=True, slots=True)
class Settings(AgentSettings):
    """One node agent.

    Args:
        label: this host's name in Migrations.
        libvirt_uri: of the daemon.
        namespace: of the Lease, Migrations, stored definitions and CertificateRequests.
        units: systemd units with a condition each.
        pki: directory for certificates; None installs none.
        issuer: cert-manager Issuer; "" requests no certificate.
        issuer_kind: Issuer in the agent's namespace, or ClusterIssuer.
        ca: the administrator's file with the CA; None: the first CA that comes is pinned.
        addresses: of the host, for its Certificate.
        host_root: where the host's file system is; in a container it is mounted somewhere else.
        names: how Migrations are called.
        retention: of finished Migrations.
        self_fencing: None: never.
        store_definitions: keep the definitions of the host's domains, sealed for the operator.
        state_dir: where open incidents and the HA agent's configuration are kept over a restart;
            None keeps nothing.
        ha_config: namespace and name of the ConfigMap with the HA agent's configuration, as
            `NAMESPACE/NAME`; "" runs no HA agent.
        operator_namespace: of the operator's Lease.
        emulate: use the fakes for libvirt and the host's services.
    """

    label: str
    _: KW_ONLY
    namespace: str = DEFAULT_NAMESPACE
    libvirt_uri: str = DEFAULT_URI
    units: tuple[str, ...] = DEFAULT_UNITS
    pki: Path | None = None
    issuer: str = ""
    issuer_kind: str = "Issuer"
    ca: Path | None = None
    addresses: tuple[str, ...] = ()
    host_root: Path = Path("/")
    names: MigrationNames = MigrationNames.START
    retention: Retention = Retention()
    self_fencing: SelfFencing | None = None
    store_definitions: bool = False
    state_dir: Path | None = None
    ha_config: str = ""
    operator_namespace: str = ""
    emulate: bool = False


def settings(
    env: Mapping[str, str],
    *,
    hostname: str,
    node: str | None = None,
    libvirt_uri: str | None = None,
    namespace: str | None = None,
    lease: timedelta = LEASE,
    units: Sequence[str] | None = None,
    kubeconfig: Path | None = None,
    pki_path: Path | None = None,
    certificate_source: CertificateSource | None = None,
    pki_ca_file: Path | None = None,
    host_root: Path = Path("/"),
    names: MigrationNames = MigrationNames.START,
    retention: Retention | None = None,
    self_fencing: SelfFencing | None = None,
    store_definitions: bool = False,
    state_dir: Path | None = None,
    ha_config: str | None = None,
    operator_namespace: str | None = None,
    metrics: str = "0",
    metrics_secure: bool = False,
    health: str = "0",
    diagnostics: str = "0",
    log_level: int = logging.INFO,
    log_text: bool | None = None,
) -> Settings:
    """Put flags and environment together; a flag that is given goes first.

    The arguments are those of `Settings`, None where a flag is not given; `metrics`, `health`
    and `diagnostics` are addresses as `HOST:PORT` or `:PORT`, `0` for none. The operating system's
    `hostname` counts when nothing else names the node.

    Raises:
        ConfigurationError: a name, an address, a unit or CERTIFICATE_SOURCE cannot be used.
    """
    name = node_name("--node", node or env.get("HOSTNAME") or hostname)
    own_namespace = namespace_name(
        "--namespace", namespace or env.get("NAMESPACE") or DEFAULT_NAMESPACE
    )
    _check_source(certificate_source or env.get("CERTIFICATE_SOURCE") or CertificateSource.REQUEST)
    pki = pki_path or (Path(env["PKI_PATH"]) if env.get("PKI_PATH") else None)
    return Settings(
        node=name,
        label=env.get("NODE_LABEL") or name,
        libvirt_uri=libvirt_uri or uri_from(env),
        namespace=own_namespace,
        lease=lease_duration(lease),
        units=DEFAULT_UNITS if units is None else _units(units),
        kubeconfig=kubeconfig,
        pki=pki,
        issuer=env.get("ISSUER_NAME", ""),
        issuer_kind=env.get("ISSUER_KIND") or "Issuer",
        ca=pki_ca_file,
        addresses=tuple(filter(None, [env.get("HOST_IP_ADDRESS", "")])),
        host_root=host_root,
        names=names,
        retention=retention or Retention(),
        self_fencing=self_fencing,
        store_definitions=store_definitions,
        state_dir=state_dir,
        ha_config=_config_map(ha_config, own_namespace),
        operator_namespace=namespace_name(
            "--operator-namespace", operator_namespace or own_namespace
        ),
        metrics=parse_address("--metrics-bind-address", metrics),
        metrics_secure=metrics_secure,
        health=parse_address("--health-probe-bind-address", health),
        diagnostics=parse_address("--diagnostics-bind-address", diagnostics),
        host_address=env.get("HOST_IP_ADDRESS", ""),
        log_level=log_level,
        log_text=log_text,
        emulate=bool(env.get("EMULATE")),
    )


SHORTEST_WINDOW: Final = timedelta(seconds=60)
LONGEST_WINDOW: Final = timedelta(days=1)


def self_fencing(
    window: float, witnesses: str, storage: Path | None, watchdog: Path | None
) -> SelfFencing | None:
    """Put the flags of self-fencing together; a window of 0 is none.

    Args:
        window: seconds.
        witnesses: `HOST:PORT`, with commas.
        storage: directory on the shared storage.
        watchdog: device.

    Raises:
        ConfigurationError: one is missing, or cannot be used.
    """
    if not window:
        return None
    if not SHORTEST_WINDOW.total_seconds() <= window <= LONGEST_WINDOW.total_seconds():
        raise ConfigurationError(
            f"--self-fence-window {window:g}: must be 0, or "
            f"{SHORTEST_WINDOW.total_seconds():.0f} s or longer, up to a day"
        )
    parsed = [parse_address("--self-fence-witnesses", one) for one in witnesses.split(",") if one]
    found = tuple((one.host, one.port) for one in parsed if one is not None and one.host)
    if not found or storage is None:
        missing = "--self-fence-storage" if found else "--self-fence-witnesses"
        raise ConfigurationError(
            f"{missing}: needed with --self-fence-window: losing the API alone never fences a host"
        )
    return SelfFencing(timedelta(seconds=window), found, storage, watchdog)


def _units(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        try:
            check_unit_name(name)
        except UnitNameError as exc:
            raise ConfigurationError(f"--units: {exc}") from exc
    if len(names) > MOST_UNITS:
        raise ConfigurationError(f"--units: {len(names)} units, must be at most {MOST_UNITS}")
    return tuple(names)


def _config_map(text: str | None, own: str) -> str:
    if text is None:
        return f"{own}/{DEFAULT_HA_CONFIG}"
    namespace, _, name = text.partition("/")
    if (text and not (namespace and name)) or "/" in name:
        raise ConfigurationError(
            f"--ha-config {text[:64]!r}: must be NAMESPACE/NAME, or empty for no HA agent"
        )
    return text


def _check_source(source: str) -> None:
    """Refuse what agents did before they had no right on Secrets."""
    if source != CertificateSource.REQUEST:
        raise ConfigurationError(
            f"CERTIFICATE_SOURCE {source[:64]!r}: must be {CertificateSource.REQUEST}: node agents "
            "read no Secrets; docs/host.md, Certificates, has the way over"
        )


def uri_from(env: Mapping[str, str]) -> str:
    """The libvirt URI that LIBVIRT_DEFAULT_URI and LIBVIRT_SOCKET mean together."""
    uri, socket = env.get("LIBVIRT_DEFAULT_URI") or DEFAULT_URI, env.get("LIBVIRT_SOCKET")
    parts = urlsplit(uri)
    if not socket or parts.netloc or parts.query:
        return uri
    driver = parts.scheme.partition("+")[0]
    return f"{driver}+unix://{parts.path}?socket={quote(socket)}"
