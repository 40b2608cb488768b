"""One recorded move of a server: what Nova reported of it, and when."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import msgspec

from hypercobalt.compute.model import Move, Server

FOLDER = Path(__file__).parent / "moves"


class Look(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the port reported at one time; one that is as the one before is left out.

    Args:
        at: by the clock of the reader.
        server: None once it is no longer on its first host.
        moves: records of its moves away from there, newest first.
    """

    at: datetime
    server: Server | None = None
    moves: tuple[Move, ...] = ()


class MoveTrace(msgspec.Struct, frozen=True):
    """A record.

    Args:
        source: where it was made: the versions, and by what.
        scenario: what was done.
        looks: in their order; the first one is from before anything was called.
    """

    source: str
    scenario: str
    looks: tuple[Look, ...]


def load(name: str) -> MoveTrace:
    """Load one record."""
    return msgspec.json.decode((FOLDER / f"{name}.json").read_bytes(), type=MoveTrace)


def save(name: str, trace: MoveTrace) -> None:
    """Keep a record."""
    text = msgspec.json.format(msgspec.json.encode(trace), indent=1)
    (FOLDER / f"{name}.json").write_bytes(text + b"\n")
