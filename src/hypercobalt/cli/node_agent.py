"""`cobalt node-agent`: the agent of one hypervisor host.

Source: kvm-node-agent, cmd/main.go and its chart.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import quote, urlsplit

from cyclopts import Parameter

from hypercobalt.adapters.host.model import UnitNameError, check_unit_name
from hypercobalt.agent.launch import become
from hypercobalt.agent.settings import LEASE, lease_duration
from hypercobalt.api.address import parse_address
from hypercobalt.api.host_certificate import CertificateSource
from hypercobalt.api.hypervisor_conditions import MOST_UNITS
from hypercobalt.api.names import namespace_name, node_name
from hypercobalt.cli.common_flags import (
    DiagnosticsAddress,
    HealthAddress,
    Kubeconfig,
    LogFlags,
    MetricsAcceptApiServerTokens,
    MetricsAddress,
    MetricsSecure,
    Span,
    Version,
)
from hypercobalt.cli.start import start
from hypercobalt.errors import ConfigurationError
from hypercobalt.node_agent.settings import (
    DEFAULT_HA_CONFIG,
    DEFAULT_NAMESPACE,
    DEFAULT_UNITS,
    DEFAULT_URI,
    MigrationNames,
    NodeAgentSettings,
    Retention,
    SelfFencingSettings,
)

SHORTEST_WINDOW: Final = timedelta(seconds=60)
LONGEST_WINDOW: Final = timedelta(days=1)
_LOG = LogFlags()
_UNITS = {"h": 3600, "d": 86400}
_DAYS = re.compile(r"([0-9]{1,6})([hd])", re.ASCII)


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class NodeAgentFlags:
    """What one node agent does; the environment counts where a flag is not given.

    Parameters
    ----------
    node
        Name of the Node and the Hypervisor; else HOSTNAME, else the system's host name.
    libvirt_uri
        qemu:///system, qemu+unix, qemu+tcp, qemu+tls, ch+unix or ch+tcp.
    units
        systemd units to report, with commas; empty for none. Else libvirtd.service and
        openvswitch-switch.service.
    namespace
        Of the Lease, Migrations, stored definitions and CertificateRequests; else NAMESPACE, else
        monsoon3.
    lease_duration
        How long the agent's Lease lasts without a renewal, 8 to 600 s; it is renewed four times in
        that. The operator counts a host's agent as silent after it, and reads it from the Lease.
    pki_path
        Directory for the TLS files; else PKI_PATH. Without either, none are installed.
    certificate_source
        request, which is the default: the key is made on this host, and a CertificateRequest for
        ISSUER_NAME gets its certificate. Else CERTIFICATE_SOURCE.
    pki_ca_file
        The CA of the certificates: a certificate of another one is not installed. Without it the
        CA that is installed first counts, and a new one has to be named here.
    host_root
        Root of the host's file system, for os-release; in a container, where it is mounted.
    migration_names
        start: one object per migration; server: one per server, overwritten by the next.
    migration_retention
        How long finished Migrations of this host are kept: 30d, 12h.
    migration_count
        How many finished Migrations of this host are kept.
    self_fence_window
        Seconds after which the host ends its instances when the API, every witness and the shared
        storage are silent; 0 for never, else at least 60.
    self_fence_witnesses
        HOST:PORT, with commas, of programs that answer HTTP: other hosts' agents, on port 8081.
    self_fence_storage
        Directory on the storage that the hosts share.
    self_fence_watchdog
        Device, such as /dev/watchdog, that resets a host whose agent does not run; none without it.
    store_definitions
        Keep the definitions of the host's domains, passwords included, in the SealedDefinitions of
        the host, for instances to be started elsewhere without OpenStack when the host is dead.
        They are sealed with the key that the operator publishes.
    state_dir
        Directory in which open incidents and the HA agent's configuration are kept over a restart
        of the agent; without it a crash during that restart goes undetected.
    ha_config
        ConfigMap with the HA agent's configuration, as NAMESPACE/NAME; else hypercobalt-ha in the
        namespace above. Empty: no HA agent.
    operator_namespace
        Of the operator's Lease, by which OperatorReporting is set; else the namespace above.
    """

    kubeconfig: Kubeconfig = None
    node: str | None = None
    libvirt_uri: str | None = None
    units: str | None = None
    namespace: str | None = None
    lease_duration: Span = LEASE
    pki_path: Path | None = None
    certificate_source: CertificateSource | None = None
    pki_ca_file: Path | None = None
    host_root: Path = Path("/")
    migration_names: MigrationNames = MigrationNames.START
    migration_retention: str = "30d"
    migration_count: Annotated[int, Parameter(name="--migration-count")] = Retention().count
    self_fence_window: Annotated[float, Parameter(name="--self-fence-window")] = 0
    self_fence_witnesses: str = ""
    self_fence_storage: Path | None = None
    self_fence_watchdog: Path | None = None
    store_definitions: bool = False
    state_dir: Path | None = None
    ha_config: str | None = None
    operator_namespace: str | None = None
    metrics_bind_address: MetricsAddress = ":9177"
    metrics_secure: MetricsSecure = True
    metrics_accept_api_server_tokens: MetricsAcceptApiServerTokens = False
    health_probe_bind_address: HealthAddress = ":8081"
    diagnostics_bind_address: DiagnosticsAddress = "0"

    def settings(
        self, env: Mapping[str, str], hostname: str, log: LogFlags = _LOG
    ) -> NodeAgentSettings:
        """Put flags and environment together.

        The operating system's `hostname` counts when nothing else names the node.

        Raises:
            ConfigurationError: a value of a flag or a variable cannot be used.
        """
        name = node_name("--node", self.node or env.get("HOSTNAME") or hostname)
        namespace = namespace_name(
            "--namespace", self.namespace or env.get("NAMESPACE") or DEFAULT_NAMESPACE
        )
        _check_source(
            self.certificate_source or env.get("CERTIFICATE_SOURCE") or CertificateSource.REQUEST
        )
        return NodeAgentSettings(
            node=name,
            label=env.get("NODE_LABEL") or name,
            libvirt_uri=self.libvirt_uri or uri_from(env),
            namespace=namespace,
            lease=lease_duration(self.lease_duration),
            units=DEFAULT_UNITS if self.units is None else _units(self.units),
            kubeconfig=self.kubeconfig,
            pki=self.pki_path or (Path(env["PKI_PATH"]) if env.get("PKI_PATH") else None),
            issuer=env.get("ISSUER_NAME", ""),
            issuer_kind=env.get("ISSUER_KIND") or "Issuer",
            ca=self.pki_ca_file,
            addresses=tuple(filter(None, [env.get("HOST_IP_ADDRESS", "")])),
            host_root=self.host_root,
            names=self.migration_names,
            retention=Retention(_age(self.migration_retention), _count(self.migration_count)),
            self_fencing=self._self_fencing(),
            store_definitions=self.store_definitions,
            state_dir=self.state_dir,
            ha_config=_config_map(self.ha_config, namespace),
            operator_namespace=namespace_name(
                "--operator-namespace", self.operator_namespace or namespace
            ),
            metrics=parse_address("--metrics-bind-address", self.metrics_bind_address),
            metrics_secure=self.metrics_secure,
            metrics_accept_api_server_tokens=self.metrics_accept_api_server_tokens,
            health=parse_address("--health-probe-bind-address", self.health_probe_bind_address),
            diagnostics=parse_address("--diagnostics-bind-address", self.diagnostics_bind_address),
            host_address=env.get("HOST_IP_ADDRESS", ""),
            log_level=log.level(),
            log_text=log.as_text(),
            emulate=bool(env.get("EMULATE")),
        )

    def _self_fencing(self) -> SelfFencingSettings | None:
        """What is needed to fence itself; None with a window of 0.

        Raises:
            ConfigurationError: a part is missing, or cannot be used.
        """
        window, storage = self.self_fence_window, self.self_fence_storage
        if not window:
            return None
        if not SHORTEST_WINDOW.total_seconds() <= window <= LONGEST_WINDOW.total_seconds():
            raise ConfigurationError(
                f"--self-fence-window {window:g}: must be 0, or "
                f"{SHORTEST_WINDOW.total_seconds():.0f} s or longer, up to a day"
            )
        parsed = [
            parse_address("--self-fence-witnesses", one)
            for one in self.self_fence_witnesses.split(",")
            if one
        ]
        found = tuple((one.host, one.port) for one in parsed if one is not None and one.host)
        if not found or storage is None:
            missing = "--self-fence-storage" if found else "--self-fence-witnesses"
            raise ConfigurationError(
                f"{missing}: needed with --self-fence-window: losing the API alone never fences a "
                "host"
            )
        return SelfFencingSettings(
            timedelta(seconds=window), found, storage, self.self_fence_watchdog
        )


_FLAGS = NodeAgentFlags()


def node_agent(
    *,
    flags: NodeAgentFlags = _FLAGS,
    log: LogFlags = _LOG,
    leader_elect: Annotated[bool, Parameter(show=False)] = False,
    enable_http2: Annotated[bool, Parameter(show=False)] = False,
    version: Version = False,
) -> int:
    """Watch one hypervisor host, and keep its Hypervisor, Migrations and certificates current."""
    return start(
        "hypercobalt-node-agent",
        "hypercobalt.node_agent",
        lambda: flags.settings(os.environ, socket.gethostname(), log),
        version=version,
        become=become,
    )


def uri_from(env: Mapping[str, str]) -> str:
    """The libvirt URI that LIBVIRT_DEFAULT_URI and LIBVIRT_SOCKET mean together."""
    uri, socket = env.get("LIBVIRT_DEFAULT_URI") or DEFAULT_URI, env.get("LIBVIRT_SOCKET")
    parts = urlsplit(uri)
    if not socket or parts.netloc or parts.query:
        return uri
    driver = parts.scheme.partition("+")[0]
    return f"{driver}+unix://{parts.path}?socket={quote(socket)}"


def _units(text: str) -> tuple[str, ...]:
    names = [unit for unit in text.split(",") if unit]
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


def _age(text: str) -> timedelta:
    found = _DAYS.fullmatch(text)
    if found is None:
        raise ConfigurationError(f"--migration-retention {text!r}: must look like 30d or 12h")
    return timedelta(seconds=int(found[1]) * _UNITS[found[2]])


def _count(number: int) -> int:
    if number < 0:
        raise ConfigurationError(f"--migration-count {number}: must not be negative")
    return number
