"""Documents as sets of paths with values, and tables of what may differ.

The order of siblings means nothing, and neither does an empty element.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from xml.etree.ElementTree import Element, fromstring

from hypercobalt.api.quantity import Quantity

Json = Any
Facts = Counter[tuple[str, str]]

_KEYS: Final = {"volumes", "volumeMounts", "env", "containers", "initContainers"}
"""Lists of a pod whose items are found by name."""
_AMOUNT: Final = re.compile(r"/resources/(limits|requests)/")
_ALIASED: Final = frozenset({"disk", "interface", "input", "sound", "watchdog"})
_PRESENT: Final = frozenset({"acpi", "apic", "readonly", "shareable", "panic"})
"""Elements that mean something without attributes and text."""
_NAMED: Final = {"timer": "name", "feature": "name", "entry": "name", "controller": "type"}


@dataclass(frozen=True, slots=True)
class Difference:
    """One line of a table.

    Attributes:
        path: regular expression of the paths that may differ.
        reason: why ours is another one.
    """

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Compared:
    """What differs between a recorded document and ours.

    Attributes:
        unexplained: values with their paths, recorded ones with `-` and ours with `+`.
        used: lines of the table that explain a difference.
    """

    unexplained: list[str]
    used: set[Difference]


def compare(recorded: Facts, ours: Facts, table: Sequence[Difference]) -> Compared:
    """Compare two documents but for the differences of a table."""
    differing = [("-", *fact) for fact in recorded - ours]
    differing += [("+", *fact) for fact in ours - recorded]
    unexplained: list[str] = []
    used: set[Difference] = set()
    for sign, path, value in differing:
        line = next((one for one in table if re.fullmatch(one.path, path)), None)
        if line is None:
            unexplained.append(f"{sign} {path} = {value}")
        else:
            used.add(line)
    return Compared(sorted(unexplained), used)


def pod_facts(pod: Json) -> Facts:
    """The values of a pod, by path."""
    return Counter(_of_json(pod, ""))


def _of_json(value: Json, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, child in value.items():
            yield from _of_json(child, f"{path}/{key}")
    elif isinstance(value, list) and value:
        named = path.rpartition("/")[2] in _KEYS
        for index, child in enumerate(value):
            yield from _of_json(child, f"{path}[{child['name'] if named else index}]")
    elif _AMOUNT.search(path):
        yield path, str(Quantity(value).nanos)
    else:
        yield path, json.dumps(value)


def domain_facts(xml: str) -> Facts:
    """Attributes and texts of a domain document, by path."""
    return Counter(_of_xml(fromstring(xml), ""))  # noqa: S314 - recorded, or our own


def _of_xml(node: Element, path: str) -> Iterator[tuple[str, str]]:
    tag = node.tag.rpartition("}")[2]
    path = f"{path}/{tag}{_name(node, tag)}"
    for key, value in node.attrib.items():
        yield f"{path}/@{key}", value
    if node.text:
        yield path, node.text
    elif tag in _PRESENT:
        yield path, ""
    for child in node:
        yield from _of_xml(child, path)


def _name(node: Element, tag: str) -> str:
    if tag in _ALIASED:
        alias = node.find("alias")
        return "[]" if alias is None else f"[{alias.get('name')}]"
    return f"[{node.get(_NAMED[tag])}]" if tag in _NAMED else ""
