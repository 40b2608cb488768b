"""Which rules fit a schema: CEL's checker, with the types of a schema's values.

Each object of the schema becomes a message type, so that undeclared fields and operators on the
wrong types are found when a definition is written. Values are never converted to these messages.

Source: k8s.io/apiserver pkg/cel/common/schemas.go (SchemaDeclType).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping

from cel_expr_python import cel
from cel_expr_python.ext import ext_optional, ext_strings
from google.protobuf import duration_pb2, struct_pb2, timestamp_pb2
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool

from hypercobalt.apiserver.schema.identifiers import escape
from hypercobalt.apiserver.schema.library import declarations
from hypercobalt.apiserver.schema.node import Node
from hypercobalt.errors import HypercobaltError

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_KNOWN = (duration_pb2, struct_pb2, timestamp_pb2)
_QUANTITY = "kubernetes.Quantity"
_DYN, _LIST, _MAP = (f".google.protobuf.{name}" for name in ("Value", "ListValue", "Struct"))
_FORMATS = {
    "date": ".google.protobuf.Timestamp",
    "date-time": ".google.protobuf.Timestamp",
    "duration": ".google.protobuf.Duration",
}
_RESERVED_NUMBERS = range(19_000, 20_000)

_Field = FieldDescriptorProto
_SCALARS: dict[str, _Field.Type.ValueType] = {
    "boolean": _Field.TYPE_BOOL,
    "bytes": _Field.TYPE_BYTES,
    "integer": _Field.TYPE_INT64,
    "number": _Field.TYPE_DOUBLE,
    "string": _Field.TYPE_STRING,
}
_LOOSE = {name: of for name, of in _SCALARS.items() if name not in ("integer", "number")}
_CEL_SCALARS = {
    "boolean": cel.Type.BOOL,
    "bytes": cel.Type.BYTES,
    "integer": cel.Type.INT,
    "number": cel.Type.DOUBLE,
    "string": cel.Type.STRING,
    _DYN: cel.Type.DYN,
    _FORMATS["date"]: cel.Type.TIMESTAMP,
    _FORMATS["duration"]: cel.Type.DURATION,
}
_META = Node(type="object", fields={name: Node(type="string") for name in ("name", "generateName")})
_ENVELOPE = {"apiVersion": Node(type="string"), "kind": Node(type="string"), "metadata": _META}


class SchemaError(HypercobaltError):
    """The values of a schema have no types for the checker."""


class Checker:
    """The environments of the rules of one schema.

    Raises:
        SchemaError: an object of the schema is too large.
    """

    def __init__(self, root: Node) -> None:
        self._exact, self._loose = _Types(root, _SCALARS), _Types(root, _LOOSE)

    def environment(self, node: Node, *, loose: bool = False) -> cel.Env:
        """Where rules of `node` are checked: with exact types, or with numbers of any type."""
        return (self._loose if loose else self._exact).environment(node)

    def variables(self, declared: Mapping[str, Node]) -> cel.Env:
        """Where expressions that read variables of their own names are checked."""
        return self._exact.variables(declared)


class _Types:
    def __init__(self, root: Node, scalars: dict[str, _Field.Type.ValueType]) -> None:
        self._scalars = scalars
        self._environments: dict[str, cel.Env] = {}  # by the name of the type; each takes 2 ms
        self._names: dict[int, str] = {}  # message types by the id of their node
        self._nodes: list[Node] = []  # keeps those ids taken
        self._file = FileDescriptorProto(name="schema.proto", package="schema", syntax="proto2")
        self._file.dependency.extend(module.DESCRIPTOR.name for module in _KNOWN)
        for node in root.walk():
            self._named(node)
        self._pool = DescriptorPool()
        for module in _KNOWN:
            self._pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
        package, _, name = _QUANTITY.partition(".")
        file = FileDescriptorProto(name=f"{package}.proto", package=package)
        file.message_type.add(name=name)
        self._pool.AddSerializedFile(file.SerializeToString())
        try:
            self._pool.AddSerializedFile(self._file.SerializeToString())
        except TypeError as error:  # about 8,000 fields are the most
            raise SchemaError("an object has too many fields for rules to be checked") from error

    def environment(self, node: Node) -> cel.Env:
        name = self._cel_type(node).name()
        known = self._environments.get(name)
        if known is None:
            known = self._environments[name] = self.variables({"self": node, "oldSelf": node})
        return known

    def variables(self, declared: Mapping[str, Node]) -> cel.Env:
        types = _types()
        return cel.NewEnv(
            descriptor_pool=self._pool,
            variables={name: self._cel_type(node) for name, node in declared.items()},
            extensions=[ext_strings.ExtStrings(), ext_optional.ExtOptional()],
            functions=declarations(types, types),
        )

    def _named(self, node: Node) -> str:
        """The protobuf name of a node's type; empty for what rules cannot read."""
        if node.int_or_string:
            return _DYN
        if node.type != "object" or node.values is not None:
            name = _simple(node)
            return _DYN if name in _SCALARS and name not in self._scalars else name
        known = self._names.get(id(node))
        if known is None:
            known = self._names[id(node)] = f".schema.Object{len(self._names)}"
            self._nodes.append(node)
            self._fill(self._file.message_type.add(name=known.removeprefix(".schema.")), node)
        return known

    def _fill(self, message: DescriptorProto, node: Node) -> None:
        # Else protobuf prints a warning where fields differ in case and underscores alone.
        message.options.deprecated_legacy_json_field_conflicts = True
        fields = {**_ENVELOPE, **node.fields, "metadata": _META} if node.embedded else node.fields
        numbers = (n for n in itertools.count(1) if n not in _RESERVED_NUMBERS)
        named = [(n, below) for name, below in fields.items() for n in {name, escape(name)}]
        named.sort(key=lambda pair: pair[1].values is not None)  # maps need names no field has
        taken = {name for name, _ in named}
        for name, below in named:
            if not _IDENTIFIER.fullmatch(name):
                continue
            if below.type == "array" and below.items is not None and not below.int_or_string:
                self._add(message, name, next(numbers), self._named(below.items), repeated=True)
            elif below.type == "object" and below.values is not None and not below.int_or_string:
                self._add_map(message, name, next(numbers), below.values, taken)
            else:
                self._add(message, name, next(numbers), self._named(below))

    def _add(
        self, message: DescriptorProto, name: str, number: int, of: str, *, repeated: bool = False
    ) -> None:
        if not of:
            return
        label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
        field = message.field.add(name=name, number=number, label=label, json_name=f"f{number}")
        if of.startswith("."):
            field.type, field.type_name = _Field.TYPE_MESSAGE, of
        else:
            field.type = self._scalars[of]

    def _add_map(
        self, message: DescriptorProto, name: str, number: int, values: Node, taken: set[str]
    ) -> None:
        """A map is a list of entries; protobuf requires their type inside, under a derived name."""
        of = self._named(values)
        if not of:
            return
        derived = "".join(f"{part[:1].upper()}{part[1:]}" for part in name.split("_")) + "Entry"
        if derived in taken:
            self._add(message, name, number, _MAP)
            return
        taken.add(derived)
        entry = message.nested_type.add(name=derived)
        entry.options.map_entry = True
        self._add(entry, "key", 1, "string")
        self._add(entry, "value", 2, of)
        place = f".schema.{message.name}.{entry.name}"
        self._add(message, name, number, place, repeated=True)

    def _cel_type(self, node: Node) -> cel.Type:
        if node.type == "array" and node.items is not None:
            return cel.Type.List(self._cel_type(node.items))
        if node.type == "object" and node.values is not None:
            return cel.Type.Map(cel.Type.STRING, self._cel_type(node.values))
        name = self._named(node) or _DYN
        return _CEL_SCALARS.get(name) or cel.Type(name.removeprefix("."))


def _simple(node: Node) -> str:
    """The type of what is no object: a list or map stands here only inside another one."""
    match node.type:
        case "array":
            return _LIST
        case "object":
            return _MAP
        case "string":
            return "bytes" if node.format == "byte" else _FORMATS.get(node.format, "string")
        case other:
            return other


def _types() -> dict[str, list[cel.Type]]:
    text = cel.Type.STRING
    return {
        "bool": [cel.Type.BOOL],
        "double": [cel.Type.DOUBLE],
        "dyn": [cel.Type.DYN],
        "int": [cel.Type.INT],
        "list": [cel.Type.List(cel.Type.DYN)],
        "string": [text],
        "strings": [cel.Type.List(text)],
        "Quantity": [cel.Type(_QUANTITY)],
    }
