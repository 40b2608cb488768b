"""CustomResourceDefinitions: what makes one valid, and the status that says it is served.

Every rule and column is compiled here, when the definition is written, so that a bad one is refused
by name then and never met while objects are served.

Source: apiextensions-apiserver pkg/apis/apiextensions/validation and
pkg/controller/status/naming_controller.go; structural schemas in pkg/apiserver/schema.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace

from hypercobalt.apiserver.kinds import names
from hypercobalt.apiserver.kinds.jsonpath import compile_path
from hypercobalt.apiserver.kinds.rules import check_rules
from hypercobalt.apiserver.kinds.scale import check_scale
from hypercobalt.apiserver.schema.cel import RuleError
from hypercobalt.apiserver.schema.node import compile_schema, prune
from hypercobalt.apiserver.schema.patterns import PatternError, compile_pattern
from hypercobalt.apiserver.schema.validation import validate
from hypercobalt.apiserver.status import JSON, Cause, FieldErrors, JSONObject, quote
from hypercobalt.apiserver.values import object_at, objects_at

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_SELECTABLE_TYPES = ("boolean", "integer", "string")
_TYPES = ("array", "boolean", "integer", "number", "object", "string")


def default_definition(obj: JSONObject) -> None:
    """Fill in names and conversion, as apiextensions defaults them."""
    spec = object_at(obj, "spec")
    listed = object_at(spec, "names")
    kind = str(listed.get("kind") or "")
    if kind and not listed.get("singular"):
        listed["singular"] = kind.lower()
    if kind and not listed.get("listKind"):
        listed["listKind"] = f"{kind}List"
    spec.setdefault("conversion", {"strategy": "None"})
    for version in objects_at(spec, "versions"):
        _drop_empty_texts(object_at(version, "schema", "openAPIV3Schema"))


_VALUES = ("default", "enum", "example")


def _drop_empty_texts(schema: JSON) -> None:
    """Remove in place the empty texts of a schema and of its rules, as Go's omitempty does."""
    if isinstance(schema, list):
        for part in schema:
            _drop_empty_texts(part)
    elif isinstance(schema, dict):
        for name, part in list(schema.items()):
            if part == "" and name not in _VALUES:
                del schema[name]
            elif name == "properties" and isinstance(part, dict):
                _drop_empty_texts([*part.values()])
            elif name not in _VALUES:
                _drop_empty_texts(part)


def check_definition(obj: JSONObject, old: JSONObject | None) -> list[Cause]:
    """Every error of a definition."""
    spec = object_at(obj, "spec")
    if old is not None:
        causes = list(_check_unchanged(spec, object_at(old, "spec")))
    else:
        causes = list(_check_own_name(obj))
    causes += _check_names(str(spec.get("group") or ""), object_at(spec, "names"))
    scope, strategy = spec.get("scope"), object_at(spec, "conversion").get("strategy")
    if not scope:
        causes.append(FieldErrors.required("spec.scope"))
    elif scope not in ("Cluster", "Namespaced"):
        causes.append(FieldErrors.not_supported("spec.scope", scope, ("Cluster", "Namespaced")))
    if strategy == "Webhook":
        text = "the embedded API server converts nothing: only strategy None is supported"
        causes.append(FieldErrors.forbidden("spec.conversion.strategy", text))
    elif strategy != "None":
        allowed = ("None", "Webhook")
        causes.append(FieldErrors.not_supported("spec.conversion.strategy", strategy, allowed))
    if spec.get("preserveUnknownFields") is True:
        text = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        causes.append(FieldErrors.invalid("spec.preserveUnknownFields", True, text))
    return [*causes, *_check_versions(spec), *_check_stored(obj)]


def _check_own_name(obj: JSONObject) -> Iterator[Cause]:
    spec, name = object_at(obj, "spec"), object_at(obj, "metadata").get("name")
    if name != f"{object_at(spec, 'names').get('plural', '')}.{spec.get('group') or ''}":
        text = 'must be spec.names.plural+"."+spec.group'
        yield FieldErrors.invalid("metadata.name", name, text)


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
        mixed = field in ("kind", "listKind")
        if not value:
            yield FieldErrors.required(f"spec.names.{field}")
        elif errors := names.dns_1035_errors(value.lower() if mixed else value):
            note = "may have mixed case, but should otherwise match: " if mixed else ""
            yield FieldErrors.invalid(f"spec.names.{field}", value, f"{note}{errors[0]}")
    if listed.get("kind") and listed.get("kind") == listed.get("listKind"):
        text = "kind and listKind may not be the same"
        yield FieldErrors.invalid("spec.names.listKind", listed["listKind"], text)
    for field in ("shortNames", "categories"):
        for index, name in enumerate(_listed(listed, field)):
            for text in names.dns_1035_errors(name):
                yield FieldErrors.invalid(f"spec.names.{field}[{index}]", name, text)


