"""Flags of `cobalt operator` for where virtual machines run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from cyclopts import Parameter

from hypercobalt.adapters.libvirt.documents.portable.allowed import Allowed, listed
from hypercobalt.cli.common_flags import Span
from hypercobalt.cli.operator_flags import TestFlags
from hypercobalt.compute.direct.settings import DirectSettings
from hypercobalt.compute.nova.settings import NovaSettings
from hypercobalt.errors import ConfigurationError

DEFAULT_SECRET: Final = "hypercobalt-definitions-key"  # noqa: S105 - the name of one

_DIRECT, _NOVA = DirectSettings(), NovaSettings()


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class DirectFlags:
    """How `--compute direct` reaches hosts; `{name}` and `{ip}` stand for a host's own."""

    direct_libvirt_uri: Annotated[
        str, Parameter(env_var="DIRECT_LIBVIRT_URI", help="Of a host's libvirtd, for the operator.")
    ] = _DIRECT.control
    direct_migration_uri: Annotated[
        str,
        Parameter(env_var="DIRECT_MIGRATION_URI", help="Of a host's libvirtd, for other hosts."),
    ] = _DIRECT.migration
    direct_stream_uri: Annotated[
        str,
        Parameter(
            env_var="DIRECT_STREAM_URI", help="Where a host takes memory and disks; empty: any."
        ),
    ] = _DIRECT.stream
    direct_tls: Annotated[
        bool,
        Parameter(
            env_var="DIRECT_TLS",
            help="QEMU encrypts memory and disks; without it they cross the network in clear.",
        ),
    ] = _DIRECT.tls
    ovn_northbound: Annotated[
        str,
        Parameter(
            env_var="OVN_NORTHBOUND",
            help="OVN's northbound database, tcp:HOST:PORT or unix:/PATH; empty: no OVN.",
        ),
    ] = _DIRECT.northbound
    definitions_secret: Annotated[
        str,
        Parameter(
            env_var="DEFINITIONS_SECRET",
            help="Secret in the operator's namespace with the key that the definitions of hosts' "
            "domains are sealed for; made where there is none.",
        ),
    ] = DEFAULT_SECRET

    direct_shared_roots: Annotated[
        str,
        Parameter(
            env_var="DIRECT_SHARED_ROOTS",
            help="Directories of disks on storage that all hosts share, with commas.",
        ),
    ] = ""
    direct_local_roots: Annotated[
        str,
        Parameter(
            env_var="DIRECT_LOCAL_ROOTS",
            help="Directories of disks on each host, which a live migration copies.",
        ),
    ] = ""
    direct_console_roots: Annotated[
        str,
        Parameter(
            env_var="DIRECT_CONSOLE_ROOTS", help="Directories of the sockets of serial ports."
        ),
    ] = ""
    direct_kernel_roots: Annotated[
        str,
        Parameter(
            env_var="DIRECT_KERNEL_ROOTS", help="Directories of kernels that guests boot directly."
        ),
    ] = ""
    direct_firmware_roots: Annotated[
        str,
        Parameter(env_var="DIRECT_FIRMWARE_ROOTS", help="Directories of guests' firmware."),
    ] = ",".join(_DIRECT.allowed.firmware)
    direct_networks: Annotated[
        str,
        Parameter(
            env_var="DIRECT_NETWORKS", help="Bridges and libvirt networks that guests may use."
        ),
    ] = ",".join(sorted(_DIRECT.allowed.networks))
    direct_image_formats: Annotated[
        str,
        Parameter(
            env_var="DIRECT_IMAGE_FORMATS",
            help="Of disks: raw, qcow2. The header of a qcow2 image may name any file of a host.",
        ),
    ] = ",".join(sorted(_DIRECT.allowed.formats))
    direct_storage_hosts: Annotated[
        str,
        Parameter(env_var="DIRECT_STORAGE_HOSTS", help="Ceph monitors that definitions may name."),
    ] = ""

    def settings(self) -> DirectSettings:
        """Settings of the adapter.

        Raises:
            ConfigurationError: a directory cannot be a root.
        """
        return DirectSettings(
            control=self.direct_libvirt_uri,
            migration=self.direct_migration_uri,
            stream=self.direct_stream_uri,
            tls=self.direct_tls,
            northbound=self.ovn_northbound,
            allowed=self._allowed(),
        )

    def _allowed(self) -> Allowed:
        try:
            return Allowed(
                shared=listed(self.direct_shared_roots),
                local=listed(self.direct_local_roots),
                consoles=listed(self.direct_console_roots),
                kernels=listed(self.direct_kernel_roots),
                firmware=listed(self.direct_firmware_roots),
                networks=frozenset(listed(self.direct_networks)),
                formats=frozenset(listed(self.direct_image_formats)),
                storage_hosts=frozenset(listed(self.direct_storage_hosts)),
            )
        except ValueError as exc:
            raise ConfigurationError(f"--direct-…-roots, --direct-image-formats: {exc}") from None


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class NovaFlags:
    """Flags of `--compute nova`.

    Parameters
    ----------
    evacuate_local_disks
        Evacuate servers with disks on their host too. These disks must be shared; otherwise Nova
        creates them from the image again, and their data is lost.
    live_migrate_devices
        Move running servers with virtual GPUs or PCI devices live. Nova decides whether it can:
        GPUs since 2024.1, devices of an alias that is live-migratable since 2025.1.
    nova_service_down_time
        Nova's option `service_down_time`: how long Nova shows a dead host as up.
    """

    evacuate_local_disks: Annotated[bool, Parameter(env_var="EVACUATE_LOCAL_DISKS")] = (
        _NOVA.evacuate_local_disks
    )
    live_migrate_devices: Annotated[bool, Parameter(env_var="LIVE_MIGRATE_DEVICES")] = (
        _NOVA.live_migrate_devices
    )
    nova_service_down_time: Span = _NOVA.service_down_time

    def settings(self, test: TestFlags) -> NovaSettings:
        """Settings of the adapter."""
        return NovaSettings(
            smoke=test.smoke(),
            evacuate_local_disks=self.evacuate_local_disks,
            live_migrate_devices=self.live_migrate_devices,
            service_down_time=self.nova_service_down_time,
        )
