"""The field tables of docs/reference/crds.md, generated from the CRD manifests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, cast

import msgspec

from hypercobalt.api.crd import KINDS, Schema, root_schema
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import NODE_AGENT_TYPES
from hypercobalt.api.ovsnode import OVSNode, OVSNodeConditionType
from hypercobalt.api.schema import CustomObject, Json, Writer
from hypercobalt.api.writers import writers

_INTRO: Final = """\
# Custom resources, field by field

Generated from the types in `src/hypercobalt/api/` by `scripts/generate`; do not edit. What is kept
from the existing systems and what we added is in [compatibility](../compatibility.md).

A field is *required* if the API server refuses an object without it, after it has filled in the
defaults. Amounts of type Quantity are numbers with an optional suffix, such as `24560Mi`.
"""


TYPES: Final[Mapping[type[CustomObject], str]] = {
    Hypervisor: "the node agent "
    + ", ".join(f"`{type_}`" for type_ in NODE_AGENT_TYPES)
    + " and those of systemd units; the operator, or an HA service, all others",
    OVSNode: "the OVS agent "
    + ", ".join(f"`{type_}`" for type_ in OVSNodeConditionType)
    + "; the operator `Ready` of a silent agent",
}
"""Who sets which types of conditions, by kind."""


def reference() -> str:
    """The whole page, in Markdown."""
    return "\n".join([_INTRO, *(_section(kind) for kind in KINDS)])


def _section(kind: type[CustomObject]) -> str:
    resource, definition = kind.resource, kind.definition
    lines = [
        f"## {resource.kind}",
        "",
        definition.doc,
        "",
        f"`{resource.api_version}`, {'namespaced' if resource.namespaced else 'cluster-scoped'}, "
        f"plural `{resource.plural}`, short name {_codes(definition.short_names)}.",
        "",
        "| Field | Type | Default | Required | Meaning |",
        "| --- | --- | --- | --- | --- |",
        *_rows("", root_schema(kind)),
        "",
        *_writer_lines(kind),
        "| Column | JSONPath | Shown |",
        "| --- | --- | --- |",
        *(
            f"| {column.name} | `{_cell(column.path)}` | "
            f"{'with `-o wide`' if column.priority else 'always'} |"
            for column in definition.columns
        ),
        "",
        *_rule_lines(kind),
    ]
    return "\n".join(lines)


def _rows(prefix: str, schema: Schema) -> Iterator[str]:
    """One table row per field below an object schema, depth first."""
    required = cast("list[str]", schema.get("required", []))
    for name, node in _properties(schema):
        if not prefix and name in {"apiVersion", "kind", "metadata"}:
            continue
        path = f"{prefix}{name}"
        default = f"`{_json(node['default'])}`" if "default" in node else ""
        yield (
            f"| `{path}` | {_cell(_type(node))} | {default} | {'yes' if name in required else ''} "
            f"| {_cell(str(node.get('description', '')))} |"
        )
        items = cast("Schema", node.get("items", {}))
        yield from _rows(f"{path}[].", items) if items else _rows(f"{path}.", node)


def _properties(schema: Schema) -> list[tuple[str, Schema]]:
    return list(cast("dict[str, Schema]", schema.get("properties", {})).items())


def _type(node: Schema) -> str:
    """The type as Go writes it, with its constraints behind it."""
    return f"{_bare_type(node)}{_constraints(node)}"


def _bare_type(node: Schema) -> str:
    if node.get("x-kubernetes-int-or-string"):
        return "Quantity"
    if "items" in node:
        return f"[]{_type(cast('Schema', node['items']))}"
    if "additionalProperties" in node:
        return f"map[string]{_type(cast('Schema', node['additionalProperties']))}"
    return str(node.get("format", node["type"]))


def _constraints(node: Schema) -> str:
    words: list[str] = []
    if "enum" in node:
        values = cast("list[str]", node["enum"])
        words.append(", ".join(f"`{value}`" if value else '`""`' for value in values))
    words += [
        f"{text} {node[word]}"
        for word, text in (
            ("minimum", "at least"),
            ("maximum", "at most"),
            ("minLength", "length at least"),
            ("maxLength", "length at most"),
        )
        if word in node
    ]
    if "pattern" in node and "x-kubernetes-int-or-string" not in node:
        words.append(f"matches `{node['pattern']}`")
    if "x-kubernetes-list-map-keys" in node:
        words.append(f"one per {_codes(cast('list[str]', node['x-kubernetes-list-map-keys']))}")
    return f" ({'; '.join(words)})" if words else ""


def _writer_lines(kind: type[CustomObject]) -> list[str]:
    """Who writes what below `status`; of conditions the types that are an agent's."""
    if not writers(kind):
        return []
    by_writer: dict[Writer, list[str]] = {}
    for name, writer in writers(kind).items():
        by_writer.setdefault(writer, []).append(f"`{name}`")
    lines = ["| Fields of `status` | Written by |", "| --- | --- |"]
    for writer, names in by_writer.items():
        text = f"{writer}: {TYPES[kind]}" if writer is Writer.BY_TYPE else str(writer)
        lines.append(f"| {', '.join(names)} | {text} |")
    return [*lines, ""]


def _rule_lines(kind: type[CustomObject]) -> list[str]:
    rules = list(_rules("", root_schema(kind)))
    if not rules:
        return []
    return ["| Where | Rule (CEL) | Message |", "| --- | --- | --- |", *rules, ""]


def _rules(prefix: str, schema: Schema) -> Iterator[str]:
    for name, node in _properties(schema):
        path, inner = f"{prefix}{name}", node
        if "items" in node:
            path, inner = f"{path}[]", cast("Schema", node["items"])
        for rule in cast("list[dict[str, str]]", inner.get("x-kubernetes-validations", [])):
            yield f"| `{path}` | `{_cell(rule['rule'])}` | {_cell(rule['message'])} |"
        yield from _rules(f"{path}.", inner)


def _codes(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _json(value: Json) -> str:
    return msgspec.json.encode(value).decode()


def _cell(text: str) -> str:
    """Text for a table cell."""
    return text.replace("|", "\\|")
