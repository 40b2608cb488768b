"""All drills, by name."""

from __future__ import annotations

from typing import Final

from hypercobalt.drills import (
    combined,
    configuration,
    control_plane,
    fences,
    hosts,
    instances,
    moving,
    outages,
    partitions,
    remains,
    storage,
    storage_fences,
)

DRILLS: Final = {
    drill.name: drill
    for drill in (
        *instances.DRILLS,
        *hosts.DRILLS,
        *fences.DRILLS,
        *control_plane.DRILLS,
        *storage.DRILLS,
        *partitions.DRILLS,
        *storage_fences.DRILLS,
        *outages.DRILLS,
        *configuration.DRILLS,
        *combined.DRILLS,
        *moving.DRILLS,
        *remains.DRILLS,
    )
}
