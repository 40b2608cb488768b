"""The mutants of a module: its syntax tree with one place changed. Pure.

Annotations, decorators, options of classes, docstrings, messages, log lines and what only the type
checker reads stay as they are: what changes there changes no decision. So do the values that a
module gives names to, and those that fields have by default: they are choices, not rules.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Final

_COMPARED: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_COUNTED: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_OTHERS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
_LEFT_ALONE: Final = {"annotation", "returns", "decorator_list", "type_params"}
_CHOICES: Final = {
    ast.Module: (ast.Assign, ast.AnnAssign),
    ast.ClassDef: (ast.AnnAssign, ast.keyword),
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change.

    Args:
        place: the function or class, `Class.method`; `module` outside of any.
        change: what stood there and what stands there now.
        line: where, in the module.
        tree: the whole module with the change.
    """

    place: str
    change: str
    line: int
    tree: ast.Module


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of the source."""
    tree = ast.parse(source)
    for number, (place, node, _) in enumerate(_nodes(tree)):
        for change in range(len(_changed(node))):
            fresh = deepcopy(tree)
            _, target, put = list(_nodes(fresh))[number]
            before = _text(target)
            made = _changed(target)[change]
            put(made)
            ast.fix_missing_locations(fresh)
            yield Mutant(place, f"{before} -> {_text(made)}", node.lineno, fresh)


class _Put:
    """Puts another node in the place of one."""

    def __init__(self, parent: ast.AST, field: str, index: int | None) -> None:
        self._parent, self._field, self._index = parent, field, index

    def __call__(self, node: ast.AST) -> None:
        if self._index is None:
            setattr(self._parent, self._field, node)
        else:
            getattr(self._parent, self._field)[self._index] = node


Node = ast.expr | ast.stmt


def _nodes(tree: ast.AST, place: str = "") -> Iterator[tuple[str, Node, _Put]]:
    """Each node that may change, with its place and a way to put another one there."""
    for field, value in ast.iter_fields(tree):
        if field in _LEFT_ALONE:
            continue
        children = value if isinstance(value, list) else [value]
        for index, child in enumerate(children):
            if not isinstance(child, ast.AST) or _says_only(child):
                continue
            if isinstance(child, _CHOICES.get(type(tree), ())):
                continue
            if isinstance(child, ast.expr | ast.stmt):
                put = _Put(tree, field, index if children is value else None)
                yield place or "module", child, put
            yield from _nodes(child, _inside(child, place))


def _inside(node: ast.AST, place: str) -> str:
    """The place of what stands in a node."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return f"{place}.{node.name}".lstrip(".")
    return place


def _says_only(node: ast.AST) -> bool:
    """Whether a node is a text for people or the type checker, an import or a log line."""
    if isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr):
        return True
    if not isinstance(node, ast.Expr):
        return False
    call = node.value
    if isinstance(call, ast.Call):
        return ast.unparse(call.func).startswith(("log.", "assert_never"))
    return isinstance(call, ast.Constant)


def _changed(node: ast.AST) -> list[Node]:
    """What may stand in the place of a node."""
    match node:
        case ast.Compare(ops=[operator]):
            return [_with(node, ops=[other()]) for other in _COMPARED[type(operator)]]
        case ast.BoolOp(op=operator, values=values):
            other = ast.Or() if isinstance(operator, ast.And) else ast.And()
            return [_with(node, op=other), *values]
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            return [operand]
        case ast.BinOp(op=operator) if type(operator) in _COUNTED:
            return [_with(node, op=_COUNTED[type(operator)]())]
        case ast.AugAssign(op=operator) if type(operator) in _COUNTED:
            return [_with(node, op=_COUNTED[type(operator)]())]
        case ast.Constant(value=bool(value)):
            return [ast.copy_location(ast.Constant(not value), node)]
        case ast.Constant(value=int(value) | float(value)):
            return [ast.copy_location(ast.Constant(value + 1), node)]
        case ast.Call(func=ast.Name(id=name)) if name in _OTHERS:
            return [_with(node, func=ast.Name(_OTHERS[name], ast.Load()))]
        case ast.IfExp(body=body, orelse=orelse):
            return [body, orelse]
        case ast.If(test=test) | ast.While(test=test) if not isinstance(
            test, ast.Compare | ast.BoolOp
        ):
            return [_with(node, test=ast.UnaryOp(ast.Not(), test))]
        case ast.Expr(value=ast.Call() | ast.Await()):
            return [ast.copy_location(ast.Pass(), node)]
        case _:
            return []


def _with(node: Node, **fields: object) -> Node:
    """A copy of a node with some fields of its own."""
    made = type(node)(**dict(ast.iter_fields(node)) | fields)
    return ast.copy_location(made, node)


def _text(node: ast.AST) -> str:
    line = " ".join(ast.unparse(node).split())
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"


_WIDTH: Final = 60
