"""CustomResourceDefinition, as much as is needed to see whether one is served.

The manifests that we install are built by `crd.py`, as plain dicts.

Source: k8s.io/apiextensions-apiserver, apis/apiextensions/v1/types.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from hypercobalt.api.meta import Object, ResourceInfo, Struct


class DefinitionNames(Struct, frozen=True):
    plural: str = ""
    singular: str = ""
    kind: str = ""
    listKind: str = ""
    shortNames: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class DefinitionVersion(Struct, frozen=True):
    name: str
    served: bool
    storage: bool


class CustomResourceDefinitionSpec(Struct, frozen=True):
    group: str = ""
    scope: str = ""  # Cluster or Namespaced
    names: DefinitionNames = DefinitionNames()
    versions: tuple[DefinitionVersion, ...] = ()


class DefinitionCondition(Struct, frozen=True):
    type: str  # Established, NamesAccepted, NonStructuralSchema and others
    status: str
    reason: str = ""
    message: str = ""
    lastTransitionTime: datetime | None = None


class CustomResourceDefinitionStatus(Struct, frozen=True):
    acceptedNames: DefinitionNames = DefinitionNames()
    conditions: tuple[DefinitionCondition, ...] | None = None  # null right after create
    storedVersions: tuple[str, ...] | None = None


class CustomResourceDefinition(Object, frozen=True):
    resource: ClassVar[ResourceInfo] = ResourceInfo(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "Cluster",
    )

    spec: CustomResourceDefinitionSpec = CustomResourceDefinitionSpec()
    status: CustomResourceDefinitionStatus = CustomResourceDefinitionStatus()
