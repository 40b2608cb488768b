"""Flags of `cobalt operator` for where virtual machines run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter
from prometheus_client import CollectorRegistry

from hypercobalt.compute.connect import connect_direct, connect_nova
from hypercobalt.compute.direct.settings import DirectSettings
from hypercobalt.compute.nova.settings import SmokeSettings
from hypercobalt.operator.assembly import Connect

Kind = Literal["nova", "direct", "none"]

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

    def settings(self) -> DirectSettings:
        """Settings of the adapter."""
        return DirectSettings(
            control=self.direct_libvirt_uri,
            migration=self.direct_migration_uri,
            stream=self.direct_stream_uri,
            tls=self.direct_tls,
            northbound=self.ovn_northbound,
        )


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class NovaFlags:
    """Flags of `--compute nova`.

    Parameters
    ----------
    evacuate_local_disks
        Evacuate servers with disks on their host too: those disks are shared, or Nova makes them
        anew from the image and what was written to them is lost.
    """

    evacuate_local_disks: Annotated[bool, Parameter(env_var="EVACUATE_LOCAL_DISKS")] = False


def connection(
    kind: Kind,
    direct: DirectFlags,
    nova: NovaFlags,
    smoke: SmokeSettings,
    registry: CollectorRegistry,
) -> Connect | None:
    """The factory of the chosen compute service, called with the Hypervisors; None without one.

    Calling it raises `ConfigurationError` if it cannot be made of the flags and the environment.
    """
    if kind == "direct":
        return lambda hypervisors, guard, secrets: connect_direct(
            hypervisors, registry, direct.settings(), guard, secrets
        )
    if kind == "none":
        return None
    return lambda _, guard, __: connect_nova(
        os.environ, registry, smoke, guard, evacuate_local_disks=nova.evacuate_local_disks
    )
