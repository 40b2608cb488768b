"""The fields of a wire type, with what a CRD holds about each.

Knows no kind: agents and the CRDs' generator read the same bounds here.
"""

from __future__ import annotations

from typing import Annotated, cast, get_args, get_origin, get_type_hints

import msgspec

from hypercobalt.api.meta import Struct
from hypercobalt.api.schema import OF_AGENTS, OF_OTHERS, Bounds, Field, Writer


def fields_of(struct: type[Struct]) -> dict[str, tuple[object, Field | None]]:
    """Type and `Field` of each field on the wire, by wire name."""
    fields: dict[str, tuple[object, Field | None]] = {}
    hints = cast("dict[str, object]", get_type_hints(struct, include_extras=True))
    for info in msgspec.structs.fields(struct):
        hint = hints[info.name]
        field: Field | None = None
        if get_origin(hint) is Annotated:
            hint, *extras = cast("tuple[object, ...]", get_args(hint))
            field = next((extra for extra in extras if isinstance(extra, Field)), None)
        fields[info.encode_name] = (hint, field)
    return fields


def bounds_of(struct: type[Struct], field: Field | None, bounds: Bounds) -> Bounds:
    """The bounds of a field: those of its writer if it has one, else those of what it is in."""
    writer = (field.writer if field else None) or cast(
        "Writer | None", getattr(struct, "writer", None)
    )
    if writer is None:
        return bounds
    return OF_AGENTS if writer in (Writer.NODE_AGENT, Writer.OVS_AGENT) else OF_OTHERS
