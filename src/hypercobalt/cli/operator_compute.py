"""Flags of `cobalt operator` that say where virtual machines run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter
from prometheus_client import CollectorRegistry

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.compute.connect import connect_direct, connect_nova
from hypercobalt.compute.direct.settings import DirectSettings
from hypercobalt.compute.port import ComputeService

Kind = Literal["nova", "direct"]

_DIRECT = DirectSettings()


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
        bool, Parameter(env_var="DIRECT_TLS", help="QEMU encrypts memory and disks on their way.")
    ] = _DIRECT.tls
    ovn_northbound: Annotated[
        str,
        Parameter(
            env_var="OVN_NORTHBOUND",
            help="OVN's northbound database, tcp:HOST:PORT or unix:/PATH; empty: no OVN.",
        ),
    ] = _DIRECT.northbound

    def settings(self) -> DirectSettings:
        """What the adapter is told."""
        return DirectSettings(
            control=self.direct_libvirt_uri,
            migration=self.direct_migration_uri,
            stream=self.direct_stream_uri,
            tls=self.direct_tls,
            northbound=self.ovn_northbound,
        )


def connect(
    kind: Kind | None,
    direct: DirectFlags,
    hypervisors: Callable[[], Iterable[Hypervisor]],
    registry: CollectorRegistry,
) -> ComputeService | None:
    """The compute service that was chosen; None without one.

    Raises:
        ConfigurationError: it cannot be made of the flags and the environment.
    """
    if kind == "direct":
        return connect_direct(hypervisors, direct.settings())
    return connect_nova(os.environ, registry) if kind == "nova" else None
