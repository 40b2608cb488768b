"""CustomResourceDefinitions: what makes one valid, and the status that says it is served.

Every rule and column is compiled here, when the definition is written, so that a bad one is refused
by name then and never met while objects are served.

Source: apiextensions-apiserver pkg/apis/apiextensions/validation and
pkg/controller/status/naming_controller.go; structural schemas in pkg/apiserver/schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hypercobalt.apiserver import names
from hypercobalt.apiserver.cel import RuleError, compile_rule, undeclared_fields
from hypercobalt.apiserver.jsonpath import compile_path
from hypercobalt.apiserver.schema import Node, compile_schema
from hypercobalt.apiserver.status import JSON, Cause, FieldErrors, JSONObject, quote
from hypercobalt.apiserver.validation import validate

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_TYPES = ("array", "boolean", "integer", "number", "object", "string")


def default_definition(obj: JSONObject) -> None:
    """Fill in names and conversion, as apiextensions defaults them."""
    spec = _map(obj, "spec")
    listed = _map(spec, "names")
    kind = str(listed.get("kind") or "")
    if kind and not listed.get("singular"):
        listed["singular"] = kind.lower()
    if kind and not listed.get("listKind"):
        listed["listKind"] = f"{kind}List"
    spec.setdefault("conversion", {"strategy": "None"})


def check_definition(obj: JSONObject, old: JSONObject | None) -> list[Cause]:
    """Every error of a definition."""
    spec = _map(obj, "spec")
    group, listed = str(spec.get("group") or ""), _map(spec, "names")
    causes: list[Cause] = []
    wanted = f"{listed.get('plural', '')}.{group}"
    name = str(_map(obj, "metadata").get("name") or "")
    if name != wanted:
        text = 'must be spec.names.plural+"."+spec.group'
        causes.append(FieldErrors.invalid("metadata.name", name, text))
    causes += _check_names(group, listed)
    if spec.get("scope") not in ("Cluster", "Namespaced"):
        allowed = ("Cluster", "Namespaced")
        causes.append(FieldErrors.not_supported("spec.scope", spec.get("scope", ""), allowed))
    if _map(spec, "conversion").get("strategy") != "None":
        text = "the embedded API server converts nothing: only strategy None is supported"
        causes.append(FieldErrors.forbidden("spec.conversion.strategy", text))
    causes += _check_versions(_maps(spec, "versions"))
    if old is not None:
        causes += _check_unchanged(spec, _map(old, "spec"))
    return causes


def _check_names(group: str, listed: JSONObject) -> Iterator[Cause]:
    if not group:
        yield FieldErrors.required("spec.group")
    elif errors := names.subdomain_errors(group):
        yield FieldErrors.invalid("spec.group", group, errors[0])
    elif "." not in group:
        text = "should be a domain with at least one dot"
        yield FieldErrors.invalid("spec.group", group, text)
    for field in ("plural", "singular", "kind", "listKind"):
        value = str(listed.get(field) or "")
        if not value:
            yield FieldErrors.required(f"spec.names.{field}")
        elif errors := names.dns_1035_errors(value.lower()):
            yield FieldErrors.invalid(f"spec.names.{field}", value, errors[0])


def _check_versions(versions: list[JSONObject]) -> Iterator[Cause]:
    stored = [version for version in versions if version.get("storage") is True]
    if len(stored) != 1:
        text = "must have exactly one version marked as storage version"
        yield FieldErrors.invalid("spec.versions", _shown(versions), text)
    seen: set[str] = set()
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        name = str(version.get("name") or "")
        if name in seen:
            yield FieldErrors.duplicate(f"{path}.name", name)
        seen.add(name)
        if errors := names.dns_1035_errors(name):
            yield FieldErrors.invalid(f"{path}.name", name, errors[0])
        yield from _check_version(version, path, lone=len(versions) == 1)


def _check_version(version: JSONObject, path: str, *, lone: bool) -> Iterator[Cause]:
    raw = _map(version, "schema").get("openAPIV3Schema")
    # A single version's schema is reported at its old place, as apiextensions does.
    place = "spec.validation.openAPIV3Schema" if lone else f"{path}.schema.openAPIV3Schema"
    if not isinstance(raw, dict):
        yield FieldErrors.required(f"{path}.schema.openAPIV3Schema", "schemas are required")
    else:
        yield from _check_schema(raw, place)
    if "scale" in _map(version, "subresources"):
        text = "the embedded API server has no scale subresource"
        yield FieldErrors.forbidden(f"{path}.subresources.scale", text)
    for index, column in enumerate(_maps(version, "additionalPrinterColumns")):
        yield from _check_column(column, f"{path}.additionalPrinterColumns[{index}]")
    for index, entry in enumerate(_maps(version, "selectableFields")):
        field = f"{path}.selectableFields[{index}].jsonPath"
        yield from _check_path(str(entry.get("jsonPath", "")), field)


def _check_column(column: JSONObject, path: str) -> Iterator[Cause]:
    if not column.get("name"):
        yield FieldErrors.required(f"{path}.name")
    if column.get("type") not in _COLUMN_TYPES:
        text = f"must be one of {','.join(_COLUMN_TYPES)}"
        yield FieldErrors.invalid(f"{path}.type", column.get("type", ""), text)
    yield from _check_path(str(column.get("jsonPath", "")), f"{path}.jsonPath")


def _check_path(text: str, path: str) -> Iterator[Cause]:
    if not text:
        yield FieldErrors.required(path)
        return
    try:
        compile_path(text)
    except ValueError as error:
        yield FieldErrors.invalid(path, text, str(error))


# -- structural schemas ------------------------------------------------------------------------


def _check_schema(raw: JSONObject, place: str) -> Iterator[Cause]:
    if raw.get("type") != "object":
        text = "must be object at the root"
        yield FieldErrors.invalid(f"{place}.type", raw.get("type", ""), text)
        return
    structural = list(_check_structural(raw, place))
    yield from structural
    try:
        node = compile_schema(raw)
        node.embedded = True  # rules may read apiVersion, kind and metadata.name
    except re.error as error:
        yield FieldErrors.invalid(place, str(error.pattern), f"must be a valid regex: {error}")
        return
    if not structural:
        yield from _check_rules(raw, node, place)


def _check_structural(raw: JSONObject, place: str) -> Iterator[Cause]:
    kind = raw.get("type")
    free = raw.get("x-kubernetes-int-or-string") is True
    keeps = raw.get("x-kubernetes-preserve-unknown-fields") is True
    if not kind and not free and not keeps:
        text = "must not be empty for specified object fields"
        if place.endswith("]") or ".properties" in place:
            yield FieldErrors.required(f"{place}.type", text)
    if kind and kind not in _TYPES:
        yield FieldErrors.not_supported(f"{place}.type", kind, _TYPES)
    if "properties" in raw and isinstance(raw.get("additionalProperties"), dict):
        text = "additionalProperties and properties are mutual exclusive"
        yield FieldErrors.forbidden(f"{place}.additionalProperties", text)
    if kind == "array" and not isinstance(raw.get("items"), dict):
        yield FieldErrors.required(f"{place}.items", "must be specified")
    if raw.get("uniqueItems") is True:
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield FieldErrors.forbidden(f"{place}.uniqueItems", text)
    for name in ("$ref", "definitions", "dependencies", "patternProperties", "id"):
        if name in raw:
            yield FieldErrors.forbidden(f"{place}.{name}", f"{name} is not supported")
    yield from _check_list_type(raw, place)
    for name, below in _map(raw, "properties").items():
        if isinstance(below, dict):
            yield from _check_structural(below, f"{place}.properties[{name}]")
    for name in ("items", "additionalProperties"):
        if isinstance(below := raw.get(name), dict):
            yield from _check_structural(below, f"{place}.{name}")
    yield from _check_default(raw, place)


def _check_list_type(raw: JSONObject, place: str) -> Iterator[Cause]:
    kind = raw.get("x-kubernetes-list-type")
    keys = raw.get("x-kubernetes-list-map-keys")
    if kind not in (None, "atomic", "set", "map"):
        allowed = ("atomic", "map", "set")
        yield FieldErrors.not_supported(f"{place}.x-kubernetes-list-type", kind, allowed)
    if kind == "map" and not keys:
        text = "must not be empty if x-kubernetes-list-type is map"
        yield FieldErrors.required(f"{place}.x-kubernetes-list-map-keys", text)
    if kind != "map" and keys:
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield FieldErrors.invalid(f"{place}.x-kubernetes-list-type", kind, text)
    if kind != "map" or not isinstance(keys, list):
        return
    fields = _map(raw, "items", "properties")
    listed = _map(raw, "items").get("required")
    required = listed if isinstance(listed, list) else []
    for index, key in enumerate(keys):
        where = f"{place}.x-kubernetes-list-map-keys[{index}]"
        if key not in fields:
            text = "entries must all be names of item properties"
            yield FieldErrors.invalid(where, key, text)
        elif "default" not in _map(fields, str(key)) and key not in required:
            text = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a "
                "required property"
            )
            yield FieldErrors.required(f"{place}.items.properties[{key}].default", text)


def _check_default(raw: JSONObject, place: str) -> Iterator[Cause]:
    if "default" not in raw or raw["default"] is None:
        return
    try:
        found = validate(compile_schema(raw), raw["default"])
    except (re.error, RuleError):
        return  # reported where they are compiled
    for cause in found:
        text = cause.message.partition(": ")[2].partition(": ")[2]
        yield FieldErrors.invalid(f"{place}.default", raw["default"], text or cause.message)


def _check_rules(raw: JSONObject, node: Node, place: str) -> Iterator[Cause]:
    for index, rule in enumerate(node.rules):
        path = f"{place}.x-kubernetes-validations[{index}]"
        if not rule.rule.strip():
            yield FieldErrors.required(f"{path}.rule", "rule is not specified")
            continue
        try:
            compile_rule(rule)
        except RuleError as error:
            yield FieldErrors.invalid(f"{path}.rule", rule.rule, f"compilation failed: {error}")
            continue
        for name in undeclared_fields(rule, node):
            text = f"compilation failed: ERROR: <input>: undefined field '{name}'"
            yield FieldErrors.invalid(f"{path}.rule", rule.rule, text)
    for name, below in _map(raw, "properties").items():
        if isinstance(below, dict) and name in node.fields:
            yield from _check_rules(below, node.fields[name], f"{place}.properties[{name}]")
    if isinstance(below := raw.get("items"), dict) and node.items is not None:
        yield from _check_rules(below, node.items, f"{place}.items")
    if isinstance(below := raw.get("additionalProperties"), dict) and node.values is not None:
        yield from _check_rules(below, node.values, f"{place}.additionalProperties")


def _check_unchanged(spec: JSONObject, old: JSONObject) -> Iterator[Cause]:
    for field in ("group", "scope"):
        if spec.get(field) != old.get(field):
            value = spec.get(field)
            yield FieldErrors.invalid(f"spec.{field}", value, "field is immutable")
    for field in ("plural", "kind"):
        value = _map(spec, "names").get(field)
        if value != _map(old, "names").get(field):
            yield FieldErrors.invalid(f"spec.names.{field}", value, "field is immutable")


# -- status ------------------------------------------------------------------------------------


def note_stored(obj: JSONObject) -> None:
    """Add the version that objects are stored in to status.storedVersions."""
    status = _map(obj, "status")
    obj["status"] = status
    known = status.get("storedVersions")
    stored = [v.get("name") for v in _maps(_map(obj, "spec"), "versions") if v.get("storage")]
    status["storedVersions"] = [
        *dict.fromkeys([*(known if isinstance(known, list) else []), *stored])
    ]


def establish(obj: JSONObject, others: list[JSONObject], now: str) -> JSONObject:
    """Accept the names of a definition that none of its group holds; with all, it is served.

    Args:
        obj: the definition; changed in place.
        others: the other definitions.
        now: RFC 3339 time of this request.
    """
    spec, status = _map(obj, "spec"), _map(obj, "status")
    same_group = [o for o in others if _map(o, "spec").get("group") == spec.get("group")]
    held = [_map(o, "status", "acceptedNames") for o in same_group]
    wanted, accepted = _map(spec, "names"), dict(_map(status, "acceptedNames"))
    reason, text = "NoConflicts", "no conflicts found"
    for fields in (("plural", "singular", "shortNames"), ("kind", "listKind")):
        taken = {name for names in held for field in fields for name in _listed(names, field)}
        for field in fields:
            known = _listed(accepted, field)
            clash = [n for n in _listed(wanted, field) if n in taken and n not in known]
            if clash:
                reason = f"{field[0].upper()}{field[1:]}Conflict"
                text = f"{quote(clash[-1])} is already in use"
            elif field in wanted:
                accepted[field] = wanted[field]
            else:
                accepted.pop(field, None)
    if "categories" in wanted:
        accepted["categories"] = wanted["categories"]
    else:
        accepted.pop("categories", None)
    status["acceptedNames"] = accepted
    if reason == "NoConflicts":
        _condition(status, now, "NamesAccepted", "True", reason=reason, message=text)
        text = "the initial names have been accepted"
        reason = "InitialNamesAccepted"
        _condition(status, now, "Established", "True", reason=reason, message=text)
        return obj
    _condition(status, now, "NamesAccepted", "False", reason=reason, message=text)
    if not _has(status, "Established", "True"):
        text = "not all names are accepted"
        _condition(status, now, "Established", "False", reason="NotAccepted", message=text)
    return obj


def mark_terminating(obj: JSONObject, now: str) -> None:
    """Say that the definition's objects are being deleted."""
    text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    reason = "InstanceDeletionPending"
    _condition(_map(obj, "status"), now, "Terminating", "True", reason=reason, message=text)


def _listed(names: JSONObject, field: str) -> list[str]:
    found = names.get(field)
    return [str(name) for name in (found if isinstance(found, list) else [found]) if name]


def _condition(
    status: JSONObject, now: str, kind: str, value: str, *, reason: str, message: str
) -> None:
    held = _maps(status, "conditions")
    old = next((c for c in held if c.get("type") == kind), None)
    since = old.get("lastTransitionTime") if old and old.get("status") == value else now
    entry: JSONObject = {
        "type": kind,
        "status": value,
        "lastTransitionTime": since,
        "reason": reason,
        "message": message,
    }
    kept: list[JSON] = [entry if c is old else c for c in held]
    status["conditions"] = kept if old is not None else [*kept, entry]


def _has(status: JSONObject, kind: str, value: str) -> bool:
    return any(
        c.get("type") == kind and c.get("status") == value for c in _maps(status, "conditions")
    )


def _map(value: JSON, *path: str) -> JSONObject:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _maps(value: JSONObject, name: str) -> list[JSONObject]:
    listed = value.get(name)
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []


def _shown(versions: list[JSONObject]) -> JSON:
    return [str(version.get("name")) for version in versions]
