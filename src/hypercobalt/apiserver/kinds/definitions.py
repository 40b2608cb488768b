"""CustomResourceDefinitions: what makes one valid.

Every rule and column is compiled here, when the definition is written, so that a bad one is refused
by name then and never met while objects are served.

Source: apiextensions-apiserver pkg/apis/apiextensions/validation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hypercobalt.apiserver.errors import JSON, Cause, FieldErrors, JSONObject
from hypercobalt.apiserver.kinds import names
from hypercobalt.apiserver.kinds.approval import check_approval
from hypercobalt.apiserver.kinds.jsonpath import compile_path
from hypercobalt.apiserver.kinds.rules import check_rules
from hypercobalt.apiserver.kinds.structural import check_structural
from hypercobalt.apiserver.schema.node import compile_schema
from hypercobalt.apiserver.values import object_at, objects_at

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_SELECTABLE_TYPES = ("boolean", "integer", "string")


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
    """Every error of a definition; versions that are as they were are not checked again."""
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
    if old is None or spec.get("versions") != object_at(old, "spec").get("versions"):
        causes += _check_versions(spec)
    return [*causes, *_check_stored(obj), *check_approval(obj, old)]


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


def _check_schema(version: JSONObject, above: str) -> Iterator[Cause]:
    raw, place = object_at(version, "schema", "openAPIV3Schema"), f"{above}.openAPIV3Schema"
    if not raw:
        return
    structural = list(check_structural(raw, place))
    yield from structural
    if structural:
        return
    node = compile_schema(raw)
    node.embedded = True  # rules may read apiVersion, kind and metadata.name
    yield from check_rules(node, place)


_PARTS: tuple[tuple[str, str, Callable[[JSONObject, str], Iterator[Cause]]], ...] = (
    ("schema", "spec.validation", _check_schema),
    ("additionalPrinterColumns", "spec.additionalPrinterColumns", _check_columns),
    ("selectableFields", "spec.selectableFields", _check_selectable),
)


def _check_unchanged(spec: JSONObject, old: JSONObject) -> Iterator[Cause]:
    for field in ("group", "scope"):
        if spec.get(field) != old.get(field):
            value = spec.get(field)
            yield FieldErrors.invalid(f"spec.{field}", value, "field is immutable")
    for field in ("plural", "kind"):
        value = object_at(spec, "names").get(field)
        if value != object_at(old, "names").get(field):
            yield FieldErrors.invalid(f"spec.names.{field}", value, "field is immutable")
