"""Serves discovery, OpenAPI and the version.

Source: API concepts, "API discovery"; apidiscovery.k8s.io/v2; OpenAPI v3 as kube-apiserver serves.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator

import msgspec

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.errors import JSON, JSONObject
from hypercobalt.apiserver.kinds.resources import Registry, Resource, version_priority
from hypercobalt.apiserver.requests.request import SUBRESOURCE_VERBS, Request, Response

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
OPENAPI_V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


class Discovery:
    """Answers the paths that describe the server."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def _version(self) -> Response:
        version = self._registry.version
        major, minor, _ = version.removeprefix("v").split(".")
        return _json(
            {
                "major": major,
                "minor": minor,
                "gitVersion": f"{version}+cobalt",
                "gitCommit": "",
                "gitTreeState": "clean",
                "buildDate": "1970-01-01T00:00:00Z",
                "goVersion": "",
                "compiler": "cpython",
                "platform": "linux/amd64",
            }
        )

    def answer(self, request: Request) -> Response | None:
        """The answer to a discovery path; None when the path is none."""
        parts = request.path.strip("/").split("/")
        match parts:
            case ["version"]:
                return self._version()
            case ["api"] | ["apis"] if _wants_aggregated(request):
                body = self._aggregated(core=parts == ["api"])
                return Response(200, msgspec.json.encode(body), AGGREGATED)
            case ["api"]:
                return _json({"kind": "APIVersions", "versions": ["v1"]})
            case ["apis"]:
                groups: list[JSON] = [self._group(name) for name in self._groups() if name]
                return _json({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
            case ["apis", group] if group in self._groups():
                return _json({"kind": "APIGroup", "apiVersion": "v1", **self._group(group)})
            case ["api", version]:
                found = self._resource_list("", version)
                if found is None:
                    raise errors.no_such_path()
                return found
            case ["apis", group, version]:
                return self._resource_list(group, version)
            case ["openapi", "v2"]:
                return _no_openapi_v2(request)
            case ["openapi", "v3", *rest]:
                return self._openapi("/".join(rest))
            case _:
                return None

    def _groups(self) -> dict[str, list[str]]:
        found: dict[str, set[str]] = {}
        for resource in self._registry.all():
            found.setdefault(resource.group, set()).add(resource.version)
        return {
            group: sorted(versions, key=version_priority, reverse=True)
            for group, versions in found.items()
        }

    def _of(self, group: str, version: str) -> list[Resource]:
        return [r for r in self._registry.all() if (r.group, r.version) == (group, version)]

    def _group(self, name: str) -> JSONObject:
        versions: list[JSON] = [
            {"groupVersion": f"{name}/{version}", "version": version}
            for version in self._groups()[name]
        ]
        return {"name": name, "versions": versions, "preferredVersion": versions[0]}

    def _resource_list(self, group: str, version: str) -> Response | None:
        resources = self._of(group, version)
        if not resources:
            return None
        listed: list[JSON] = [entry for r in resources for entry in _entries(r)]
        body: JSONObject = {
            "kind": "APIResourceList",
            "groupVersion": f"{group}/{version}" if group else version,
            "resources": listed,
        }
        if group:
            body["apiVersion"] = "v1"
        return _json(body)

    def _aggregated(self, *, core: bool) -> JSONObject:
        items: list[JSON] = []
        for group, versions in self._groups().items():
            if (group == "") is not core:
                continue
            listed: list[JSON] = [
                {
                    "version": version,
                    "resources": [_aggregated_entry(r) for r in self._of(group, version)],
                    "freshness": "Current",
                }
                for version in versions
            ]
            meta: JSONObject = {"creationTimestamp": None}
            if group:
                meta["name"] = group
            items.append({"metadata": meta, "versions": listed})
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": items,
        }

    # -- OpenAPI -------------------------------------------------------------------------------

    def _openapi(self, place: str) -> Response | None:
        pages: dict[str, list[Resource]] = {}
        for resource in self._registry.all():
            prefix = "apis" if resource.group else "api"
            pages.setdefault(f"{prefix}/{resource.api_version}", []).append(resource)
        if not place:
            paths: JSONObject = {}
            for page, resources in pages.items():
                mark = _fingerprint(resources)
                url = f"/openapi/v3/{page}?hash={mark}"
                paths[page] = {"serverRelativeURL": url}
            return _json({"paths": paths})
        if place not in pages:
            return None
        return _json(self._document(pages[place]))

    def _document(self, resources: list[Resource]) -> JSONObject:
        builtin = [r.schema.name for r in resources if not r.custom]
        schemas = self._registry.library.closure(builtin)
        paths: JSONObject = {}
        for resource in resources:
            gvk: JSONObject = {
                "group": resource.group,
                "version": resource.version,
                "kind": resource.names.kind,
            }
            if resource.custom:
                standard = self._registry.library.raw(_STANDARD)["properties"]
                schemas[resource.schema.name] = _custom_document(resource, gvk, standard)
                schemas |= self._registry.library.closure([_META])
            paths |= _paths(resource, gvk)
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": self._registry.version},
            "paths": paths,
            "components": {"schemas": schemas},
        }


