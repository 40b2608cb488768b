"""The words of CEL rules: how they name fields that are no CEL identifiers, and the old value.

Source: apiextensions types.go, ValidationRule.rule.
"""

from __future__ import annotations

import re

_RESERVED = re.compile(
    "true|false|null|in|as|break|const|continue|else|for|function|if|import|let|loop|package"
    "|namespace|return|var|void|while"
)
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_SPECIAL = re.compile(r"__|[.\-/]")

LITERAL = (
    r"[rR]?(?:'''[\s\S]*?'''|\"\"\"[\s\S]*?\"\"\")"
    r"|[rR](?:'[^']*'|\"[^\"]*\")|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
)
"""A string in a rule."""
OLD_SELF = r"(?<![\w.])(oldSelf)\b"
"""The variable, which is not a field of that name."""
_OLD_OR_LITERAL = re.compile(f"{LITERAL}|{OLD_SELF}")


def escape(name: str) -> str:
    """The name of a field as rules write it."""
    if _RESERVED.fullmatch(name):
        return f"__{name}__"
    return _SPECIAL.sub(lambda match: _ESCAPES[match[0]], name)


def reads_old(expression: str) -> bool:
    """Whether a rule compares a value with the one before it."""
    return any(match[1] for match in _OLD_OR_LITERAL.finditer(expression))
