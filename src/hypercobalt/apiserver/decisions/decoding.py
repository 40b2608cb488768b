"""From a body to an object of the kind that its path names, as far as decoding goes.

Source: apiserver pkg/endpoints/handlers/{create,update}.go; apimachinery
pkg/runtime/serializer/json and, for custom kinds, apiextensions' unstructured decoder.
"""

from __future__ import annotations

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.errors import JSON, JSONObject, StatusError
from hypercobalt.apiserver.kinds.builtin import checks
from hypercobalt.apiserver.kinds.resources import Resource
from hypercobalt.apiserver.requests.request import Call
from hypercobalt.apiserver.schema.changing import prune, read_custom
from hypercobalt.apiserver.schema.typed import mistyped


def check_body(call: Call, value: JSON) -> JSONObject:
    """The same object, if it is of the right kind, without the fields that its schema lacks.

    Raises:
        StatusError: 400 for another kind, undecodable values, or (fieldValidation=Strict) unknown
            and duplicate fields.
    """
    resource = call.resource
    if not isinstance(value, dict):
        text = f"couldn't get version/kind; json parse error: a {call.kind} is an object"
        raise errors.bad_request(text)
    _check_kind(resource, value)
    check_types(call, value)
    read = read_custom if resource.custom else prune
    unknown = [f'unknown field "{path}"' for path in read(resource.schema.node, value)]
    warnings = [*(f'duplicate field "{path}"' for path in call.body.duplicates), *unknown]
    mode = call.request.text("fieldValidation") or "Warn"
    if warnings and mode == "Strict":
        raise _cannot_handle(call, f"strict decoding error: {', '.join(warnings)}")
    if mode == "Warn":
        call.request.warnings.extend(warnings)
    return value


def _check_kind(resource: Resource, value: JSONObject) -> None:
    kind, version = value.get("kind"), value.get("apiVersion")
    for name, sent in (("kind", kind), ("apiVersion", version)):
        if sent is not None and not isinstance(sent, str):
            text = f"cannot unmarshal into Go struct field .{name} of type string"
            raise errors.bad_request(f"couldn't get version/kind; json parse error: json: {text}")
    if resource.custom and not kind:
        of = f"(must be of type {resource.names.kind})"
        text = f"the object provided is unrecognized {of}: Object 'Kind' is missing in the body"
        raise errors.bad_request(text)
    value.setdefault("kind", resource.names.kind)
    if resource.custom:
        value.setdefault("apiVersion", "")
    elif not value.get("apiVersion"):
        value["apiVersion"] = resource.api_version
    sent, expected = value["apiVersion"], resource.api_version
    if sent != expected:
        text = f"the API version in the data ({sent}) does not match the expected API version"
        raise errors.bad_request(f"{text} ({expected})")
    if value["kind"] != resource.names.kind and not resource.custom:
        text = f'no kind "{value["kind"]}" is registered for version "{sent}"'
        handled = f'in version "{resource.version}" cannot be handled as a {resource.names.kind}'
        raise errors.bad_request(f"{value['kind']} {handled}: {text}")


def check_types(call: Call, value: JSONObject) -> None:
    """Refuse what typed decoding would: wrong types in metadata, and anywhere in built-in kinds."""
    root = call.resource.schema.node
    if call.resource.custom:
        wrong = mistyped(root.fields["metadata"], value.get("metadata", {}), "metadata")
    else:
        wrong = mistyped(root, value, "")
    for place, sent, wanted in wrong:
        field = f"{call.kind}.{place} of type {wanted}"
        text = f"json: cannot unmarshal {sent} into Go struct field {field}"
        raise _cannot_handle(call, text)
    if not call.resource.custom:
        checks.check_decodable(call.kind, call.resource.version, value)


def _cannot_handle(call: Call, text: str) -> StatusError:
    kind, version = call.kind, call.resource.version
    return errors.bad_request(
        f'{kind} in version "{version}" cannot be handled as a {kind}: {text}'
    )
