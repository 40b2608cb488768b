"""Which changes of a VirtualMachineInstance are refused, by who makes them."""

from __future__ import annotations

from collections.abc import Iterator

from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.review import FieldCause, Review


def causes_of_update(review: Review, cluster: ClusterConfig) -> Iterator[FieldCause]:
    """Why a change is refused."""
    yield from ()
