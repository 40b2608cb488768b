"""`cobalt node-agent`: the agent of one hypervisor host."""

from __future__ import annotations

import os
import re
import socket
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from hypercobalt.agent.settings import LEASE
from hypercobalt.api.host_certificate import CertificateSource
from hypercobalt.cli.agent_start import start
from hypercobalt.cli.common_flags import (
    DiagnosticsAddress,
    HealthAddress,
    Kubeconfig,
    LogFlags,
    MetricsAddress,
    MetricsSecure,
    Span,
    Version,
)
from hypercobalt.errors import ConfigurationError
from hypercobalt.node_agent.settings import (
    MigrationNames,
    Retention,
    self_fencing,
    settings,
)

_LOG = LogFlags()
_UNITS = {"h": 3600, "d": 86400}
_DAYS = re.compile(r"([0-9]{1,6})([hd])", re.ASCII)


def node_agent(
    *,
    kubeconfig: Kubeconfig = None,
    node: str | None = None,
    libvirt_uri: str | None = None,
    units: str | None = None,
    namespace: str | None = None,
    lease_duration: Span = LEASE,
    pki_path: Path | None = None,
    certificate_source: CertificateSource | None = None,
    pki_ca_file: Path | None = None,
    host_root: Path = Path("/"),
    migration_names: MigrationNames = MigrationNames.START,
    migration_retention: str = "30d",
    migration_count: Annotated[int, Parameter(name="--migration-count")] = 50,
    self_fence_window: Annotated[float, Parameter(name="--self-fence-window")] = 0,
    self_fence_witnesses: str = "",
    self_fence_storage: Path | None = None,
    self_fence_watchdog: Path | None = None,
    store_definitions: bool = False,
    state_dir: Path | None = None,
    ha_config: str | None = None,
    operator_namespace: str | None = None,
    metrics_bind_address: MetricsAddress = ":9177",
    metrics_secure: MetricsSecure = True,
    health_probe_bind_address: HealthAddress = ":8081",
    diagnostics_bind_address: DiagnosticsAddress = "0",
    log: LogFlags = _LOG,
    leader_elect: Annotated[bool, Parameter(show=False)] = False,
    enable_http2: Annotated[bool, Parameter(show=False)] = False,
    version: Version = False,
) -> int:
    """Watch one hypervisor host, and keep its Hypervisor, Migrations and certificates current.

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
    return start(
        "node-agent",
        lambda: settings(
            os.environ,
            hostname=socket.gethostname(),
            node=node,
            libvirt_uri=libvirt_uri,
            namespace=namespace,
            lease=lease_duration,
            units=None if units is None else [unit for unit in units.split(",") if unit],
            kubeconfig=kubeconfig,
            pki_path=pki_path,
            certificate_source=certificate_source,
            pki_ca_file=pki_ca_file,
            host_root=host_root,
            names=migration_names,
            retention=Retention(_age(migration_retention), _count(migration_count)),
            self_fencing=self_fencing(
                self_fence_window, self_fence_witnesses, self_fence_storage, self_fence_watchdog
            ),
            store_definitions=store_definitions,
            state_dir=state_dir,
            ha_config=ha_config,
            operator_namespace=operator_namespace,
            metrics=metrics_bind_address,
            metrics_secure=metrics_secure,
            log_level=log.level(),
            log_text=log.as_text(),
            health=health_probe_bind_address,
            diagnostics=diagnostics_bind_address,
        ),
        version=version,
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
