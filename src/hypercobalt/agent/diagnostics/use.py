"""What an agent offers to people: one use each, with the right that it needs and its bounds."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Final

from hypercobalt.errors import HypercobaltError
from hypercobalt.runtime.routes import Answer, Requester, Stream

VERBS: Final = {"GET": "get", "POST": "create"}
"""The verb of the right that each method needs, as for subresources of Kubernetes."""


class RefusedUseError(HypercobaltError):
    """The request is invalid: the message names the parameter and the remedy."""


class BusyError(HypercobaltError):
    """The limit of concurrent uses is reached."""


@dataclass(frozen=True, slots=True)
class UseRequest:
    """One request for a use.

    Args:
        parameters: of the query, decoded; only names that the use declares, each once.
        body: at most `Use.most` bytes.
        requester: the person, whose right is already checked.
    """

    parameters: Mapping[str, str]
    body: bytes
    requester: Requester


Handle = Callable[[UseRequest], Coroutine[None, None, Answer | Stream]]


@dataclass(frozen=True, slots=True)
class Use:
    """One thing that people may use, at `/v1/RESOURCE/NODE/NAME`.

    Args:
        name: last part of the path.
        right: subresource that a requester needs the verb on: `get` for GET, `create` for POST.
        handle: answers; raises RefusedUseError (400) or BusyError (429), and any other
            HypercobaltError where what is behind it does not answer (503).
        method: GET for what only reads, POST for what begins something.
        parameters: names that may be in the query. All that matters of a request belongs there: the
            Event of each use repeats it.
        most: length of a body, in bytes.
        seconds: until there is an answer, or a stream begins.
        lasts: seconds that a stream may take.
    """

    name: str
    right: str
    handle: Handle
    method: str = "GET"
    parameters: frozenset[str] = field(default_factory=frozenset[str])
    most: int = 0
    seconds: float = 10.0
    lasts: float = 60.0
