"""Tables and JSON on the terminal; their content may be hostile."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from hypercobalt.text import printable

Output = Annotated[Literal["text", "json"], Parameter(name=["--output", "-o"])]


def print_json(found: object) -> None:
    """Print what msgspec can encode, with indents; what a terminal would obey is escaped."""
    text = msgspec.json.format(msgspec.json.encode(found), indent=2).decode()
    print("".join(one if one == "\n" or one.isprintable() else _escaped(one) for one in text))


def _escaped(character: str) -> str:
    """A character of a string as JSON has it in ASCII."""
    return json.dumps(character)[1:-1]


def print_table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    """Print rows under their heads; without rows, `none` on the standard error."""
    lines = list(table(head, rows))
    if len(lines) == 1:
        print("none", file=sys.stderr)
        return
    for line in lines:
        print(printable(line))


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterable[str]:
    """Lines with columns as wide as their widest cell."""
    every = [head, *rows]
    widths = [max(len(row[place]) for row in every) for place in range(len(head))]
    for row in every:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "   ".join(cells).rstrip()


def number(value: int | None) -> str:
    """A number in a cell; `?` while it is not known."""
    return "?" if value is None else str(value)
