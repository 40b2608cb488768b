"""The Event of each use: person, use, duration, result.

It is stored before its requester gets anything, so no use goes without. Refusals are recorded
within a budget of their own: a client that floods an agent with those hides no use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hypercobalt.api.meta import Object
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.runtime.events import Recorder

log = get_logger(__name__)

USED: Final = "DiagnosticsUsed"
BEGUN: Final = "DiagnosticsBegun"
ENDED: Final = "DiagnosticsEnded"
REFUSED: Final = "DiagnosticsRefused"

_ACTION: Final = "Diagnosing"
_STORED_SECONDS: Final = 5.0
_MOST_VALUE: Final = 200  # characters of one parameter


@dataclass(frozen=True, slots=True)
class Records:
    """Writes the Events of uses and refusals.

    Args:
        recorder: of this server alone: refusals have its budget, and nothing else of the agent.
    """

    recorder: Recorder

    async def store(self, about: Object, reason: str, note: str) -> None:
        """Store the Event of a use.

        Raises:
            HypercobaltError: the API server did not take it.
        """
        shown = printable(note)
        log.info("diagnostics_used", reason=reason, note=shown)
        try:
            async with asyncio.timeout(_STORED_SECONDS):
                await self.recorder.store(about, "Normal", reason, shown, action=_ACTION)
        except TimeoutError as error:
            raise HypercobaltError(f"no answer within {_STORED_SECONDS:g} s") from error

    def refused(self, about: Object | None, note: str) -> None:
        """Take note of a refusal."""
        shown = printable(note)
        log.warning("diagnostics_refused", note=shown)
        if about is not None:
            self.recorder.record(about, "Warning", REFUSED, shown, action=_ACTION)


def described(name: str, parameters: Mapping[str, str]) -> str:
    """A use with its parameters, each cut to what an Event has room for."""
    shown = " ".join(f"{key}={value[:_MOST_VALUE]}" for key, value in parameters.items())
    return f"{name} ({shown})" if shown else name


def printable(text: str) -> str:
    """Text with names and parameters of clients, without what controls terminals."""
    return "".join(one if one.isprintable() else "?" for one in text)
