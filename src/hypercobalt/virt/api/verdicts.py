"""The verdicts of `vmi.admission`, with the clock and the random numbers that it is given."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime

from hypercobalt.vmi import admission
from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.review import FieldCause, JsonObject, Review, ReviewRefusal


@dataclass(frozen=True, slots=True)
class VMIAdmission:
    """An `Admission` by the settings of one cluster."""

    cluster: ClusterConfig

    def mutate(self, review: Review) -> JsonObject | ReviewRefusal:
        """See `Admission`."""
        now, made = datetime.now(UTC), str(uuid.uuid4())
        return admission.mutate(review, self.cluster, now=now, uuid=made)

    def validate(self, review: Review) -> tuple[FieldCause, ...]:
        """See `Admission`."""
        return admission.validate(review, self.cluster)
