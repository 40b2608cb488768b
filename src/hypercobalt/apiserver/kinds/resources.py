"""Which kinds are served, and everything the request pipeline reads of one.

Built-in kinds are data taken from a real kube-apiserver (openapi/builtin.json.gz, made by
scripts/extract-openapi); custom kinds come and go with their CustomResourceDefinitions. Schemas are
compiled when first used, so an idle server does not hold what no client requests.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import resources as package_files

import msgspec

from hypercobalt.apiserver.errors import JSON, JSONObject, Subject
from hypercobalt.apiserver.kinds import tables
from hypercobalt.apiserver.kinds.builtin import rows
from hypercobalt.apiserver.kinds.schemas import Conformed, Schema, SchemaLibrary
from hypercobalt.apiserver.kinds.serving import is_established
from hypercobalt.apiserver.values import at, object_at, objects_at, text_at, texts_at
from hypercobalt.logs import get_logger

log = get_logger(__name__)

CRD_RESOURCE = "customresourcedefinitions.apiextensions.k8s.io"
SERVED = frozenset({"binding", "finalize", "status", "token"})  # subresources of built-in kinds
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


def version_priority(version: str) -> tuple[int, int, int]:
    """How versions of a group are ordered: v2 before v1 before v1beta1 before v1alpha1."""
    found = re.fullmatch(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?", version)
    if not found:
        return (0, 0, 0)
    return ({"alpha": 1, "beta": 2}.get(found[2], 3), int(found[1]), int(found[3] or 0))


@dataclass(frozen=True, slots=True)
class Names:
    plural: str
    singular: str
    kind: str
    list_kind: str
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Resource:
    """One kind in one served version."""

    group: str
    version: str
    names: Names
    namespaced: bool
    schema: Schema
    printer: tables.Printer
    custom: bool = False
    status: bool = False  # has a status subresource
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()  # subresources that kube-apiserver has and we do not
    selectable: tuple[str, ...] = ()  # field selectors beyond metadata.name and .namespace
    stored_as: str = ""  # the store's name of the kind, where two groups serve one
    storage_version: str = ""
    revised: bool = False  # its schema may be younger than stored objects
    deprecation: str | None = None  # text of the Warning header
    _conformed: Conformed = field(default_factory=Conformed)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        return f"{self.names.plural}.{self.group}" if self.group else self.names.plural

    @property
    def stored(self) -> str:
        return self.stored_as or self.qualified

    def subject(self, name: str = "") -> Subject:
        return Subject(self.group, self.names.plural, name)

    def conformed(self, data: bytes, *, remember: bool = True) -> bytes:
        """Return a stored object with the defaults and without the fields of an older schema.

        The result is remembered; pass `remember=False` for an object that may be gone.
        """
        if not self.revised:
            return data
        return self._conformed.get(self.schema.node, data, remember=remember)

    def forget(self, place: tuple[str, str]) -> None:
        """Drop what is remembered of an object that is gone, by its namespace and name."""
        self._conformed.forget(place)

    def head(self) -> bytes:
        """How every stored object of this kind begins."""
        version = msgspec.json.encode(self.api_version)
        return b'{"apiVersion":%s,"kind":%s,' % (version, msgspec.json.encode(self.names.kind))


class _BuiltinSubresource(msgspec.Struct):
    subresource: str


class _BuiltinKind(msgspec.Struct):
    group: str
    version: str
    kind: str
    plural: str
    singular: str
    shortNames: list[str]  # noqa: N815  # as in the data
    categories: list[str]
    namespaced: bool
    schema: str
    verbs: list[str]
    subresources: list[_BuiltinSubresource]
    columns: msgspec.Raw = msgspec.Raw(b"[]")


class _Builtin(msgspec.Struct):
    version: str
    kinds: list[_BuiltinKind]
    schemas: dict[str, msgspec.Raw]


_SELECTABLE = {
    "Pod": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    "Event": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "Node": ("spec.unschedulable",),
    "Namespace": ("status.phase",),
    "Secret": ("type",),
    "Service": ("spec.clusterIP", "spec.type"),
}


@dataclass(slots=True)
class Registry:
    """Every served resource, by group, version and plural."""

    version: str
    library: SchemaLibrary
    builtin: dict[tuple[str, str, str], Resource]
    custom: dict[str, tuple[Resource, ...]] = field(
        default_factory=dict[str, tuple[Resource, ...]]
    )  # by CRD name

    @classmethod
    def load(cls) -> Registry:
        packed = package_files.files("hypercobalt.apiserver.kinds") / "openapi" / "builtin.json.gz"
        data = msgspec.json.decode(gzip.decompress(packed.read_bytes()), type=_Builtin)
        # Raw values would keep the whole document alive; copies hold their own bytes only.
        library = SchemaLibrary({name: raw.copy() for name, raw in data.schemas.items()})
        served: dict[tuple[str, str, str], Resource] = {}
        for kind in data.kinds:
            resource = _builtin_resource(kind, library)
            served[resource.group, resource.version, resource.names.plural] = resource
        return cls(data.version, library, served)

    def all(self) -> Iterator[Resource]:
        yield from self.builtin.values()
        for versions in self.custom.values():
            yield from versions

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        known = self.builtin.get((group, version, plural))
        if known is not None:
            return known
        versions = self.custom.get(f"{plural}.{group}", ())
        return next((r for r in versions if r.version == version), None)

    def is_builtin(self, group: str) -> bool:
        return any(group == known[0] for known in self.builtin)

    def by_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource that an owner reference or a body names."""
        for resource in self.all():
            if resource.names.kind == kind and resource.api_version == api_version:
                return resource
        group = api_version.rpartition("/")[0]
        same = (r for r in self.all() if r.names.kind == kind and r.group == group)
        return next(same, None)

    def by_stored(self, stored: str) -> Resource | None:
        """The resource that stores under this name, in its storage version if that is served."""
        found = [resource for resource in self.all() if resource.stored == stored]
        first = (r for r in found if r.version == r.storage_version)
        return next(first, found[0] if found else None)

    def define(self, crd: JSONObject) -> None:
        """Serve, change or stop serving what a CustomResourceDefinition declares."""
        name = text_at(crd, "metadata", "name")
        versions = tuple(_custom_resources(crd, self.library)) if is_established(crd) else ()
        if versions:
            self.custom[name] = versions
        else:
            self.custom.pop(name, None)


