"""Column types of an OVSDB schema: how values arrive, their defaults, and how changes apply.

Source: RFC 7047, sections 3.2 and 5.1; ovsdb-server(7), "Monitor Cond", for defaults that are left
out and for what a `modify` has of a column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

import msgspec

from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError

Atom: TypeAlias = str | int | float | bool
"""A UUID is text."""
Value: TypeAlias = Atom | frozenset[Atom] | Mapping[str, Atom] | None
"""An optional column without a value is None; a column that may have several is a set or a map."""
_TAGGED: Final = 2  # parts of `["uuid", …]`, `["map", …]` and of a pair
_DEFAULTS: Final[Mapping[str, Atom]] = {
    "integer": 0,
    "real": 0.0,
    "boolean": False,
    "string": "",
    "uuid": "00000000-0000-0000-0000-000000000000",
}


class _Key(msgspec.Struct):
    type: str


class _Type(msgspec.Struct):
    key: str | _Key
    value: str | _Key | None = None
    min: int = 1
    max: int | str = 1


class _Column(msgspec.Struct):
    type: str | _Type


class _Table(msgspec.Struct):
    columns: dict[str, _Column]


class _Schema(msgspec.Struct):
    version: str
    tables: dict[str, _Table]


@dataclass(frozen=True, slots=True)
class Column:
    """The type of a column.

    Args:
        atom: `string`, `integer`, `boolean`, `real` or `uuid`, of a map its key's.
        is_map: whether it holds pairs.
        is_set: whether it may hold several atoms.
        is_optional: whether it may hold none.
    """

    atom: str
    is_map: bool = False
    is_set: bool = False
    is_optional: bool = False

    @property
    def default(self) -> Value:
        """What a row has that was sent without this column."""
        if self.is_map:
            return {}
        if self.is_set:
            return frozenset()
        return None if self.is_optional else _DEFAULTS.get(self.atom, "")

    def decode(self, sent: object) -> Value:
        """Read a value as it is sent.

        Raises:
            ValueError: it is none of this type.
        """
        if self.is_map:
            return dict(_pairs(sent))
        atoms = list(_atoms(sent))
        if self.is_set:
            return frozenset(atoms)
        if not atoms and self.is_optional:
            return None
        if len(atoms) != 1:
            raise ValueError(f"{len(atoms)} values where one belongs")
        return atoms[0]

    def change(self, old: Value, sent: object) -> Value:
        """The value after a change: a difference where several are possible, else the new one.

        Raises:
            ValueError: it is none of this type.
        """
        new = self.decode(sent)
        if isinstance(old, frozenset) and isinstance(new, frozenset):
            return old ^ new
        if self.is_map and isinstance(old, Mapping) and isinstance(new, Mapping):
            kept = {key: value for key, value in old.items() if key not in new}
            return kept | {key: value for key, value in new.items() if old.get(key) != value}
        return new


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of a database.

    Args:
        version: as `8.3.1`.
        tables: columns by table and name.
    """

    version: str
    tables: Mapping[str, Mapping[str, Column]]

    def only(self, wanted: Mapping[str, tuple[str, ...]]) -> Schema:
        """Those of the wanted tables and columns that exist: an unknown one fails a request."""
        tables = {
            table: {name: self.tables[table][name] for name in names if name in self.tables[table]}
            for table, names in wanted.items()
            if table in self.tables
        }
        return Schema(self.version, tables)


def parse_schema(text: bytes | msgspec.Raw) -> Schema:
    """Read the answer to `get_schema`.

    Raises:
        SwitchError: SCHEMA_UNSUPPORTED.
    """
    try:
        found = msgspec.json.decode(text, type=_Schema)
    except msgspec.MsgspecError as exc:
        raise SwitchError(
            ProducerFault.SCHEMA_UNSUPPORTED, f"the database's schema cannot be read: {exc}"
        ) from exc
    tables = {
        name: {column: _column(one.type) for column, one in table.columns.items()}
        for name, table in found.tables.items()
    }
    return Schema(found.version, tables)


def _column(kind: str | _Type) -> Column:
    if isinstance(kind, str):
        return Column(kind)
    atom = kind.key if isinstance(kind.key, str) else kind.key.type
    return Column(
        atom,
        is_map=kind.value is not None,
        is_set=kind.value is None and kind.max != 1,
        is_optional=kind.min == 0,
    )


def _atoms(sent: object) -> Iterator[Atom]:
    found = _list(sent)
    if found and found[0] == "set":
        for one in _list(found[-1]) or ():
            yield from _atoms(one)
        return
    value = sent
    if found and len(found) == _TAGGED and found[0] == "uuid":
        value = found[1] if isinstance(found[1], str) else None
    if not isinstance(value, str | int | float | bool):
        raise ValueError(f"{str(sent)[:40]!r} is no value")  # noqa: TRY004 - of data, not of a call
    yield value


def _pairs(sent: object) -> Iterator[tuple[str, Atom]]:
    found = _list(sent)
    pairs = _list(found[1]) if found and len(found) == _TAGGED and found[0] == "map" else None
    if pairs is None:
        raise ValueError(f"{str(sent)[:40]!r} is no map")
    for pair in map(_list, pairs):
        if pair is None or len(pair) != _TAGGED:
            raise ValueError(f"{str(pair)[:40]!r} is no pair")
        (key,), (value,) = _atoms(pair[0]), _atoms(pair[1])
        yield str(key), value


def _list(sent: object) -> list[object] | None:
    return cast("list[object]", sent) if isinstance(sent, list) else None
