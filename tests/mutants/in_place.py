"""Puts a mutant in the place of a module that is imported already.

Importing is most of what a mutant costs. A change inside a function needs none: the function gets
the changed code, which modules that imported it call. What changes elsewhere (a default, a field
of a class) needs the module to be imported again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Final

_OPTIMIZED: Final = 0x1
"""`inspect.CO_OPTIMIZED`: the code of a function, not of a class."""


def in_place(module: ModuleType, source: Path, tree: ast.Module) -> bool:
    """Give the module's function that differs in a tree its code there.

    Args:
        module: imported from `source`, unchanged.
        source: its file.
        tree: of the source with at most one change.

    Returns:
        Whether the module is now as in the tree; otherwise nothing was changed.
    """
    before = dict(_functions(_compiled(source.read_text(encoding="utf-8"), source)))
    after = dict(_functions(_compiled(tree, source)))
    differ = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
    if len(differ) != 1:
        return False
    (name,) = differ
    function = _found(module, name)
    if function is None or function.__code__ != before.get(name) or name not in after:
        return False
    function.__code__ = after[name]
    return True


def _compiled(text: str | ast.Module, source: Path) -> CodeType:
    return compile(text, str(source), "exec", dont_inherit=True)


def _functions(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    """The functions and methods below a code by their names, without those inside of others."""
    for one in code.co_consts:
        if not isinstance(one, CodeType):
            continue
        if one.co_flags & _OPTIMIZED:
            yield one.co_qualname, one
        else:  # the body of a class
            yield from _functions(one)


def _found(module: ModuleType, name: str) -> FunctionType | None:
    """The function of that name, if nothing is wrapped around it but a property or the like."""
    found: object = module
    for part in name.split("."):
        found = vars(found).get(part)
    if isinstance(found, property):
        found = found.fget
    if isinstance(found, staticmethod | classmethod):
        found = found.__func__
    return found if isinstance(found, FunctionType) and not hasattr(found, "__wrapped__") else None
