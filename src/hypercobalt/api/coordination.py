"""Leases and Events: how processes report to each other, and to people, what they do.

Both carry `MicroTime` fields; `times.micro_time(now)` makes the value.

Source: k8s.io/api, coordination/v1 and events/v1 types.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Final

from msgspec import field

from hypercobalt.api.meta import (
    ManagedFieldsEntry,
    Object,
    ObjectMeta,
    OwnerReference,
    ResourceInfo,
    Struct,
)
from hypercobalt.api.times import MicroTime

OPERATOR_LEASE: Final = "4c28796a.cloud.sap"
"""Name of the Lease of the operator's leader, without shards: the existing operator's."""


class LeaseSpec(Struct, frozen=True):
    """Who holds the lease and for how long."""

    holderIdentity: str | None = None
    leaseDurationSeconds: int | None = None
    acquireTime: MicroTime | None = None
    renewTime: MicroTime | None = None
    leaseTransitions: int | None = None


class Lease(Object, frozen=True):
    resource: ClassVar[ResourceInfo] = ResourceInfo(
        "coordination.k8s.io", "v1", "Lease", "leases", "Namespaced"
    )

    spec: LeaseSpec = LeaseSpec()


class GlanceSpec(Struct, frozen=True):
    """As much of a Lease's spec as a watcher needs; the time is left as text."""

    holderIdentity: str | None = None
    leaseDurationSeconds: int | None = None
    renewTime: str = ""


class GlanceMeta(ObjectMeta, frozen=True):
    """Metadata without what takes most of the time to decode: no wire field has these names."""

    creationTimestamp: datetime | None = field(default=None, name="-creationTimestamp")
    ownerReferences: tuple[OwnerReference, ...] = field(default=(), name="-ownerReferences")
    managedFields: tuple[ManagedFieldsEntry, ...] = field(default=(), name="-managedFields")


class LeaseGlance(Object, frozen=True):
    """A Lease as a watcher of thousands reads it: a fifth of the time that `Lease` takes."""

    resource: ClassVar[ResourceInfo] = Lease.resource

    metadata: GlanceMeta = GlanceMeta()
    spec: GlanceSpec = GlanceSpec()


class ObjectReference(Struct, frozen=True):
    """Which object an Event is about."""

    apiVersion: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resourceVersion: str = ""
    fieldPath: str = ""


class EventSource(Struct, frozen=True):
    component: str = ""
    host: str = ""


class EventSeries(Struct, frozen=True):
    """How often the same thing has happened; absent while it happened once."""

    count: int
    lastObservedTime: MicroTime


class Event(Object, frozen=True):
    """An Event as `events.k8s.io/v1` has it: the one to write.

    The server maps both versions onto one stored object. The deprecated fields are the core
    version's; a new Event of this version is refused with any of them.
    """

    resource: ClassVar[ResourceInfo] = ResourceInfo(
        "events.k8s.io", "v1", "Event", "events", "Namespaced"
    )

    eventTime: MicroTime | None = None  # required by the server on create
    series: EventSeries | None = None
    reportingController: str = ""  # required, a qualified name such as example.com/agent
    reportingInstance: str = ""  # required, at most 128 characters
    action: str = ""  # required, at most 128 characters
    reason: str = ""  # required, at most 128 characters
    regarding: ObjectReference | None = None
    related: ObjectReference | None = None
    note: str = ""  # at most 1024 bytes
    type: str = ""  # Normal or Warning
    deprecatedSource: EventSource | None = None
    deprecatedFirstTimestamp: datetime | None = None
    deprecatedLastTimestamp: datetime | None = None
    deprecatedCount: int | None = None
