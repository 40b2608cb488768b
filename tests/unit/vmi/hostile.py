"""VirtualMachineInstances as an attacker writes them: whatever the structs take."""

from __future__ import annotations

import types
import typing
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from hypothesis import strategies as st

from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.meta import ObjectMeta, Struct
from hypercobalt.api.quantity import Quantity

Hint = Any
"""A type as an annotation has it."""
TEXTS: Final = (
    "", "root", "a" * 64, "a" * 5000, "../../etc/shadow", "/etc/passwd", "..", ".", "a/b", "a\0b",
    "a\nb", "\x1b[2J", "\x7f", "\x85", "<x/>", '"/><source file="/etc/shadow"/><x a="', "]]>",
    "&lt;", "&x;", "\ufffe", "\U0001f600", "é", "virtio", "sata", "scsi", "host-model",
    "host-passthrough", "supplementalPool", "auto", "shared", "native", "none", "amd64", "Paused",
    "0000:07:00.0", "0000:ff:ff.9", "02-00-00-00-01-d7", "0200.0000.01d7", "02:00:00:00:00:01",
    "14926add-2a10-5352-af3b-8f5e925d45d1", ":/etc/passwd", "Europe/Berlin",
)  # fmt: skip
"""Texts that mean something to a path, to XML, to libvirt, or to a rule."""
NUMBERS: Final = (-(2**63), -1, 0, 1, 2, 5, 255, 512, 513, 2**31, 2**63 - 1)
QUANTITIES: Final = (
    "128Mi", "0", "1", "-1", "1n", "500m", "2500m", "1e9", "1E", "9e99", "", "x", "1.5Gi", "16Ei",
)  # fmt: skip

# No surrogates: what decodes JSON refuses them.
_TEXT: Final = st.sampled_from(TEXTS) | st.text(st.characters(codec="utf-8"), max_size=20)
_MOST_ITEMS: Final = 3


def _strategy(kind: Hint) -> st.SearchStrategy[Any]:
    origin: Hint = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    if origin in {typing.Union, types.UnionType}:
        return st.one_of(*(_strategy(one) for one in arguments))
    if origin is tuple:
        return st.lists(_strategy(arguments[0]), max_size=_MOST_ITEMS).map(tuple)
    if origin is dict:
        return st.dictionaries(_TEXT, _strategy(arguments[1]), max_size=_MOST_ITEMS)
    return _SCALARS[kind] if kind in _SCALARS else structs(kind)


def _later(kind: Hint) -> st.SearchStrategy[Any]:
    return st.deferred(lambda: _strategy(kind))


def structs(kind: type[Struct]) -> st.SearchStrategy[Any]:
    """Any struct of a kind, with any of its fields left out."""
    hints = typing.get_type_hints(kind)
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for field in msgspec.structs.fields(kind):
        chosen = required if field.required else optional
        chosen[field.name] = _later(hints[field.name])
    return st.fixed_dictionaries(required, optional=optional).map(lambda given: kind(**given))


_SCALARS: Final[dict[Any, st.SearchStrategy[Any]]] = {
    str: _TEXT,
    int: st.sampled_from(NUMBERS) | st.integers(-(2**63), 2**63 - 1),
    bool: st.booleans(),
    type(None): st.none(),
    Quantity: st.sampled_from(QUANTITIES).map(Quantity.lazy),
    datetime: st.just(datetime(2026, 11, 29, tzinfo=UTC)),
    # Written by the API server, which checks names; the others come from the object as it is.
    ObjectMeta: st.builds(
        ObjectMeta,
        namespace=_TEXT,
        name=_TEXT,
        uid=_TEXT,
        labels=st.dictionaries(_TEXT, _TEXT, max_size=_MOST_ITEMS),
        annotations=st.dictionaries(_TEXT, _TEXT, max_size=_MOST_ITEMS),
    ),
}

VMIS: Final = structs(VirtualMachineInstance)
