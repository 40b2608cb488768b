"""As much of a Hypervisor as a shutdown of its host needs, for when the rest cannot be read."""

from __future__ import annotations

from typing import ClassVar

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import Object, ResourceInfo, Struct


class DrainSpec(Struct, frozen=True):
    """Whether the host is drained."""

    evacuateOnReboot: bool | None = None


class HypervisorGlance(Object, frozen=True):
    """A Hypervisor that can be read although the rest of it does not fit its type."""

    resource: ClassVar[ResourceInfo] = Hypervisor.resource

    spec: DrainSpec = DrainSpec()
