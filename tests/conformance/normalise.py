"""Make two transcripts comparable: what must differ between two servers gets a common name.

Uids are named after their objects and the resourceVersions of an object are numbered by first
appearance, so that "changed" and "stayed the same" remain visible. Versions of lists, bookmarks
and messages are only marked: the real server's counter also moves by its own background writes.
Times that lie within the test run become a marker that keeps their precision.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

from tests.conformance.wire import Json

UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
YOUNG = re.compile(r"^(<invalid>|\d{1,3}s|\d{1,2}m(\d+s)?)$")
CLUSTER_IP = re.compile(r"\b10\.0\.0\.\d{1,3}\b")
NODE_PORT = re.compile(r"\b3[0-2]\d{3}\b")
GENERATED = re.compile(r"\b(gen-)[bcdfghjklmnpqrstvwxz2456789]{5}\b")
VERSIONS_IN_TEXT = (
    (re.compile(r"too old resource version: \d+ \(\d+\)"), "too old resource version: <rv> (<rv>)"),
    (
        re.compile(r"Too large resource version: (\d+), current: \d+"),
        r"Too large resource version: \1",
    ),
    (re.compile(r"ResourceVersion in object meta: \d+"), "ResourceVersion in object meta: <rv>"),
    (re.compile(r'(resourceVersion\\?"?: ?\\?")\d{2,}'), r"\1<rv>"),  # an object within a text
    (re.compile(r"(resourceVersion=)\d{2,}"), r"\1<rv>"),
    (re.compile(r"(ResourceVersion in record) \(\d+\)"), r"\1 (<rv>)"),
    (re.compile(r"(continue=)[\w%-]{30,}"), r"\1<continue>"),
)
INVALID = re.compile(r"^(.* is invalid: )\[(.*)\]$", re.DOTALL)
SERVER_WINDOW = timedelta(hours=6)
# An object in a message, whose fields the real server prints in another order.
PRINTED = re.compile(r"""(Invalid value: ")(?:\{|map\[)(?:[^"\\]|\\.)*(?=")""")
LISTS = (
    re.compile(r'(supported values: )((?:"[^"]*"(?:, )?)+)'),
    re.compile(r"(strict decoding error: )((?:(?:unknown|duplicate) field \"[^\"]*\"(?:, )?)+)"),
)


class Normaliser:
    """Remembers, for one transcript, the name given to each uid and resourceVersion."""

    def __init__(self) -> None:
        self._uids: dict[str, str] = {}
        self._versions: dict[tuple[str, str], str] = {}

    def value(self, value: Json, key: str = "") -> Json:
        """Return `value` (decoded JSON) with everything replaced that may differ."""
        match value:
            case dict():
                return self._mapping(value)
            case list():
                items = [self.value(item) for item in value]
                if key == "managedFields":
                    return _sorted_managers(items)
                return sorted(items) if key == "verbs" else items  # their order means nothing
            case str():
                return self._scalar(key, value)
            case int() if key == "nodePort" and not isinstance(value, bool):
                return "<nodePort>"
            case _:
                return value

    def text(self, text: str) -> str:
        """Return `text` with the uids, times, versions and addresses in it replaced."""
        text = UUID.sub(lambda found: self._uid(found[0], "?"), text)
        text = TIME.sub(_marked_time, text)
        for pattern, replacement in VERSIONS_IN_TEXT:
            text = pattern.sub(replacement, text)
        text = NODE_PORT.sub("<nodePort>", text)
        text = PRINTED.sub(r"\1<object>", _ordered_words(text))
        return GENERATED.sub(r"\1<random>", CLUSTER_IP.sub("<clusterIP>", text))

    def _mapping(self, mapping: dict[str, Json]) -> dict[str, Json]:
        listed = mapping.get("kind") in ("Table", "Status") or "columnDefinitions" in mapping
        if "items" in mapping or listed:
            mapping = {**mapping, "metadata": _list_metadata(mapping.get("metadata"))}
        if isinstance(mapping.get("uid"), str) and isinstance(mapping.get("name"), str):
            self._uid(mapping["uid"], mapping["name"])
        if "uid" in mapping and str(mapping.get("resourceVersion", "")).isdigit():
            mapping = {**mapping, "resourceVersion": self._version(mapping)}
        # in one order, so that both servers' values are numbered alike
        found = {self.text(key): self.value(mapping[key], key) for key in sorted(mapping)}
        if found.get("kind") == "Status":
            return _ordered_causes(_ordered_lines(found))
        if isinstance(found.get("cells"), list):
            cells = found["cells"]
            found["cells"] = [_young(cell) for cell in cells]
        if found.get("type") == "BOOKMARK":
            found["object"]["metadata"]["resourceVersion"] = "<rv>"
        return found

    def _scalar(self, key: str, value: str) -> str:
        if key == "resourceVersion" and value.isdigit():
            return "<rv>"
        if key == "fieldsV1" or not value:
            return value
        return self.text(value)

    def _uid(self, uid: str, name: str) -> str:
        """Name a uid after its object; another object of that name gets another number."""
        if uid not in self._uids:
            number = sum(known.startswith(f"<uid of {name} ") for known in self._uids.values()) + 1
            self._uids[uid] = f"<uid of {name} {number}>"
        return self._uids[uid]

    def _version(self, metadata: dict[str, Json]) -> str:
        """Number the versions of one object, so that one write too many disturbs no other."""
        uid, version = str(metadata["uid"]), str(metadata["resourceVersion"])
        number = sum(known == uid for known, _ in self._versions) + 1
        return self._versions.setdefault((uid, version), f"<rv {number}>")