def _check_versions(spec: JSONObject) -> Iterator[Cause]:
    versions = objects_at(spec, "versions")
    found = [str(version.get("name") or "") for version in versions]
    shown: JSON = [*found] if "versions" in spec else None
    if len(set(found)) < len(found):
        yield FieldErrors.invalid("spec.versions", shown, "must contain unique version names")
    if sum(version.get("storage") is True for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        yield FieldErrors.invalid("spec.versions", shown, text)
    for index, (name, version) in enumerate(zip(found, versions, strict=True)):
        places = [f"spec.versions[{index}].name", *(["spec.version"] if not index else [])]
        for text in names.dns_1035_errors(name):
            yield from (FieldErrors.invalid(place, name, text) for place in places)
        if not isinstance(object_at(version, "schema").get("openAPIV3Schema"), dict):
            yield FieldErrors.required(f"spec.versions[{index}].schema.openAPIV3Schema")
    for field, place, check in _PARTS:
        # What all versions share is checked once, at the place it had in v1beta1.
        shared = all(version.get(field) == versions[0].get(field) for version in versions)
        for index, version in enumerate(versions[:1] if shared else versions):
            yield from check(version, place if shared else f"spec.versions[{index}].{field}")


def _check_stored(obj: JSONObject) -> Iterator[Cause]:
    stored = object_at(obj, "status").get("storedVersions")
    if not isinstance(stored, list) or not stored:
        text = "must have at least one stored version"
        yield FieldErrors.invalid("status.storedVersions", None, text)
        return
    present = [version.get("name") for version in objects_at(object_at(obj, "spec"), "versions")]
    for index, name in enumerate(stored):
        if name not in present:
            text = (
                f"missing from spec.versions; {name} was previously a storage version, and must "
                "remain in spec.versions until a storage migration ensures no data remains "
                f"persisted in {name} and removes {name} from status.storedVersions"
            )
            yield FieldErrors.invalid(f"status.storedVersions[{index}]", name, text)


def _check_subresources(version: JSONObject, place: str) -> Iterator[Cause]:
    if "scale" in object_at(version, "subresources"):
        yield from check_scale(object_at(version, "subresources", "scale"), f"{place}.scale")


def _check_columns(version: JSONObject, place: str) -> Iterator[Cause]:
    for index, column in enumerate(objects_at(version, "additionalPrinterColumns")):
        where = f"{place}[{index}]"
        if not column.get("name"):
            yield FieldErrors.required(f"{where}.name")
        if column.get("type") not in _COLUMN_TYPES:
            text = f"must be one of {','.join(_COLUMN_TYPES)}"
            yield FieldErrors.invalid(f"{where}.type", column.get("type", ""), text)
        path = str(column.get("jsonPath", ""))
        if not path:
            yield FieldErrors.required(f"{where}.JSONPath")
        elif not path.startswith("."):
            text = "must be a simple json path starting with ."
            yield FieldErrors.invalid(f"{where}.JSONPath", path, text)
        else:
            try:
                compile_path(path)
            except ValueError as error:
                yield FieldErrors.invalid(f"{where}.JSONPath", path, str(error))


def _check_selectable(version: JSONObject, place: str) -> Iterator[Cause]:
    for index, entry in enumerate(objects_at(version, "selectableFields")):
        path = str(entry.get("jsonPath", ""))
        field = object_at(version, "schema", "openAPIV3Schema")
        for name in path.removeprefix(".").split("."):
            field = object_at(field, "properties", name)
        if path.startswith(".metadata.") or field.get("type") not in _SELECTABLE_TYPES:
            text = "is an invalid path: does not refer to a valid field"
            yield FieldErrors.invalid(f"{place}[{index}].jsonPath", path, text)


# -- structural schemas ------------------------------------------------------------------------


def _check_schema(version: JSONObject, above: str) -> Iterator[Cause]:
    raw, place = object_at(version, "schema", "openAPIV3Schema"), f"{above}.openAPIV3Schema"
    if not raw:
        return
    structural = list(_check_structural(raw, place))
    if not raw.get("type"):
        structural.append(FieldErrors.required(f"{place}.type", "must not be empty at the root"))
    elif raw["type"] != "object":
        text = "must be object at the root"
        structural.append(FieldErrors.invalid(f"{place}.type", raw["type"], text))
    yield from structural
    if structural:
        return
    node = compile_schema(raw)
    node.embedded = True  # rules may read apiVersion, kind and metadata.name
    yield from check_rules(node, place)


_PARTS: tuple[tuple[str, str, Callable[[JSONObject, str], Iterator[Cause]]], ...] = (
    ("schema", "spec.validation", _check_schema),
    ("subresources", "spec.subresources", _check_subresources),
    ("additionalPrinterColumns", "spec.additionalPrinterColumns", _check_columns),
    ("selectableFields", "spec.selectableFields", _check_selectable),
)


def _check_structural(raw: JSONObject, place: str) -> Iterator[Cause]:
    if "$ref" in raw:
        yield FieldErrors.forbidden(f"{place}.$ref", "$ref is not supported")
        return
    if isinstance(raw.get("items"), list):
        text = "items must be a schema object and not an array"
        yield FieldErrors.forbidden(f"{place}.items", text)
        return
    yield from _check_type(raw, place)
    yield from _check_extensions(raw, place)
    yield from _check_list_type(raw, place)
    for name in ("allOf", "anyOf", "oneOf"):
        for index, part in enumerate(objects_at(raw, name)):
            if not (raw.get("x-kubernetes-int-or-string") is True and name != "oneOf"):
                yield from _check_fragment(part, f"{place}.{name}[{index}]")
    if negated := object_at(raw, "not"):
        yield from _check_fragment(negated, f"{place}.not")
    for name, below in object_at(raw, "properties").items():
        if isinstance(below, dict):
            yield from _check_structural(below, f"{place}.properties[{name}]")
    for name in ("items", "additionalProperties"):
        if isinstance(below := raw.get(name), dict):
            yield from _check_structural(below, f"{place}.{name}")
    yield from _check_default(raw, place)


def _check_type(raw: JSONObject, place: str) -> Iterator[Cause]:
    kind = raw.get("type")
    free = (raw.get(f"x-kubernetes-{x}") for x in ("int-or-string", "preserve-unknown-fields"))
    inner = place.endswith("]") or ".properties" in place
    if not kind and inner and not any(value is True for value in free):
        text = "must not be empty for specified object fields"
        yield FieldErrors.required(f"{place}.type", text)
    if kind and kind not in _TYPES:
        yield FieldErrors.not_supported(f"{place}.type", kind, _TYPES)
    if "properties" in raw and "additionalProperties" in raw:
        text = "additionalProperties and properties are mutual exclusive"
        yield FieldErrors.forbidden(f"{place}.additionalProperties", text)
    if kind == "array" and not isinstance(raw.get("items"), dict):
        yield FieldErrors.required(f"{place}.items", "must be specified")
    if raw.get("uniqueItems") is True:
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield FieldErrors.forbidden(f"{place}.uniqueItems", text)
    for name in ("definitions", "dependencies", "patternProperties", "id"):
        if name in raw:
            yield FieldErrors.forbidden(f"{place}.{name}", f"{name} is not supported")
    if isinstance(pattern := raw.get("pattern"), str):
        try:
            compile_pattern(pattern)
        except PatternError as error:
            text = f"must be a valid regular expression, but isn't: {error}"
            yield FieldErrors.invalid(f"{place}.pattern", pattern, text)


def _check_extensions(raw: JSONObject, place: str) -> Iterator[Cause]:
    keeps = raw.get("x-kubernetes-preserve-unknown-fields")
    if keeps is False:
        where = f"{place}.x-kubernetes-preserve-unknown-fields"
        yield FieldErrors.invalid(where, keeps, "must be true or undefined")
    if raw.get("x-kubernetes-embedded-resource") is True and not keeps and "properties" not in raw:
        text = (
            "must not be empty if x-kubernetes-embedded-resource is true without "
            "x-kubernetes-preserve-unknown-fields"
        )
        yield FieldErrors.required(f"{place}.properties", text)
    kind = raw.get("x-kubernetes-map-type")
    if kind not in (None, "atomic", "granular"):
        where = f"{place}.x-kubernetes-map-type"
        yield FieldErrors.not_supported(where, kind, ("atomic", "granular"))


_NOT_IN_FRAGMENTS = {
    "type": "empty",
    "description": "empty",
    "title": "empty",
    "default": "undefined",
    "additionalProperties": "undefined",
    "nullable": "false",
}


def _check_fragment(raw: JSONObject, place: str) -> Iterator[Cause]:
    """What stands under allOf, anyOf, oneOf or not judges values and declares nothing."""
    for name, wanted in _NOT_IN_FRAGMENTS.items():
        if raw.get(name):
            yield FieldErrors.forbidden(f"{place}.{name}", f"must be {wanted} to be structural")
    for name in ("allOf", "anyOf", "oneOf"):
        for index, part in enumerate(objects_at(raw, name)):
            yield from _check_fragment(part, f"{place}.{name}[{index}]")
    parts = {name: raw.get(name) for name in ("items", "not")}
    parts |= {f"properties[{name}]": part for name, part in object_at(raw, "properties").items()}
    for name, below in parts.items():
        if isinstance(below, dict):
            yield from _check_fragment(below, f"{place}.{name}")


def _check_list_type(raw: JSONObject, place: str) -> Iterator[Cause]:
    kind = raw.get("x-kubernetes-list-type")
    keys = raw.get("x-kubernetes-list-map-keys")
    items = object_at(raw, "items")
    if kind not in (None, "atomic", "set", "map"):
        allowed = ("atomic", "map", "set")
        yield FieldErrors.not_supported(f"{place}.x-kubernetes-list-type", kind, allowed)
    if kind and raw.get("type") != "array":
        text = "must be array if x-kubernetes-list-type is specified"
        yield FieldErrors.invalid(f"{place}.type", raw.get("type", ""), text)
    if kind == "set" and items.get("type") in ("array", "object"):
        name = {"array": "list", "object": "map"}[str(items["type"])]
        if (shown := items.get(f"x-kubernetes-{name}-type")) != "atomic":
            text = "must be atomic as item of a list with x-kubernetes-list-type=set"
            yield FieldErrors.invalid(f"{place}.items.x-kubernetes-{name}-type", shown, text)
    if kind == "map" and not keys:
        text = "must not be empty if x-kubernetes-list-type is map"
        yield FieldErrors.required(f"{place}.x-kubernetes-list-map-keys", text)
    if kind != "map" and keys:
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield FieldErrors.invalid(f"{place}.x-kubernetes-list-type", kind, text)
    if kind != "map" or not isinstance(keys, list):
        return
    required = items.get("required")
    for index, key in enumerate(keys):
        where = f"{place}.x-kubernetes-list-map-keys[{index}]"
        if key not in object_at(items, "properties"):
            text = "entries must all be names of item properties"
            yield FieldErrors.invalid(where, key, text)
        elif "default" not in object_at(items, "properties", str(key)) and key not in (
            required if isinstance(required, list) else []
        ):
            text = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a "
                "required property"
            )
            yield FieldErrors.required(f"{place}.items.properties[{key}].default", text)


