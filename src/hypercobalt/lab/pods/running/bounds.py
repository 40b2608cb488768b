"""PodBounds of a pod's unit, from the resources of its container. Pure.

As a kubelet does it: a limit bounds, a request weighs. A pod without a limit of memory has none.

Source: kubernetes, pkg/kubelet/cm/helpers_linux.go; systemd.resource-control(5).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from hypercobalt.api.pods import ResourceRequirements
from hypercobalt.api.quantity import units
from hypercobalt.api.workloads import Container

TASKS: Final = 1024
"""Processes and threads of a pod, as `podPidsLimit` of a kubelet."""
_SHARES_OF_A_CPU: Final = 1024
_FEWEST_SHARES: Final = 2
_MOST_SHARES: Final = 262144
_SECOND_US: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PodBounds:
    """PodBounds of one pod.

    Attributes:
        memory_bytes: the most memory, page cache included; None for no bound.
        cpu_us: CPU time in each second, in microseconds; None for no bound.
        cpu_shares: weight beside other pods; a request of one CPU weighs 1024.
    """

    memory_bytes: int | None = None
    cpu_us: int | None = None
    cpu_shares: int = _FEWEST_SHARES


def bounds_of(container: Container) -> PodBounds:
    """Read the bounds of a container; an amount that cannot be read counts as none."""
    given = container.resources or ResourceRequirements()
    cpu, memory = _limit(given, "cpu"), _limit(given, "memory")
    weighed = given.requests.get("cpu", given.limits.get("cpu"))
    shares = int(units(weighed) * _SHARES_OF_A_CPU)
    return PodBounds(
        memory_bytes=None if memory is None else int(memory),
        cpu_us=None if cpu is None else max(1, int(cpu * _SECOND_US)),
        cpu_shares=min(max(shares, _FEWEST_SHARES), _MOST_SHARES),
    )


def _limit(given: ResourceRequirements, name: str) -> Fraction | None:
    """A limit; None without one, which is also what a limit of 0 means."""
    return units(given.limits.get(name)) or None