def _list_metadata(metadata: Json) -> Json:
    if not isinstance(metadata, dict):
        return metadata
    marked = dict(metadata)
    for key, marker in (("resourceVersion", "<rv>"), ("continue", "<continue>")):
        if marked.get(key):
            marked[key] = marker
    return marked


def _marked_time(found: re.Match[str]) -> str:
    text = found[0]
    moment = datetime.fromisoformat(text)
    if abs(moment - datetime.now(UTC)) > SERVER_WINDOW:
        return text
    return "<time>" if found[1] is None else f"<time.{len(found[1]) - 1}>"


def _young(cell: Json) -> Json:
    return "<age>" if isinstance(cell, str) and YOUNG.match(cell) else cell


def _sorted_managers(entries: list[Json]) -> list[Json]:
    """Order managers by name: the servers order them by a time of one-second precision."""
    by = ("manager", "operation", "subresource", "apiVersion")
    return sorted(entries, key=lambda entry: [str(entry.get(key)) for key in by])


def _ordered_lines(status: dict[str, Json]) -> dict[str, Json]:
    """Order the errors of a typed patch, which the real server finds in random order, too."""
    head, *lines = status.get("message", "").split("\n")
    return {**status, "message": "\n".join((head, *sorted(lines)))} if lines else status


def _ordered_words(text: str) -> str:
    """Order what a text lists and either server finds in an order of its own."""
    for pattern in LISTS:
        text = pattern.sub(lambda found: found[1] + ", ".join(sorted(found[2].split(", "))), text)
    return text


def _ordered_causes(status: dict[str, Json]) -> dict[str, Json]:
    """Order the causes of an invalid object: the real server walks a map, in random order."""
    details = status.get("details")
    if not isinstance(details, dict) or not isinstance(details.get("causes"), list):
        return status
    causes = sorted(details["causes"], key=lambda cause: json.dumps(cause, sort_keys=True))
    status = {**status, "details": {**details, "causes": causes}}
    found = INVALID.match(status.get("message", ""))
    if found:
        lines = sorted(f"{cause.get('field')}: {cause.get('message')}" for cause in causes)
        whole = sorted(", ".join(lines)) == sorted(found[2])
        status["message"] = found[1] + (f"[{', '.join(lines)}]" if whole else f"[{found[2]}]")
    return status
