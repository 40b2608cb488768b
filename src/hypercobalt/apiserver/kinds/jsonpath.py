r"""The simple JSONPath that printer columns and selectable fields use.

Covers what CustomResourceDefinitions accept in practice: `.a.b`, `.a['b.c']`, `.a\\.b`, `[0]`,
`[*]` and filters `[?(@.type=="Ready")]`. Anything else is refused when the CRD is created.

Source: client-go util/jsonpath; apiextensions types.go, "JSONPath".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from hypercobalt.apiserver.errors import JSON

Selection = Callable[[list[JSON]], list[JSON]]

_STEP = re.compile(
    r"""\.(?P<name>(?:\\.|[^.\[\]\\])+)
    | \[\s*['"](?P<quoted>[^'"]*)['"]\s*\]
    | \[(?P<index>-?\d+)\]
    | \[\*\] (?P<star>)
    | \[\?\(\s*@(?P<path>(?:\.(?:\\.|[\w\-/])+)+)\s*==\s*(?P<value>"[^"]*"|'[^']*'|[\w.\-]+)\s*\)\]
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Path:
    """A compiled path; `first` is the value a column prints, None when there is none."""

    _steps: tuple[Selection, ...]

    def first(self, value: JSON) -> JSON:
        found = self.all(value)
        return found[0] if found else None

    def all(self, value: JSON) -> list[JSON]:
        values = [value]
        for step in self._steps:
            values = step(values)
        return values


def compile_path(text: str) -> Path:
    """Compile a path.

    Raises:
        ValueError: it is none of the supported forms.
    """
    body = text.strip()
    if body.startswith("{") and body.endswith("}"):
        body = body[1:-1].strip()
    if not body.startswith((".", "[")):
        raise ValueError(f"unsupported JSONPath {text!r}: it must start with '.'")
    steps: list[Selection] = []
    place = 0
    while place < len(body) and body != ".":
        match = _STEP.match(body, place)
        if match is None:
            raise ValueError(f"unsupported JSONPath {text!r} at {body[place:]!r}")
        steps.append(_step(match))
        place = match.end()
    return Path(tuple(steps))


def _step(match: re.Match[str]) -> Selection:
    if match["path"] is not None:
        return _filter(match["path"], match["value"])
    if match["star"] is not None:
        return _everything
    if match["index"] is not None:
        return _at(int(match["index"]))
    name = match["quoted"]
    return _field(re.sub(r"\\(.)", r"\1", match["name"]) if name is None else name)


def _field(name: str) -> Selection:
    return lambda values: [v[name] for v in values if isinstance(v, dict) and name in v]


def _everything(values: list[JSON]) -> list[JSON]:
    found: list[JSON] = []
    for value in values:
        if isinstance(value, list):
            found.extend(value)
        elif isinstance(value, dict):
            found.extend(value.values())
    return found


def _at(index: int) -> Selection:
    return lambda values: [
        v[index] for v in values if isinstance(v, list) and -len(v) <= index < len(v)
    ]


def _filter(path: str, literal: str) -> Selection:
    inner = compile_path(path)
    wanted = literal[1:-1] if literal[0] in "'\"" else literal

    def step(values: list[JSON]) -> list[JSON]:
        items = [item for v in values if isinstance(v, list) for item in v]
        return [item for item in items if _text(inner.first(item)) == wanted]

    return step


def _text(value: JSON) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
