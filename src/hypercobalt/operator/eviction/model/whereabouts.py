"""Where an instance that has left is: read once at the end of its Eviction."""

from __future__ import annotations

from dataclasses import dataclass

from hypercobalt.compute.model import Server, ServerAction


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """What is seen of an instance that has left its host.

    Args:
        server: as the compute service has it; None: not read since its new host's node agent
            reports its guest and the service does not show it in ERROR, or there is none.
        runs_on: host whose node agent reports that its guest runs; "" for none.
        unread: why it could not be read; "" once it was.
        requests: of its owner, newest first; read for one that is off.
    """

    server: Server | None = None
    runs_on: str = ""
    unread: str = ""
    requests: tuple[ServerAction, ...] = ()
