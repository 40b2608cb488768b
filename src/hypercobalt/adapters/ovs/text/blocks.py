"""Replies of ovs-vswitchd in blocks, each with a line that names it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError


def blocks(command: str, header: re.Pattern[str], text: str) -> Iterator[tuple[str, list[str]]]:
    """Names and lines of the blocks of a reply.

    Args:
        command: for the error.
        header: of a block, with its name as the first group.
        text: the reply.

    Raises:
        SwitchError: MALFORMED, for text before the first block.
    """
    name: str | None = None
    lines: list[str] = []
    for line in text.splitlines():
        if found := header.match(line):
            if name is not None:
                yield name, lines
            name, lines = found[1], []
        elif name is not None:
            lines.append(line)
        elif line.strip():
            raise SwitchError(
                ProducerFault.MALFORMED, f"{command}: {line[:80]!r} belongs to no block"
            )
    if name is not None:
        yield name, lines