_STANDARD = "io.k8s.api.core.v1.ConfigMap"  # declares of its own fields what every kind does
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def _custom_document(resource: Resource, gvk: JSONObject, standard: JSON) -> JSONObject:
    document = dict(resource.schema.document())
    declared = document.get("properties")
    properties = dict(declared) if isinstance(declared, dict) else {}
    for name, described in standard.items() if isinstance(standard, dict) else ():
        if name in ("apiVersion", "kind", "metadata") and isinstance(described, dict):
            properties[name] = {n: part for n, part in described.items() if n != "default"}
    document["properties"] = properties
    document["x-kubernetes-group-version-kind"] = [gvk]
    if resource.selectable:
        paths: list[JSON] = [{"fieldPath": path} for path in resource.selectable]
        document["x-kubernetes-selectable-fields"] = paths
    return document


def _paths(resource: Resource, gvk: JSONObject) -> JSONObject:
    """The operations that clients look up: which parameters a patch takes."""
    prefix = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    middle = "/namespaces/{namespace}" if resource.namespaced else ""
    names = ("dryRun", "fieldManager", "fieldValidation", "force")
    parameters: list[JSON] = [
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in names
    ]
    operation: JSONObject = {
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": gvk,
        "parameters": parameters,
        "responses": {},
    }
    return {f"{prefix}{middle}/{resource.names.plural}/{{name}}": {"patch": operation}}


def _fingerprint(resources: list[Resource]) -> str:
    digest = hashlib.sha256()
    for resource in resources:
        digest.update(resource.qualified.encode())
        if resource.custom:
            digest.update(msgspec.json.encode(resource.schema.document()))
    return digest.hexdigest()[:32].upper()


_OTHER_KINDS: dict[str, JSONObject] = {  # subresources that are objects of another kind
    "token": {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"},
    "binding": {"group": "", "version": "", "kind": "Binding"},
}


def _entries(resource: Resource) -> Iterator[JSONObject]:
    names = resource.names
    entry: JSONObject = {
        "name": names.plural,
        "singularName": names.singular,
        "namespaced": resource.namespaced,
        "kind": names.kind,
        "verbs": list(resource.verbs),
        **_optional_names(resource),
    }
    if resource.custom:
        stored = f"{resource.group}/{resource.storage_version}/{names.kind}"
        digest = hashlib.sha256(stored.encode()).digest()
        entry["storageVersionHash"] = base64.b64encode(digest[:8]).decode()
    yield entry
    for name in resource.subresources:
        other = _OTHER_KINDS.get(name, {"kind": names.kind})
        yield {
            "name": f"{names.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            **{field: value for field, value in other.items() if value},
            "verbs": list(SUBRESOURCE_VERBS[name]),
        }


def _aggregated_entry(resource: Resource) -> JSONObject:
    names = resource.names
    kind: JSONObject = {"group": "", "version": "", "kind": names.kind}
    if resource.custom:  # clients read an empty one as the list's own
        kind |= {"group": resource.group, "version": resource.version}
    entry: JSONObject = {
        "resource": names.plural,
        "responseKind": kind,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": names.singular,
        "verbs": list(resource.verbs),
        **_optional_names(resource),
    }
    if resource.subresources:
        entry["subresources"] = [
            {
                "subresource": name,
                "responseKind": _OTHER_KINDS.get(name, kind),
                "verbs": list(SUBRESOURCE_VERBS[name]),
            }
            for name in resource.subresources
        ]
    return entry


def _optional_names(resource: Resource) -> JSONObject:
    names = {"shortNames": resource.names.short, "categories": resource.names.categories}
    return {name: list(listed) for name, listed in names.items() if listed}


def _wants_aggregated(request: Request) -> bool:
    accept = request.headers.get("accept", "").replace(" ", "")
    return "as=APIGroupDiscoveryList" in accept and "v=v2" in accept.replace("v=v2beta1", "")


def _no_openapi_v2(request: Request) -> Response:
    """A document without kinds: what kubectl requests when v3 does not have a kind.

    With it, kubectl names the missing kind; without, it reports a missing resource only.
    Source: the message Document of gnostic's openapiv2/OpenAPIv2.proto.
    """
    title, version = "described by OpenAPI v3 only", "v2"
    if OPENAPI_V2_PROTOBUF in request.headers.get("accept", ""):
        info = _protobuf_text(1, title) + _protobuf_text(2, version)
        body = _protobuf_text(1, "2.0") + _protobuf_text(2, info.decode())
        return Response(200, body, OPENAPI_V2_PROTOBUF.replace("@", "."))
    return _json({"swagger": "2.0", "info": {"title": title, "version": version}, "paths": {}})


def _protobuf_text(number: int, text: str) -> bytes:
    """A field of short text."""
    data = text.encode()
    return bytes((number << 3 | 2, len(data))) + data


def _json(body: JSONObject) -> Response:
    return Response(200, msgspec.json.encode(body))
