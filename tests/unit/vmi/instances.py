"""A VirtualMachineInstance that is allowed, and changes of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Final, Literal, cast

from hypercobalt.vmi import admission
from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.review import Json, JsonObject, RequestUser, Review, ReviewRefusal

NOW: Final = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
UUID: Final = "7d0c3f5e-1c1f-4a54-9f3e-0d3b8a6a1c11"
JANE: Final = RequestUser("jane")
CLUSTER: Final = ClusterConfig()

_SENT: Final = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "VirtualMachineInstance",
    "metadata": {"name": "one", "namespace": "lab"},
    "spec": {
        "domain": {
            "devices": {
                "disks": [{"name": "root", "disk": {"bus": "virtio"}}],
                "interfaces": [{"name": "default", "masquerade": {}}],
            },
            "memory": {"guest": "128Mi"},
        },
        "networks": [{"name": "default", "pod": {}}],
        "volumes": [{"name": "root", "containerDisk": {"image": "alpine:3.20"}}],
    },
}


def instance(**changes: Json) -> JsonObject:
    """The manifest with values at paths such as `spec__domain__cpu`; list items by number."""
    made = cast("JsonObject", json.loads(json.dumps(_SENT)))
    for path, value in changes.items():
        *steps, last = path.split("__")
        at: Json = made
        for step in steps:
            if isinstance(at, list):
                at = at[int(step)]
            elif isinstance(at, dict):
                at = at.setdefault(step, {})
        assert isinstance(at, dict)
        at[last] = value
    return made


def mutated(
    sent: JsonObject,
    old: JsonObject | None = None,
    user: RequestUser = JANE,
    cluster: ClusterConfig = CLUSTER,
) -> JsonObject | ReviewRefusal:
    """What is stored of it."""
    return admission.mutate(review(sent, old, user), cluster, now=NOW, uuid=UUID)


def review(sent: JsonObject, old: JsonObject | None = None, user: RequestUser = JANE) -> Review:
    operation: Literal["CREATE", "UPDATE"] = "CREATE" if old is None else "UPDATE"
    return Review(operation, user, sent, old)


def stored(sent: JsonObject) -> JsonObject:
    """What is stored of it, which is not refused."""
    made = mutated(sent)
    assert not isinstance(made, ReviewRefusal), made.message
    return made


def fields(sent: JsonObject, cluster: ClusterConfig = CLUSTER) -> list[str]:
    """The fields at which a new object is refused."""
    made = mutated(sent, cluster=cluster)
    if isinstance(made, ReviewRefusal):
        return [cause.field for cause in made.causes]
    return [cause.field for cause in admission.validate(review(made), cluster)]
