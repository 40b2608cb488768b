"""The frame of a process that a command becomes: its settings, client, pages and end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

from hypercobalt import logs
from hypercobalt.errors import HypercobaltError, InvalidRequestError
from hypercobalt.kubeconfig import Connection
from hypercobalt.launch import ProcessSettings, S, received
from hypercobalt.runtime.allocator import use_one_arena
from hypercobalt.runtime.client.kube import Kube
from hypercobalt.runtime.client.transport import Limits
from hypercobalt.runtime.endpoints import Guard
from hypercobalt.runtime.guard import METRICS, guard
from hypercobalt.runtime.leader import Election
from hypercobalt.runtime.manager import Manager
from hypercobalt.runtime.memory import bound_memory
from hypercobalt.runtime.metrics import Metrics

log = logs.get_logger(__name__)

STOP_DEADLINE: Final = timedelta(seconds=20)
"""How long controllers may take to finish their passes, unless a process sets less."""


def main(kind: type[S], run: Callable[[S], Coroutine[None, None, None]]) -> int:
    """Run a process with the settings of its one argument; return the exit code.

    That is 2 for a setting that cannot be used, as of every command, and 1 for other errors.
    """
    logs.configure()
    use_one_arena()  # threads that wait for libvirt or OpenStack: 9 MiB at 400 hosts
    bound_memory()
    try:
        settings = received(sys.argv[1], kind)
        logs.configure(level=settings.log_level, text=settings.log_text)
        asyncio.run(run(settings))
    except HypercobaltError as error:
        log.critical("process_failed", error=str(error))
        return 2 if isinstance(error, InvalidRequestError) else 1
    return 0


@asynccontextmanager
async def managed(
    settings: ProcessSettings,
    connection: Connection,
    field_manager: str,
    *,
    limits: Limits | None = None,
    election: Election | None = None,
    stop_deadline: timedelta = STOP_DEADLINE,
) -> AsyncGenerator[Manager]:
    """A manager with a client of its own, and the pages that the settings name.

    Raises:
        ConfigurationError: a setting cannot be used.
    """
    metrics = Metrics()
    async with Kube(
        connection, field_manager=field_manager, limits=limits, metrics=metrics
    ) as kube:
        secure = settings.metrics is not None and settings.metrics_secure
        yield Manager(
            kube,
            metrics=metrics,
            election=election,
            address=settings.health,
            metrics_address=settings.metrics,
            metrics_guard=_guard(kube, settings) if secure else None,
            stop_deadline=stop_deadline,
        )


def _guard(kube: Kube, settings: ProcessSettings) -> Guard:
    return guard(
        kube,
        METRICS,
        settings.metrics_certificate,
        accepts_api_server_tokens=settings.metrics_accept_api_server_tokens,
    )
