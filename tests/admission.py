"""What a guard of pages answers, as an HTTP status."""

from __future__ import annotations

from hypercobalt.runtime.endpoints import Guard
from hypercobalt.runtime.routes import Answer, Request


async def admitted(guard: Guard, token: str, verb: str = "get", path: str = "/metrics") -> int:
    """The status for a token; 200 admits it."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    found = await guard.admits(Request(verb.upper(), path, "", headers), None)
    return found.status if isinstance(found, Answer) else 200
