"""The person for whom a server of ours asks another one, in a header of the request.

Who may name others is decided by the server that is asked (`resource_guard`).
"""

from __future__ import annotations

import base64
from typing import Final

import msgspec

from hypercobalt.runtime.routes import Answer, Requester, text

FORWARDED: Final = "hypercobalt-requester"
"""The header: base64 of JSON, since names of users may have any character."""


def naming(who: Requester) -> str:
    """The value of the header."""
    return base64.b64encode(msgspec.json.encode(who)).decode("ascii")


def forwarded(value: str) -> Requester | Answer:
    """The person that a value names, or the refusal."""
    try:
        found = msgspec.json.decode(base64.b64decode(value, validate=True), type=Requester)
    except (ValueError, RecursionError):  # of both decoders
        found = Requester("")
    if not found.user:
        return text(401, f"the header {FORWARDED} must name the person that is asked for")
    return found
