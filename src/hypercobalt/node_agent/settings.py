"""Settings of a node agent."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final

from hypercobalt.agent.settings import AgentSettings

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
class SelfFencingSettings:
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
class NodeAgentSettings(AgentSettings):
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
    self_fencing: SelfFencingSettings | None = None
    store_definitions: bool = False
    state_dir: Path | None = None
    ha_config: str = ""
    operator_namespace: str = ""
    emulate: bool = False
