"""Reads bodies of requests as JSON values: JSON, YAML, protobuf and patches.

Nothing a body holds raises more than a 400, and no body holds more values than any real object.

Source: apimachinery pkg/runtime/serializer; sigs.k8s.io/yaml.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import yaml

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.errors import JSON, JSONObject
from hypercobalt.apiserver.schema.numbers import (
    holds_beyond_floats,
    is_beyond_floats,
    make_canonical,
)
from hypercobalt.apiserver.wire import protobuf

MAX_BODY = 3 * 1024 * 1024  # bytes, as kube-apiserver
MAX_OBJECT = 3 * 2**19  # bytes of a stored object, as etcd's --max-request-bytes
MAX_DEPTH = 200  # nesting of a body; far below what recursion in here could not take
MAX_VALUES = 200_000  # objects, lists and values in a body; a definition of 1 MiB has 50,000
JSON_TYPE, YAML_TYPE = "application/json", "application/yaml"
MAX_VALUES_OF_A_HOST = 30_000  # of which a write takes half a second; its largest object has 10,000
BODY_TYPES = (JSON_TYPE, YAML_TYPE, protobuf.MEDIA_TYPE)
JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH = PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)

# Ends each name in a JSON text, and may stand within a string: where there are as many of these as
# there are names in the value, no name stood twice in one object.
_NAME_END = re.compile(rb'"[ \t\r\n]*:')


_BEYOND_FLOATS = re.compile(rb"[0-9]{309}")  # or a long string
_NO_FLOAT = "the object provided is unrecognized (must be of type JSON): a number is out of range"


@dataclass(frozen=True, slots=True)
class Body:
    """A body as it was understood."""

    value: JSON = None
    duplicates: Sequence[str] = ()  # paths of fields that stand in it twice


def decode(content_type: str, data: bytes, most: int = MAX_VALUES) -> Body:
    """Read a body of one of the types above, of so many values; without a type it is JSON.

    Raises:
        StatusError: 400 for what does not parse, or nests too deeply; 413 for too many values.
    """
    if content_type == protobuf.MEDIA_TYPE:
        value: JSON = protobuf.decode(data)
        check_shape(value, most)
        return Body(value)
    if content_type == YAML_TYPE or (content_type == APPLY_PATCH and not _is_json(data)):
        return Body(decode_yaml(data, most))
    value, names = _decode_json(data, most)
    if content_type == JSON_PATCH or len(_NAME_END.findall(data)) == names:
        return Body(value)  # the keys of a JSON patch are not the object's
    return Body(value, duplicate_fields(data))


def _is_json(data: bytes) -> bool:
    """Whether YAML can be read as JSON, which takes a tenth of the time."""
    if data[:1] != b"{":
        return False
    try:
        value: JSON = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False  # such as {a: b}, or a number that YAML reads as text
    return not (_BEYOND_FLOATS.search(data) and holds_beyond_floats(value))


def _decode_json(data: bytes, most: int) -> tuple[JSON, int]:
    """A value, and how many names its objects have."""
    try:
        value: JSON = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise errors.bad_request(
            f"the object provided is unrecognized (must be of type JSON): {error}"
        ) from error
    names = check_shape(value, most)
    if _BEYOND_FLOATS.search(data) and holds_beyond_floats(value):
        raise errors.bad_request(_NO_FLOAT)
    return value, names


def decode_yaml(data: bytes, most: int = MAX_VALUES) -> JSON:
    try:
        _refuse_bombs(data, most)
        loaded = yaml.load(data, Loader=_Loader)  # noqa: S506  # a subclass of CSafeLoader
        value: JSON = make_canonical(msgspec.json.decode(msgspec.json.encode(loaded)))
    except (yaml.YAMLError, TypeError, ValueError, RecursionError, OverflowError) as error:
        text = str(error).replace("\n", " ")
        raise errors.bad_request(f"error converting YAML to JSON: {text}") from error
    check_shape(value, most)
    return value


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: times stay text, and what JSON cannot express is refused."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


# Kubernetes' parser needs neither YAML 1.1's point in a float nor its sign in an exponent.
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", re.ASCII)
_OCTAL = re.compile(r"[-+]?0o[0-7]+$", re.ASCII)
for _tag, _form in (("float", _FLOAT), ("int", _OCTAL)):
    for _first in "-+.0123456789":
        _resolvers = _Loader.yaml_implicit_resolvers.setdefault(_first, [])
        _resolvers.append((f"tag:yaml.org,2002:{_tag}", _form))


_LONGEST = 1200  # digits of an integer, if it is binary; more are beyond all floats


def _number(loader: yaml.CSafeLoader, node: yaml.ScalarNode) -> float | str:
    if ":" in node.value:
        return str(node.value)  # base 60 in YAML 1.1; text for Kubernetes' parser
    if node.tag.endswith(":int"):
        if len(node.value) > _LONGEST:
            return str(node.value)
        whole = loader.construct_yaml_int(node)
        return str(node.value) if is_beyond_floats(whole) else whole
    value = loader.construct_yaml_float(node)
    if math.isfinite(value):
        return value
    if node.value[-1:].isdecimal():
        return str(node.value)
    raise yaml.YAMLError(f"unsupported value: {node.value}")


_Loader.add_constructor("tag:yaml.org,2002:int", _number)
_Loader.add_constructor("tag:yaml.org,2002:float", _number)


def _refuse_bombs(data: bytes, most: int) -> None:
    """Aliases of aliases expand to any size, and deep nesting would overflow libyaml's stack."""
    depth = 0
    for count, event in enumerate(yaml.parse(data, _Loader)):
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not supported")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        _check_bounds(
            depth, count // 2, most
        )  # two events a member of a map; other things have fewer


def check_shape(value: JSON, most: int = MAX_VALUES) -> int:
    """Refuse JSON that nests too deeply or has too many values, and return its number of names.

    Raises:
        StatusError: 400 or 413.
    """
    level: list[JSONObject | list[JSON]] = [value] if isinstance(value, (dict, list)) else []
    depth = count = names = 0
    while level:
        depth += 1
        names += sum(len(held) for held in level if isinstance(held, dict))
        listed = (held.values() if isinstance(held, dict) else held for held in level)
        items = [item for some in listed for item in some]
        count += len(items)
        _check_bounds(depth, count, most)
        level = [item for item in items if isinstance(item, (dict, list))]
    return names


def _check_bounds(depth: int, count: int, most: int) -> None:
    if depth > MAX_DEPTH:
        raise errors.bad_request(f"the body nests deeper than {MAX_DEPTH} levels")
    if count > most:
        text = f"Request entity too large: it holds more than {most} values"
        raise errors.StatusError(413, "RequestEntityTooLarge", text)


class _Pairs(dict[str, JSON]):
    """A JSON object, and which of its keys came more than once."""

    def __init__(self, pairs: list[tuple[str, JSON]]) -> None:
        super().__init__(pairs)
        self.repeated: list[str] = []
        if len(self) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            self.repeated = [name for name, count in counts.items() if count > 1]


def duplicate_fields(data: bytes) -> list[str]:
    """Paths of keys that stand twice in one object of a JSON text."""
    try:
        return list(_repeated(json.loads(data, object_pairs_hook=_Pairs), ""))
    except ValueError:  # a number of thousands of digits
        return []


def _repeated(value: JSON, path: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        yield from (f"{path}{name}" for name in value.repeated)
        for name, item in value.items():
            yield from _repeated(item, f"{path}{name}.")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _repeated(item, f"{path[:-1]}[{index}].")
