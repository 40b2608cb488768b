"""How CEL rules name fields that are no CEL identifiers.

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


def escape(name: str) -> str:
    """The name of a field as rules write it."""
    if _RESERVED.fullmatch(name):
        return f"__{name}__"
    return _SPECIAL.sub(lambda match: _ESCAPES[match[0]], name)
