"""Paths that a definition may name. Lexical: whether links lie there, only the host sees."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from hypercobalt.adapters.libvirt.documents.portable.values import UUID

_COMPONENT: Final = r"[A-Za-z0-9_+@=:~][A-Za-z0-9_.+@=:~-]*"  # neither `.`, nor `..`, nor an option
_PLAIN: Final = re.compile(rf"(/{_COMPONENT})+")
_MOST: Final = 1024
_ENDING: Final = r"(\.[a-z0-9]{1,8}|_VARS\.(fd|qcow2)|_VARS\.[a-z0-9]{1,8}\.fd)?"


def is_plain(path: str) -> bool:
    """Whether a path is absolute, without `.`, `..`, empty or hidden components."""
    return len(path) <= _MOST and _PLAIN.fullmatch(path) is not None


def is_below(path: str, roots: Iterable[str]) -> bool:
    """Whether a plain path lies below one of some directories."""
    return is_plain(path) and any(path.startswith(f"{root}/") for root in roots)


def is_own_below(path: str, roots: Iterable[str], names: Iterable[str]) -> bool:
    """Whether a plain path is below a directory, and named so (`is_own`) there.

    A domain that has the directory's name would else have all that lies there.
    """
    own = tuple(names)
    return any(is_below(path, (root,)) and is_own(path.removeprefix(root), own) for root in roots)


def own_names(name: str, uuid: str) -> tuple[str, ...]:
    """Return the names after which files are a domain's own.

    Another domain's UUID is none: whoever defines a domain chooses its name.
    """
    own = uuid.lower()
    foreign = (found := UUID.pattern.match(name)) and found[0].lower() != own
    return (own,) if foreign else (own, name)


def is_own(path: str, names: Iterable[str]) -> bool:
    """Whether a component of the path is one of these names, alone or with one ending.

    A socket is replaced and a log appended to when a domain starts: another domain's must not be.
    """
    own = re.compile(f"({'|'.join(map(re.escape, names))}){_ENDING}")
    return any(own.fullmatch(component) for component in path.split("/"))
