"""Refusals that kube-apiserver gives for built-in kinds beyond their schema.

Source: kubernetes pkg/apis/*/validation.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator

from hypercobalt.apiserver.errors import JSON, Cause, FieldErrors, JSONObject, bad_request
from hypercobalt.apiserver.kinds import names
from hypercobalt.apiserver.kinds.builtin import events, policies
from hypercobalt.apiserver.values import object_at, objects_at, text_at, texts_at

Check = Callable[[JSONObject, JSONObject | None], list[Cause]]

MAX_DATA = 2**20  # bytes in a ConfigMap or Secret
PORTS = range(1, 65536)


def _check_secret(obj: JSONObject, old: JSONObject | None) -> list[Cause]:
    data = object_at(obj, "data")
    causes = [cause for key in data for cause in _check_key("data", key)]
    causes += _check_size("data", {}, data)
    if obj.get("type") == "kubernetes.io/tls":
        missing = (name for name in ("tls.crt", "tls.key") if name not in data)
        causes += [FieldErrors.required(f"data[{name}]") for name in missing]
    if old is not None and old.get("type") != obj.get("type"):
        causes.append(FieldErrors.invalid("type", obj.get("type"), "field is immutable"))
    return causes + _check_immutable(obj, old, ("data", "stringData"))


def _check_config_map(obj: JSONObject, old: JSONObject | None) -> list[Cause]:
    causes: list[Cause] = []
    for group in ("data", "binaryData"):
        for key in object_at(obj, group):
            causes += _check_key(group, key)
    for key in object_at(obj, "data").keys() & object_at(obj, "binaryData").keys():
        text = "duplicate of key present in binaryData"
        causes.append(FieldErrors.invalid(f"data[{key}]", key, text))
    causes += _check_size("[]", object_at(obj, "data"), object_at(obj, "binaryData"))
    return causes + _check_immutable(obj, old, ("data", "binaryData"))


def _check_size(place: str, plain: JSONObject, encoded: JSONObject) -> Iterator[Cause]:
    size = sum(len(str(value).encode()) for value in plain.values())
    size += sum(len(base64.b64decode(str(value or ""))) for value in encoded.values())
    if size > MAX_DATA:
        yield FieldErrors.too_long(place, MAX_DATA)


def _check_key(group: str, key: str) -> list[Cause]:
    """A key of a ConfigMap or Secret, which becomes a file's name."""
    texts: list[str] = []
    if len(key) > names.MAX_SUBDOMAIN:
        texts.append(f"must be no more than {names.MAX_SUBDOMAIN} characters")
    if not re.fullmatch(r"[-._a-zA-Z0-9]+", key):
        texts.append(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
            "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation "
            "is '[-._a-zA-Z0-9]+')"
        )
    elif key in (".", ".."):
        texts.append(f"must not be '{key}'")
    elif key.startswith(".."):
        texts.append("must not start with '..'")
    return [FieldErrors.invalid(f"{group}[{key}]", key, text) for text in texts]


def _check_immutable(
    obj: JSONObject, old: JSONObject | None, fields: tuple[str, ...]
) -> list[Cause]:
    if old is None or old.get("immutable") is not True:
        return []
    causes: list[Cause] = []
    text = "field is immutable when `immutable` is set"
    if obj.get("immutable") is not True:
        causes.append(FieldErrors.forbidden("immutable", text))
    changed = (name for name in fields if obj.get(name) != old.get(name))
    return causes + [FieldErrors.forbidden(name, text) for name in changed]


