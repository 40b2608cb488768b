"""A stand-in for the admission of VirtualMachineInstances, with few rules and every kind of answer.

It sets the label `seen`; a guest without memory is refused by mutation, one with the label `bad`
by validation, and the annotation `fault` makes it raise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from hypercobalt.vmi.review import (
    CauseReason,
    FieldCause,
    JsonObject,
    Review,
    ReviewRefusal,
    refusal,
)

MISSING = FieldCause(CauseReason.REQUIRED, "spec.domain", "spec.domain is required")
BAD = FieldCause(CauseReason.FORBIDDEN, "metadata.labels", "the label bad may not be set")


def instance(name: str = "one", *, domain: bool = True, **labels: str) -> JsonObject:
    """A VirtualMachineInstance of which this admission knows what to think."""
    spec: JsonObject = {"domain": {"devices": {}}} if domain else {}
    meta: JsonObject = {"name": name, "namespace": "default", "labels": {**labels}}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": meta,
        "spec": spec,
    }


def labels_of(obj: JsonObject) -> dict[str, str]:
    meta = cast("dict[str, dict[str, str]]", obj["metadata"])
    return meta.get("labels") or {}


@dataclass
class StandIn:
    """An `Admission`."""

    seen: list[Review] = field(default_factory=list[Review])

    def mutate(self, review: Review) -> JsonObject | ReviewRefusal:
        self.seen.append(review)
        if "fault" in labels_of(review.object):
            raise RuntimeError("a bug")
        if not cast("JsonObject", review.object["spec"]).get("domain"):
            return refusal([MISSING])
        meta = cast("JsonObject", review.object["metadata"])
        labels: JsonObject = {**labels_of(review.object), "seen": "yes"}
        return {**review.object, "metadata": {**meta, "labels": labels}}

    def validate(self, review: Review) -> tuple[FieldCause, ...]:
        self.seen.append(review)
        return (BAD,) * int(labels_of(review.object).get("bad", 0))
