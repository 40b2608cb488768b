"""Why a definition is not passed on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_UNSEEN: Final = re.compile(r"[^A-Za-z0-9_.:-]")
_MOST_OF_NAME: Final = 40
_MOST_OF_PATH: Final = 8


class NotPortableError(ValueError):
    """The definition names what no other host may open, or what is not known to be safe.

    The message has the element and the rule, and no value but one that chooses a kind of device.
    """


def shown(name: str) -> str:
    """A name of a hostile document, as a message may have it."""
    return _UNSEEN.sub("?", name[:_MOST_OF_NAME])


def at(path: Iterable[str]) -> str:
    """An element by its path, the root left out: `<devices/serial>`."""
    tags = [shown(tag) for tag in path][1:_MOST_OF_PATH]
    return f"<{'/'.join(tags) or 'domain'}>"