def _check_workload(obj: JSONObject, old: JSONObject | None) -> list[Cause]:
    causes: list[Cause] = []
    selector = object_at(obj, "spec", "selector")
    labels = object_at(obj, "spec", "template", "metadata", "labels")
    wanted = object_at(selector, "matchLabels")
    present = isinstance(object_at(obj, "spec").get("selector"), dict)
    if not present and obj.get("kind") == "Deployment":
        causes.append(FieldErrors.required("spec.selector"))
    elif present and not wanted and not objects_at(selector, "matchExpressions"):
        text = "empty selector is invalid for " + str(obj.get("kind", "")).lower()
        causes.append(FieldErrors.invalid("spec.selector", selector, text))
    if not present or any(labels.get(key) != value for key, value in wanted.items()):
        text = "`selector` does not match template `labels`"
        causes.append(FieldErrors.invalid("spec.template.metadata.labels", labels or None, text))
    if old is not None and object_at(old, "spec", "selector") != selector:
        causes.append(FieldErrors.invalid("spec.selector", selector, "field is immutable"))
    return causes + _check_containers(
        object_at(obj, "spec", "template", "spec"), "spec.template.spec"
    )


def _check_pod(obj: JSONObject, _old: JSONObject | None) -> list[Cause]:
    return _check_containers(object_at(obj, "spec"), "spec")


def _check_containers(spec: JSONObject, path: str) -> list[Cause]:
    causes: list[Cause] = []
    containers = spec.get("containers")
    if not containers:
        causes.append(FieldErrors.required(f"{path}.containers"))
    seen: set[JSON] = set()
    for index, container in enumerate(objects_at(spec, "containers")):
        place = f"{path}.containers[{index}]"
        name = container.get("name")
        if not name:
            causes.append(FieldErrors.required(f"{place}.name"))
        elif errors := names.label_errors(str(name)):
            causes += [FieldErrors.invalid(f"{place}.name", name, text) for text in errors]
        elif name in seen:
            causes.append(FieldErrors.duplicate(f"{place}.name", name))
        seen.add(str(name))
        if not container.get("image"):
            causes.append(FieldErrors.required(f"{place}.image"))
    return causes


def _check_service(obj: JSONObject, _old: JSONObject | None) -> list[Cause]:
    spec = object_at(obj, "spec")
    causes: list[Cause] = []
    needs_ports = spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None"
    if needs_ports and not spec.get("ports"):
        causes.append(FieldErrors.required("spec.ports"))
    several = len(objects_at(spec, "ports")) > 1
    for index, port in enumerate(objects_at(spec, "ports")):
        if several and not port.get("name"):
            causes.append(FieldErrors.required(f"spec.ports[{index}].name"))
        number = port.get("port")
        if not isinstance(number, int) or number not in PORTS:
            text = "must be between 1 and 65535, inclusive"
            causes.append(FieldErrors.invalid(f"spec.ports[{index}].port", number or 0, text))
    return causes


def _check_rules(obj: JSONObject, _old: JSONObject | None) -> list[Cause]:
    causes: list[Cause] = []
    for index, rule in enumerate(objects_at(obj, "rules")):
        needed = {"verbs": "verbs must contain at least one value"}
        urls = texts_at(rule, "nonResourceURLs")
        if urls and (obj.get("kind") == "Role" or rule.get("apiGroups") or rule.get("resources")):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            if obj.get("kind") == "Role":
                text = "namespaced rules cannot apply to non-resource URLs"
            causes.append(FieldErrors.invalid(f"rules[{index}].nonResourceURLs", [*urls], text))
        if not urls:
            needed["apiGroups"] = "resource rules must supply at least one api group"
            needed["resources"] = "resource rules must supply at least one resource"
        missing = ((name, text) for name, text in needed.items() if not rule.get(name))
        causes += [FieldErrors.required(f"rules[{index}].{name}", text) for name, text in missing]
    return causes


