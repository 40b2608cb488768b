"""CEL's blocks: an expression and values that it reads, each evaluated once, on its first use.

No text can hold a block, and the parser's bound of 32 levels would be for all of it. So its parts
are parsed one by one and joined in the engine's serialised form; their texts name the values by
stand-ins as long as the engine's own names.

Source: google/cel-spec proto/cel/expr/syntax.proto and tests/simple/testdata/block_ext.textproto.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cel_expr_python import cel

from hypercobalt.apiserver.schema.cel import RuleError, compile_expression
from hypercobalt.apiserver.wire.records import BYTES, records

_SEVEN_BITS = 0x7F
_STAND_IN = "__at__"
_READS = re.compile(rb'(?s)(".\n.)' + _STAND_IN.encode())  # Expr.ident_expr and Ident.name
_ANY = b"type.googleapis.com/cel.expr.ParsedExpr"
# Numbers of fields: of Any, ParsedExpr, Expr, Expr.Call and Expr.CreateList.
_URL, _CONTENT, _EXPRESSION, _CALL, _LIST, _FUNCTION, _ARGUMENT, _ELEMENT = 1, 2, 2, 6, 7, 2, 3, 1


def place(number: int) -> str:
    """The name, in a text, of a block's value; from 0."""
    return f"{_STAND_IN}{number}"


def compile_block(environment: cel.Env, values: Sequence[str], result: str) -> cel.Expression:
    """Compile an expression that reads values, each evaluated at most once.

    Args:
        environment: what it and the values see besides.
        values: expressions; each reads those before it by their places.
        result: the expression.

    Raises:
        RuleError: one of them does not parse.
    """
    *listed, last = (_parsed(environment, text) for text in (*values, result))
    elements = _field(_LIST, b"".join(_field(_ELEMENT, value) for value in listed))
    arguments = _field(_ARGUMENT, elements) + _field(_ARGUMENT, last)
    call = _field(_CALL, _field(_FUNCTION, b"cel.@block") + arguments)
    whole = _field(_URL, _ANY) + _field(_CONTENT, _field(_EXPRESSION, call))
    try:
        return environment.deserialize(_READS.sub(rb"\1@index", whole))
    except RuntimeError as error:  # it nests too deep
        raise RuleError(f"compilation failed: {error}") from error


def _parsed(environment: cel.Env, text: str) -> bytes:
    """The Expr of a text."""
    data = compile_expression(environment, text, parsed=True).serialize()
    for number in (_CONTENT, _EXPRESSION):
        fields = records(data, 0, len(data))
        data = next(data[field.start : field.end] for field in fields if field.number == number)
    return data


def _field(number: int, content: bytes) -> bytes:
    length, rest = bytearray(), len(content)
    while rest > _SEVEN_BITS:
        length.append(rest & _SEVEN_BITS | _SEVEN_BITS + 1)
        rest >>= 7
    return bytes((number << 3 | BYTES, *length, rest)) + content
