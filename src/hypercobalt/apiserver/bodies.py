"""What clients send, read as JSON values: JSON, YAML, protobuf and patches.

Nothing a body holds raises more than a 400. Large ones take seconds, so they are read one at a time
in a thread, and other requests are answered meanwhile.

Source: apimachinery pkg/runtime/serializer; sigs.k8s.io/yaml.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import yaml

from hypercobalt.apiserver import status
from hypercobalt.apiserver.status import JSON
from hypercobalt.apiserver.wire import protobuf

MAX_BODY = 3 * 1024 * 1024  # bytes, as kube-apiserver
MAX_DEPTH = 200  # nesting of a body; far below what recursion in here could not take
LARGE = 64 * 1024  # bytes; below it, reading takes less than 50 ms
JSON_TYPE, YAML_TYPE = "application/json", "application/yaml"
BODY_TYPES = (JSON_TYPE, YAML_TYPE, protobuf.MEDIA_TYPE)
JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH = PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)


@dataclass(frozen=True, slots=True)
class Body:
    """A body as it was understood."""

    value: JSON = None
    duplicates: Sequence[str] = ()  # paths of fields that stand in it twice


class BodyReader:
    """Reads bodies without holding up other requests."""

    def __init__(self) -> None:
        self._alone = asyncio.Lock()  # several threads would crowd out the loop

    async def read(self, content_type: str, data: bytes, allowed: Sequence[str]) -> Body:
        """Read a body of one of the `allowed` types; without a type it is JSON.

        Raises:
            StatusError: 400 for what does not parse or nests too deeply; 415 for other types.
        """
        if content_type not in allowed and (content_type or JSON_TYPE not in allowed):
            raise status.unsupported_media_type(allowed)
        if len(data) < LARGE:
            return decode(content_type, data)
        async with self._alone:
            return await asyncio.to_thread(decode, content_type, data)


def decode(content_type: str, data: bytes) -> Body:
    """Read a body of a known type.

    Raises:
        StatusError: 400 for what does not parse or nests too deeply.
    """
    if content_type == protobuf.MEDIA_TYPE:
        value: JSON = protobuf.decode(data)
        check_depth(value)
        return Body(value)
    if content_type == YAML_TYPE or (content_type == APPLY_PATCH and data[:1] != b"{"):
        return Body(decode_yaml(data))
    value = decode_json(data)
    # The keys of a JSON patch are not the object's.
    return Body(value, () if content_type == JSON_PATCH else duplicate_fields(data))


def decode_json(data: bytes) -> JSON:
    try:
        value: JSON = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise status.bad_request(
            f"the object provided is unrecognized (must be of type JSON): {error}"
        ) from error
    check_depth(value)
    return value


def decode_yaml(data: bytes) -> JSON:
    try:
        _refuse_bombs(data)
        loaded = yaml.load(data, Loader=_Loader)  # noqa: S506  # a subclass of CSafeLoader
        value: JSON = msgspec.json.decode(msgspec.json.encode(loaded))
    except (yaml.YAMLError, TypeError, ValueError, RecursionError, OverflowError) as error:
        text = str(error).replace("\n", " ")
        raise status.bad_request(f"error converting YAML to JSON: {text}") from error
    check_depth(value)
    return value


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: times stay text, and what JSON cannot say is refused."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _number(loader: yaml.CSafeLoader, node: yaml.ScalarNode) -> float | str:
    if ":" in node.value:
        return str(node.value)  # base 60 in YAML 1.1; Kubernetes' parser knows better
    if node.tag.endswith(":int"):
        return loader.construct_yaml_int(node)
    value = loader.construct_yaml_float(node)
    if not math.isfinite(value):
        raise yaml.YAMLError(f"unsupported value: {node.value}")
    return value


_Loader.add_constructor("tag:yaml.org,2002:int", _number)
_Loader.add_constructor("tag:yaml.org,2002:float", _number)


def _refuse_bombs(data: bytes) -> None:
    """Aliases of aliases expand to any size, and deep nesting would overflow libyaml's stack."""
    depth = 0
    for event in yaml.parse(data, _Loader):
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not supported")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise _too_deep()
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def check_depth(value: JSON) -> None:
    """Refuse what nests too deeply.

    Raises:
        StatusError: 400.
    """
    level: list[JSON] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            below
            for item in level
            if isinstance(item, (dict, list))
            for below in (item.values() if isinstance(item, dict) else item)
            if isinstance(below, (dict, list))
        ]
        if not level:
            return
    raise _too_deep()


def _too_deep() -> status.StatusError:
    return status.bad_request(f"the body nests deeper than {MAX_DEPTH} levels")


class _Pairs(dict[str, JSON]):
    """A JSON object that knows which of its keys came more than once."""

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