def _check_default(raw: JSONObject, place: str) -> Iterator[Cause]:
    default = raw.get("default")
    if default is None:
        return
    try:
        node = compile_schema(raw)
        found = validate(node, default)
    except (PatternError, RuleError):
        return  # reported where they are compiled
    for cause in found:
        yield replace(cause, field=f"{place}.default{'.' if cause.field else ''}{cause.field}")
    if prune(node, copy.deepcopy(default)):
        yield FieldErrors.invalid(f"{place}.default", default, "must not have unknown fields")


def _check_unchanged(spec: JSONObject, old: JSONObject) -> Iterator[Cause]:
    for field in ("group", "scope"):
        if spec.get(field) != old.get(field):
            value = spec.get(field)
            yield FieldErrors.invalid(f"spec.{field}", value, "field is immutable")
    for field in ("plural", "kind"):
        value = object_at(spec, "names").get(field)
        if value != object_at(old, "names").get(field):
            yield FieldErrors.invalid(f"spec.names.{field}", value, "field is immutable")


# -- status ------------------------------------------------------------------------------------


def note_stored(obj: JSONObject) -> None:
    """Add the version that objects are stored in to status.storedVersions."""
    status = object_at(obj, "status")
    obj["status"] = status
    known = status.get("storedVersions")
    stored = [
        v.get("name") for v in objects_at(object_at(obj, "spec"), "versions") if v.get("storage")
    ]
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
    spec, status = object_at(obj, "spec"), object_at(obj, "status")
    same_group = [o for o in others if object_at(o, "spec").get("group") == spec.get("group")]
    held = [object_at(o, "status", "acceptedNames") for o in same_group]
    wanted, accepted = object_at(spec, "names"), dict(object_at(status, "acceptedNames"))
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
    _condition(object_at(obj, "status"), now, "Terminating", "True", reason=reason, message=text)


def _listed(names: JSONObject, field: str) -> list[str]:
    found = names.get(field)
    return [str(name) for name in (found if isinstance(found, list) else [found]) if name]


def _condition(
    status: JSONObject, now: str, kind: str, value: str, *, reason: str, message: str
) -> None:
    held = objects_at(status, "conditions")
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
        c.get("type") == kind and c.get("status") == value for c in objects_at(status, "conditions")
    )