def _builtin_resource(kind: _BuiltinKind, library: SchemaLibrary) -> Resource:
    subresources = tuple(entry.subresource for entry in kind.subresources)
    columns: list[JSON] = msgspec.json.decode(kind.columns)
    served = tuple(name for name in subresources if name in SERVED)
    return Resource(
        group=kind.group,
        version=kind.version,
        names=Names(
            kind.plural,
            kind.singular,
            kind.kind,
            f"{kind.kind}List",
            tuple(kind.shortNames),
            tuple(kind.categories),
        ),
        namespaced=kind.namespaced,
        schema=Schema(kind.schema, library),
        printer=rows.printer(kind.kind, columns),
        status="status" in subresources,
        verbs=tuple(kind.verbs),
        subresources=served,
        refused=tuple(name for name in subresources if name not in served),
        selectable=_SELECTABLE.get(kind.kind, ()),
        stored_as="events" if kind.kind == "Event" else "",
        # Both event groups store the core form.
        storage_version="" if kind.group == "events.k8s.io" else kind.version,
    )


def _custom_resources(crd: JSONObject, library: SchemaLibrary) -> Iterator[Resource]:
    listed = objects_at(crd, "spec", "versions")
    storage = next((str(v["name"]) for v in listed if v.get("storage") is True), "")
    group = text_at(crd, "spec", "group")
    reversed_group = ".".join(reversed(group.split(".")))
    names = _names(at(crd, "status", "acceptedNames"))
    for version in listed:
        if version.get("served") is not True:
            continue
        warning = version.get("deprecationWarning") or _deprecated(group, version, listed, names)
        has_status = isinstance(at(version, "subresources", "status"), dict)
        yield Resource(
            group=group,
            version=str(version["name"]),
            names=names,
            namespaced=at(crd, "spec", "scope") == "Namespaced",
            schema=Schema(
                f"{reversed_group}.{version['name']}.{names.kind}",
                library,
                object_at(version, "schema", "openAPIV3Schema"),
            ),
            printer=_custom_printer(version, names.kind),
            custom=True,
            status=has_status,
            subresources=("status",) * has_status,
            refused=("scale",) * ("scale" in object_at(version, "subresources")),
            selectable=tuple(
                text_at(entry, "jsonPath").removeprefix(".")
                for entry in objects_at(version, "selectableFields")
            ),
            storage_version=storage,
            revised=at(crd, "metadata", "generation") != 1,
            deprecation=str(warning) if version.get("deprecated") is True else None,
        )


def _custom_printer(version: JSONObject, kind: str) -> tables.Printer:
    try:
        return tables.custom_printer(objects_at(version, "additionalPrinterColumns"))
    except ValueError as error:  # of a definition that an older version took
        log.warning("columns_not_shown", kind=kind, reason=str(error))
        return tables.custom_printer([])


def _deprecated(group: str, version: JSONObject, versions: list[JSONObject], names: Names) -> str:
    text = f"{group}/{version['name']} {names.kind} is deprecated"
    for other in versions:
        if other.get("served") is True and other.get("deprecated") is not True:
            return f"{text}; use {group}/{other['name']} {names.kind}"
    return text


def _names(raw: JSON) -> Names:
    kind = text_at(raw, "kind")
    return Names(
        text_at(raw, "plural"),
        text_at(raw, "singular") or kind.lower(),
        kind,
        text_at(raw, "listKind") or f"{kind}List",
        tuple(texts_at(raw, "shortNames")),
        tuple(texts_at(raw, "categories")),
    )
