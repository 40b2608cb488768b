r"""The rules for names, labels and annotations, and metadata as a whole.

Source: apimachinery pkg/util/validation/validation.go and pkg/api/validation/objectmeta.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from hypercobalt.apiserver.errors import Cause, FieldErrors, JSONObject
from hypercobalt.apiserver.values import object_at, objects_at, texts_at

MAX_LABEL, MAX_SUBDOMAIN = 63, 253  # bytes
MAX_ANNOTATIONS = 256 * 1024  # bytes, keys and values together

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_DNS_1035 = r"[a-z]([-a-z0-9]*[a-z0-9])?"

_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    rf"for validation is '{_SUBDOMAIN}')"
)
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex "
    f"used for validation is '{_LABEL}')"
)
_DNS_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    f"regex used for validation is '{_DNS_1035}')"
)
_QUALIFIED_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    f"validation is '{_QUALIFIED}')"
)
_VALUE_PATTERN = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
    f"'12345', regex used for validation is '{_VALUE_PATTERN}')"
)

NameRule = Callable[[str], list[str]]


def _too_long(value: str) -> list[str]:
    long = len(value.encode()) > MAX_LABEL
    return [f"must be no more than {MAX_LABEL} bytes"] if long else []


def _rule(pattern: str, limit: int, text: str) -> NameRule:
    compiled = re.compile(pattern, re.ASCII)

    def errors(value: str) -> list[str]:
        bad = [] if compiled.fullmatch(value) else [text]
        long = [f"must be no more than {limit} characters"] if len(value) > limit else []
        return long + bad

    return errors


subdomain_errors = _rule(_SUBDOMAIN, MAX_SUBDOMAIN, _SUBDOMAIN_TEXT)
label_errors = _rule(_LABEL, MAX_LABEL, _LABEL_TEXT)
dns_1035_errors = _rule(_DNS_1035, MAX_LABEL, _DNS_1035_TEXT)


def dotless_label_errors(value: str) -> list[str]:
    return ["must not contain dots"] if "." in value else label_errors(value)


def path_segment_errors(value: str) -> list[str]:
    """Names that may hold anything but what a URL path cannot (RBAC)."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{part}'" for part in ("/", "%") if part in value]


def label_key_errors(key: str) -> list[str]:
    """The errors of a label or annotation key (a qualified name)."""
    prefix, slash, name = key.rpartition("/")
    errors: list[str] = []
    if key.count("/") > 1:
        return [
            f"a valid label key {_QUALIFIED_TEXT} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')"
        ]
    if slash and not prefix:
        errors.append("prefix part must be non-empty")
    elif slash:
        errors += [f"prefix part {text}" for text in subdomain_errors(prefix)]
    if not name:
        errors.append("name part must be non-empty")
    else:
        errors += [f"name part {text}" for text in _too_long(name)]
    if not re.fullmatch(_QUALIFIED, name, re.ASCII):
        errors.append(f"name part {_QUALIFIED_TEXT}")
    return errors


def label_value_errors(value: str) -> list[str]:
    bad = [] if re.fullmatch(_VALUE_PATTERN, value, re.ASCII) else [_VALUE_TEXT]
    return _too_long(value) + bad


BARE_FINALIZER = "name is neither a standard finalizer name nor is it fully qualified"


def is_bare_finalizer(name: str) -> bool:
    """Whether a finalizer has no domain, and is not one of Kubernetes' own."""
    return "/" not in name and name not in ("foregroundDeletion", "orphan", "kubernetes")


def finalizer_errors(name: str) -> list[str]:
    """The errors of a finalizer of a built-in kind."""
    return label_key_errors(name) + [BARE_FINALIZER] * is_bare_finalizer(name)


def check_metadata(meta: JSONObject, name_rule: NameRule, *, custom: bool = False) -> list[Cause]:
    """Every error in an object's metadata.

    Args:
        meta: the metadata, its types already checked.
        name_rule: the rule for names of this kind.
        custom: whether the kind is a custom one, which may have any qualified finalizer.
    """
    causes: list[Cause] = []
    name = str(meta.get("name") or "")
    if not name:
        causes.append(FieldErrors.required("metadata.name", "name or generateName is required"))
    causes += [FieldErrors.invalid("metadata.name", name, text) for text in name_rule(name) if name]
    if prefix := str(meta.get("generateName") or ""):
        errors = name_rule(re.sub(".-$", "a", prefix))
        causes += [FieldErrors.invalid("metadata.generateName", prefix, text) for text in errors]
    causes += _check_labels(meta)
    causes += _check_annotations(meta)
    causes += _check_owners(objects_at(meta, "ownerReferences"))
    if {"orphan", "foregroundDeletion"} <= {*texts_at(meta, "finalizers")}:
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        causes.append(FieldErrors.invalid("metadata.finalizers", meta["finalizers"], text))
    for index, finalizer in enumerate(texts_at(meta, "finalizers")):
        errors = label_key_errors(finalizer)
        causes += [FieldErrors.invalid("metadata.finalizers", finalizer, text) for text in errors]
        if not custom and is_bare_finalizer(finalizer):
            where = f"metadata.finalizers[{index}]"
            causes.append(FieldErrors.invalid(where, finalizer, BARE_FINALIZER))
    return causes


def _check_labels(meta: JSONObject) -> list[Cause]:
    causes: list[Cause] = []
    for key, value in object_at(meta, "labels").items():
        where = "metadata.labels"
        causes += [FieldErrors.invalid(where, key, text) for text in label_key_errors(key)]
        errors = label_value_errors(str(value))
        causes += [FieldErrors.invalid(where, value, text) for text in errors]
    return causes


def _check_annotations(meta: JSONObject) -> list[Cause]:
    causes: list[Cause] = []
    total = 0
    for key, value in object_at(meta, "annotations").items():
        total += len(key.encode()) + len(str(value).encode())
        errors = label_key_errors(key.lower())
        causes += [FieldErrors.invalid("metadata.annotations", key, text) for text in errors]
    if total > MAX_ANNOTATIONS:
        causes.append(FieldErrors.too_long("metadata.annotations", MAX_ANNOTATIONS))
    return causes


def _check_owners(owners: list[JSONObject]) -> list[Cause]:
    causes: list[Cause] = []
    controllers: list[str] = []
    path = "metadata.ownerReferences"
    for owner in owners:
        version = str(owner.get("apiVersion") or "")
        if not version or version.count("/") > 1:
            text = "version must not be empty"
            causes.append(FieldErrors.invalid(f"{path}.apiVersion", version, text))
        if owner.get("kind") == "Event" and version in ("v1", "events.k8s.io/v1"):
            group = version.rpartition("/")[0]
            text = f"{group}/v1, Kind=Event is disallowed from being an owner"
            causes.append(FieldErrors.invalid(path, owner, text))
        empty = (name for name in ("kind", "name", "uid") if not owner.get(name))
        causes += [FieldErrors.invalid(f"{path}.{n}", "", "must not be empty") for n in empty]
        if owner.get("controller") is True:
            controllers.append(f"{owner.get('kind')}/{owner.get('name')}")
    if len(controllers) > 1:
        text = (
            "Only one reference can have Controller set to true. Found "
            f'"true" in references for {controllers[0]} and {controllers[1]}'
        )
        causes.append(FieldErrors.invalid(path, [*owners], text))
    return causes
