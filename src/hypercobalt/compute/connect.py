"""Makes the compute service that a command line names.

An adapter is imported only when it is chosen, so the libraries of the others are not loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from typing import Protocol

from prometheus_client import CollectorRegistry

from hypercobalt.api.definitions import HostDefinitions
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.compute.direct.settings import DirectSettings
from hypercobalt.compute.direct.starts import StartsUnderWay
from hypercobalt.compute.leadership import LeaderGuard, unguarded
from hypercobalt.compute.nova.settings import NovaSettings
from hypercobalt.compute.port import ComputeService
from hypercobalt.errors import ConfigurationError


class ReadDefinitions(Protocol):
    """Reader of the definitions that hosts' agents have stored; see `direct.definitions.Stored`."""

    @property
    def starts(self) -> StartsUnderWay: ...

    async def of(self, host: str) -> HostDefinitions: ...

    async def mark_keys(self) -> tuple[bytes, ...]: ...


def connect_nova(
    environment: Mapping[str, str],
    registry: CollectorRegistry,
    settings: NovaSettings | None = None,
    guard: LeaderGuard = unguarded,
) -> ComputeService:
    """Make Nova's adapter. No call is made: an OpenStack that is away shows as `trouble` later.

    Args:
        environment: `OS_PW_CMD` is taken from it; openstacksdk takes `OS_CLOUD`, the other `OS_*`
            and clouds.yaml from the process's own.
        registry: gets the metrics; call this once for each registry.
        settings: of the adapter; None means `NovaSettings()`.
        guard: forbids changes.

    Raises:
        ConfigurationError: openstacksdk is not installed, or no account is configured.
    """
    try:
        from hypercobalt.compute.nova import service  # noqa: PLC0415 - 10 MiB that others need not load
    except ModuleNotFoundError as exc:
        raise ConfigurationError(
            f"--compute nova needs the package openstacksdk ({exc.name} is missing): "
            "pip install 'hypercobalt[openstack]'"
        ) from exc
    agent = f"hypercobalt-operator/{version('hypercobalt')}"
    command = environment.get("OS_PW_CMD", "")
    return service.connect(agent, command, registry, settings or NovaSettings(), guard)


def connect_direct(
    hypervisors: Callable[[], Iterable[Hypervisor]],
    registry: CollectorRegistry,
    settings: DirectSettings | None = None,
    guard: LeaderGuard = unguarded,
    read: ReadDefinitions | None = None,
) -> ComputeService:
    """Make the adapter of a site without OpenStack; close it after use.

    Args:
        hypervisors: returns the hosts as known now, for example from an informer's cache.
        registry: gets the metrics; call this once for each registry.
        settings: how the hosts are reached; None means `DirectSettings()`.
        guard: forbids changes.
        read: returns the definitions of a dead host; None when none are stored.

    Raises:
        ConfigurationError: an address cannot be read.
    """
    from hypercobalt.compute.direct import connecting, definitions  # noqa: PLC0415 - not with Nova

    stored = definitions.StoredByAgents(read) if read else definitions.NotStored()
    return connecting.connect(hypervisors, registry, settings or DirectSettings(), guard, stored)
