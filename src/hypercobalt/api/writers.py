"""Who writes which field of a status, and the parts of the agents' policies that follow from it.

The policies list what an agent may write, never what it may not: a field, or a type of condition,
that is added without a word about an agent is none of theirs. `scripts/generate` writes the lists
into the charts (`templates/_writers.tpl`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

from hypercobalt.api.conditions import AGENT_MESSAGE, AGENT_REASON
from hypercobalt.api.fields import fields_of
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import MOST_UNITS, NODE_AGENT_TYPES, UNIT_TYPE
from hypercobalt.api.meta import Struct
from hypercobalt.api.migration import Migration
from hypercobalt.api.ovsnode import OVSNode, OVSNodeConditionType
from hypercobalt.api.schema import KEY, CustomObject, Writer

MOST_OWNED: Final = 16 * 1024
"""Characters of `metadata.managedFields` in an object that an agent writes as a whole.

The API server writes them, some 1,000 in the objects of agents, but keeps what a client has put
there as well; a write of a status cannot change them. With the names in them, what has none of our
schemas, such as owners, is bounded, too.
"""

_LEVELS: Final = 6
"""Levels of fields in an entry: of what agents write as a whole they have up to four."""

_TEMPLATE: Final = """\
{{- /* Generated from src/hypercobalt/api/ by scripts/generate; do not edit. */}}
"""


def writers(kind: type[CustomObject]) -> dict[str, Writer]:
    """The writer of each field directly below `status`, by wire name.

    Raises:
        TypeError: a field has none.
    """
    fields = fields_of(kind)
    if "status" not in fields:
        return {}
    status = cast("type[Struct]", fields["status"][0])
    whole = cast("Writer | None", getattr(status, "writer", None))
    found: dict[str, Writer] = {}
    for name, (_, field) in fields_of(status).items():
        writer = (field.writer if field else None) or whole
        if writer is None:
            raise TypeError(f"{kind.__name__}.status.{name} has no writer")
        found[name] = writer
    return found


def written_by(kind: type[CustomObject], writer: Writer) -> tuple[str, ...]:
    """The fields of a status that one writer writes, in the order of the type."""
    return tuple(name for name, found in writers(kind).items() if found is writer)


def templates() -> dict[str, str]:
    """What the policies of the charts include, by path below `charts/`."""
    managed = {"owned": _owned(), "mostOwned": str(MOST_OWNED)}
    node = {
        "fields": _texts(written_by(Hypervisor, Writer.NODE_AGENT)),
        "types": _texts(NODE_AGENT_TYPES),
        "unit": _text(UNIT_TYPE),
        "units": str(MOST_UNITS),
        "message": str(AGENT_MESSAGE),
        "reason": str(AGENT_REASON),
        "key": str(KEY),
        "migration": _texts(written_by(Migration, Writer.NODE_AGENT)),
        **managed,
    }
    ovs = {
        "fields": _texts(written_by(OVSNode, Writer.OVS_AGENT)),
        "types": _texts(OVSNodeConditionType),
        "message": str(AGENT_MESSAGE),
        "reason": str(AGENT_REASON),
        **managed,
    }
    charts = {"hypercobalt-node-agent": node, "hypercobalt-ovs-agent": ovs}
    return {f"{chart}/templates/_writers.tpl": _defined(parts) for chart, parts in charts.items()}


def _owned() -> str:
    """The characters of all `variables.fieldSets`, as CEL, which has no recursion.

    Their names are joined, and what they come to is measured once: no sum is needed.
    """
    names = [f"n{level}" for level in range(_LEVELS)]
    deeper = f"size({_below(names)}) > 0"
    joined = ""
    for level in reversed(range(_LEVELS)):
        name, within = names[level], _below(names[:level])
        deeper = f"{within}.exists({name}, {deeper})"
        joined = f'{within}.map({name}, {name} + "......"{joined}).join()'
        joined = f" + {joined}" if level else joined
    length = f"size(variables.fieldSets.map(fields, {joined}).join())"
    return f"{length} + (variables.fieldSets.exists(fields, {deeper}) ? {MOST_OWNED} : 0)"


def _below(names: Iterable[str]) -> str:
    return "fields" + "".join(f"[{name}]" for name in names)


def _defined(parts: dict[str, str]) -> str:
    """Named templates, each an expression of CEL on one line."""
    defines = (
        f'{{{{- define "writers.{name}" -}}}}\n{value}\n{{{{- end }}}}\n'
        for name, value in parts.items()
    )
    return "\n".join((_TEMPLATE, *defines))


def _texts(values: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, values))}]"


def _text(value: str) -> str:
    if '"' in value or "\\" in value:
        raise ValueError(f"{value!r} needs escapes in CEL")
    return f'"{value}"'