def _check_binding(obj: JSONObject, old: JSONObject | None) -> list[Cause]:
    ref = object_at(obj, "roleRef")
    if old is not None and object_at(old, "roleRef") != ref:
        return [FieldErrors.invalid("roleRef", ref, "cannot change roleRef")]
    kinds = ("Role", "ClusterRole") if obj.get("kind") == "RoleBinding" else ("ClusterRole",)
    causes = [] if ref.get("name") else [FieldErrors.required("roleRef.name")]
    if ref.get("kind") not in kinds:
        causes.append(FieldErrors.not_supported("roleRef.kind", ref.get("kind", ""), kinds))
    for index, subject in enumerate(objects_at(obj, "subjects")):
        namespaced = obj.get("kind") == "RoleBinding"
        causes += _subject_errors(subject, f"subjects[{index}]", namespaced=namespaced)
    return causes


def _subject_errors(subject: JSONObject, place: str, *, namespaced: bool) -> Iterator[Cause]:
    name, group = text_at(subject, "name"), text_at(subject, "apiGroup")
    wanted = "rbac.authorization.k8s.io"
    if not name:
        yield FieldErrors.required(f"{place}.name")
    match subject.get("kind"):
        case "ServiceAccount":
            wanted = ""
            for text in names.subdomain_errors(name) if name else ():
                yield FieldErrors.invalid(f"{place}.name", name, text)
            if not namespaced and not subject.get("namespace"):
                yield FieldErrors.required(f"{place}.namespace")
        case "User" | "Group":
            pass
        case kind:
            kinds = ("Group", "ServiceAccount", "User")
            yield FieldErrors.not_supported(f"{place}.kind", kind, kinds)
            return
    if group != wanted:
        yield FieldErrors.not_supported(f"{place}.apiGroup", group, [wanted])


def _check_lease(obj: JSONObject, _old: JSONObject | None) -> list[Cause]:
    duration = object_at(obj, "spec").get("leaseDurationSeconds")
    if isinstance(duration, int) and duration <= 0:
        return [
            FieldErrors.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0")
        ]
    return []


def _check_namespace(obj: JSONObject, _old: JSONObject | None) -> list[Cause]:
    return [
        FieldErrors.invalid(f"spec.finalizers[{index}]", name, text)
        for index, name in enumerate(texts_at(obj, "spec", "finalizers"))
        for text in names.finalizer_errors(name)
    ]


CHECKS: dict[str, Check] = {
    "Namespace": _check_namespace,
    "Secret": _check_secret,
    "ConfigMap": _check_config_map,
    "Deployment": _check_workload,
    "DaemonSet": _check_workload,
    "Pod": _check_pod,
    "Service": _check_service,
    "Event": events.check_event,
    "Role": _check_rules,
    "ClusterRole": _check_rules,
    "RoleBinding": _check_binding,
    "ClusterRoleBinding": _check_binding,
    "Lease": _check_lease,
    policies.POLICY: policies.check_policy,
    policies.BINDING: policies.check_binding,
}


# -- values that Go could not decode -----------------------------------------------------------

_MICRO_TIMES = {
    "Lease": (("spec", "acquireTime"), ("spec", "renewTime")),
    "Event": (("eventTime",), ("series", "lastObservedTime")),
}
_MICRO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)", re.ASCII)


def check_decodable(kind: str, version: str, obj: JSONObject) -> None:
    """Refuse with 400 what the real server cannot even decode: bad base64, bad times.

    Raises:
        StatusError: 400 with the decoder's words.
    """
    try:
        for group in {"Secret": ("data",), "ConfigMap": ("binaryData",)}.get(kind, ()):
            for value in object_at(obj, group).values():
                base64.b64decode(str(value or ""), validate=True)
    except (binascii.Error, ValueError):
        text = "illegal base64 data at input byte 0"
        raise _cannot_handle(kind, version, text) from None
    for path in _MICRO_TIMES.get(kind, ()):
        value = object_at(obj, *path[:-1]).get(path[-1])
        if isinstance(value, str) and not _MICRO.fullmatch(value):
            text = f'parsing time "{value}" as "2006-01-02T15:04:05.000000Z07:00"'
            raise _cannot_handle(kind, version, text)


def _cannot_handle(kind: str, version: str, text: str) -> Exception:
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {text}')
