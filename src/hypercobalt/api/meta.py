"""The parts that every Kubernetes object has, and how a struct names its resource.

Wire types are frozen msgspec structs that keep the wire's field names. An optional field is None
(or an empty tuple or dict) when absent, and is then not written; a field that is set is always
written, also when it equals the schema's default. Unknown fields are ignored on read and are never
written back: we write by server-side apply or by patches of what differs (`runtime.client.patch`),
so they survive on the server, in the items of lists too.

Source: k8s.io/apimachinery, meta/v1/types.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Literal

import msgspec

Scope = Literal["Cluster", "Namespaced"]


@dataclass(frozen=True, slots=True)
class ResourceInfo:
    """Where the API serves a kind."""

    group: str  # "" for the core group
    version: str
    kind: str
    plural: str
    scope: Scope

    @property
    def api_version(self) -> str:
        """`group/version`, or the bare version for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def namespaced(self) -> bool:
        return self.scope == "Namespaced"

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """The URL path of the collection, or of one object when `name` is given.

        Args:
            namespace: None for a cluster-scoped kind, or for a list over all namespaces.
            name: object name; None for the collection.
        """
        prefix = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [prefix]
        if namespace is not None:
            parts.append(f"namespaces/{namespace}")
        parts.append(self.plural)
        if name is not None:
            parts.append(name)
        return "/".join(parts)


class Struct(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    repr_omit_defaults=True,
    gc=False,  # wire types are trees: without tracking, ten thousand decode in two thirds the time
):
    """Base of every wire type."""


class OwnerReference(Struct, frozen=True):
    apiVersion: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    blockOwnerDeletion: bool | None = None


class ManagedFieldsEntry(Struct, frozen=True):
    """Who wrote, and how; which fields is left undecoded: no controller reads it."""

    manager: str = ""
    operation: str = ""  # Apply or Update
    subresource: str = ""
    time: datetime | None = None


class ObjectMeta(Struct, frozen=True):
    name: str = ""
    generateName: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    generation: int = 0
    creationTimestamp: datetime | None = None
    deletionTimestamp: datetime | None = None
    deletionGracePeriodSeconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    ownerReferences: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    managedFields: tuple[ManagedFieldsEntry, ...] = ()


class LabelSelectorRequirement(Struct, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True):
    matchLabels: dict[str, str] = {}
    matchExpressions: tuple[LabelSelectorRequirement, ...] = ()


class Object(Struct, frozen=True):
    """Base of every kind. A subclass sets `resource` and adds its own fields."""

    resource: ClassVar[ResourceInfo]

    apiVersion: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


def owner_reference(
    owner: Object, *, controller: bool = False, blocks: bool = False
) -> OwnerReference:
    """A reference that has the API server's collector delete an object with its owner.

    Args:
        owner: as read: its uid counts.
        controller: the owner manages the object; it may have one such owner only.
        blocks: a deletion of the owner in the foreground waits for the object.
    """
    info, meta = owner.resource, owner.metadata
    return OwnerReference(
        apiVersion=info.api_version,
        kind=info.kind,
        name=meta.name,
        uid=meta.uid,
        controller=controller or None,
        blockOwnerDeletion=blocks or None,
    )
