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
    node = {
        "fields": _texts(written_by(Hypervisor, Writer.NODE_AGENT)),
        "types": _texts(NODE_AGENT_TYPES),
        "unit": _text(UNIT_TYPE),
        "units": str(MOST_UNITS),
        "message": str(AGENT_MESSAGE),
        "reason": str(AGENT_REASON),
        "key": str(KEY),
        "migration": _texts(written_by(Migration, Writer.NODE_AGENT)),
    }
    ovs = {
        "fields": _texts(written_by(OVSNode, Writer.OVS_AGENT)),
        "types": _texts(OVSNodeConditionType),
    }
    charts = {"hypercobalt-node-agent": node, "hypercobalt-ovs-agent": ovs}
    return {f"{chart}/templates/_writers.tpl": _defined(parts) for chart, parts in charts.items()}


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
